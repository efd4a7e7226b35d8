//! What a configuration is about, told before its keys are read.

use std::fmt;
use std::path::Path;

use serde::{Deserialize, Serialize};
use toml::{Table, Value};

use super::error::ConfigError;

/// More files than a configuration may come from lie no deeper.
const DEEPEST: usize = 8;

/// What a model learns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Task {
    /// The class of an image.
    #[default]
    ImageClassification,
    /// A number from the other numbers of a row.
    TabularRegression,
}

impl Task {
    /// The task that a table names; `None` where it names none.
    pub(crate) fn of(table: &Table) -> Result<Option<Self>, ConfigError> {
        let Some(value) = table.get("task") else { return Ok(None) };
        value.clone().try_into().map(Some).map_err(|_| ConfigError::Value {
            key: "task",
            value: value.to_string(),
            expected: "`image-classification` or `tabular-regression`".to_owned(),
        })
    }
}

impl fmt::Display for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ImageClassification => "image-classification",
            Self::TabularRegression => "tabular-regression",
        })
    }
}

/// The task of a configuration: that of `--set`, else of the file, else of the first file that it
/// inherits from and that names one.
///
/// What cannot be read names none: whoever reads it for its task says why.
pub(crate) fn task_of(text: &str, place: &Path, sets: &[String]) -> Result<Task, ConfigError> {
    let set = sets.iter().rev().find_map(|set| {
        let (key, value) = set.split_once('=')?;
        (key.trim() == "task").then(|| value.trim().trim_matches('"').to_owned())
    });
    if let Some(set) = set {
        let table = Table::from_iter([("task".to_owned(), Value::String(set))]);
        return Ok(Task::of(&table)?.unwrap_or_default());
    }
    Ok(named(text, place, DEEPEST)?.unwrap_or_default())
}

fn named(text: &str, place: &Path, deeper: usize) -> Result<Option<Task>, ConfigError> {
    let Ok(table) = text.parse::<Table>() else { return Ok(None) };
    if let Some(task) = Task::of(&table)? {
        return Ok(Some(task));
    }
    if deeper == 0 {
        return Ok(None);
    }
    let parents = match table.get("inherit") {
        Some(Value::String(parent)) => vec![parent.as_str()],
        Some(Value::Array(parents)) => parents.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    for parent in parents {
        let path = place.parent().unwrap_or(Path::new("")).join(parent);
        let Ok(text) = std::fs::read_to_string(&path) else { continue };
        if let Some(task) = named(&text, &path, deeper - 1)? {
            return Ok(Some(task));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_that_names_a_task_decides() {
        let dir = tempfile::tempdir().expect("temporary folder");
        let table = "task = \"tabular-regression\"\n";
        std::fs::write(dir.path().join("table.toml"), table).expect("written");
        std::fs::write(dir.path().join("plain.toml"), "seed = 1\n").expect("written");
        let place = dir.path().join("c.toml");
        let of = |text: &str, sets: &[&str]| {
            let sets: Vec<String> = sets.iter().map(|set| (*set).to_owned()).collect();
            task_of(text, &place, &sets)
        };
        let (images, rows) = (Task::ImageClassification, Task::TabularRegression);
        assert_eq!(of("", &[]).expect("none"), images);
        assert_eq!(of(table, &[]).expect("its own"), rows);
        let inherits = "inherit = [\"plain.toml\", \"table.toml\"]";
        assert_eq!(of(inherits, &[]).expect("inherited"), rows);
        let both = format!("{inherits}\ntask = \"image-classification\"");
        assert_eq!(of(&both, &[]).expect("its own first"), images);
        assert_eq!(of("", &["task=tabular-regression"]).expect("set"), rows);
        // A circle is told by whoever reads the file in earnest.
        assert_eq!(of("inherit = \"c.toml\"", &[]).expect("none"), images);
        let error = of("task = \"chess\"", &[]).expect_err("unknown").to_string();
        assert!(error.contains("`task`") && error.contains("tabular-regression"), "{error}");
    }
}
