//! A configuration file with the files it inherits from, laid over each other.

use std::path::{Path, PathBuf};

use toml::{Table, Value};

use super::error::ConfigError;
use super::raw::RawConfig;

/// The key that names the file whose values stand in for those that are left out.
const INHERIT: &str = "inherit";

/// More files than anybody needs on the way to one configuration.
const MOST_LAYERS: usize = 8;

/// A file's values, with the name that `explain` shows.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Layer {
    pub(crate) name: String,
    pub(crate) table: Table,
}

/// The file at `place` with the given text, then the file it inherits from, and so on.
///
/// Each is read on its own first, so that its faults carry its name and line.
pub(crate) fn layers(text: &str, place: &Path) -> Result<Vec<Layer>, ConfigError> {
    let mut layers = Vec::new();
    let (mut text, mut place) = (text.to_owned(), place.to_owned());
    let mut seen: Vec<PathBuf> = Vec::new();
    loop {
        let (_, mut table) = RawConfig::read(&text, &place, &[])?;
        let name = match layers.is_empty() {
            true => "file".to_owned(),
            false => place.display().to_string(),
        };
        let parent = table.remove(INHERIT);
        layers.push(Layer { name, table });
        seen.push(place.clone());
        let Some(Value::String(parent)) = parent else { return Ok(layers) };
        let parent = place.parent().unwrap_or(Path::new("")).join(parent);
        if seen.contains(&parent) || layers.len() >= MOST_LAYERS {
            return Err(ConfigError::Inherit { place, parent });
        }
        text = std::fs::read_to_string(&parent)
            .map_err(|source| ConfigError::Read { path: parent.clone(), source })?;
        place = parent;
    }
}

/// The first layer laid over the second, over the third, and so on.
///
/// Tables are merged key by key, but one with a `kind` takes the place of another as a whole: its
/// keys belong to its kind.
pub(crate) fn merged(layers: &[Layer]) -> Table {
    let mut table = Table::new();
    for layer in layers.iter().rev() {
        lay(&mut table, &layer.table);
    }
    table
}

fn lay(under: &mut Table, over: &Table) {
    for (key, value) in over {
        match (under.get_mut(key), value) {
            (Some(Value::Table(under)), Value::Table(over)) if !over.contains_key("kind") => {
                lay(under, over);
            }
            _ => {
                under.insert(key.clone(), value.clone());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layer(text: &str) -> Layer {
        Layer { name: String::new(), table: toml::from_str(text).expect("valid") }
    }

    #[test]
    fn tables_merge_key_by_key_but_kinds_replace_each_other() {
        let merged = merged(&[
            layer("[train]\nepochs = 3\nschedule = { kind = \"one-cycle\" }"),
            layer("[train]\nbatch = 8\nschedule = { kind = \"warmup-cosine\", warmup = 0.1 }"),
        ]);
        let train = merged["train"].as_table().expect("a table");
        assert_eq!((train["epochs"].as_integer(), train["batch"].as_integer()), (Some(3), Some(8)));
        assert_eq!(train["schedule"].as_table().expect("a table").len(), 1);
    }

    #[test]
    fn a_file_inherits_from_a_file_beside_it_and_never_from_itself() {
        let dir = tempfile::tempdir().expect("temporary folder");
        std::fs::create_dir(dir.path().join("profiles")).expect("created");
        let parent = dir.path().join("profiles/slow.toml");
        std::fs::write(&parent, "[train]\nepochs = 99\n").expect("written");
        let child = dir.path().join("c.toml");
        let text = "inherit = \"profiles/slow.toml\"\n";
        let found = layers(text, &child).expect("valid");
        assert_eq!(found.len(), 2);
        assert_eq!(merged(&found)["train"]["epochs"].as_integer(), Some(99));
        assert!(found[1].name.ends_with("slow.toml"));

        std::fs::write(&parent, "inherit = \"slow.toml\"\n").expect("written");
        let error = layers(text, &child).expect_err("a circle").to_string();
        assert!(error.contains("inherits"), "{error}");
        std::fs::write(&parent, "[train]\nepoch = 99\n").expect("written");
        let error = layers(text, &child).expect_err("unknown").to_string();
        assert!(error.contains("slow.toml:2: unknown key `epoch`"), "{error}");
        let error = layers("inherit = \"gone.toml\"", &child).expect_err("missing").to_string();
        assert!(error.contains("gone.toml"), "{error}");
    }
}
