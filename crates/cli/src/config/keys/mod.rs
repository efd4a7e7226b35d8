//! Every key of a configuration with its default and its meaning, as `configs/README.md` has them.

mod of_images;
mod of_tables;

use std::fmt::Write as _;
use std::path::Path;

use toml::{Table, Value};

use super::error::ConfigError;
use super::plan::Plan;
use super::raw::{RawConfig, RawFile};
use super::regression::{RawRegression, RegressionPlan};
use super::task::Task;
use of_images::OF_IMAGES;
use of_tables::OF_TABLES;

/// A key, or several of one meaning.
#[derive(Debug, Clone, Copy)]
struct Key {
    names: &'static [&'static str],
    default: Shown,
    meaning: &'static str,
}

/// What a key is where no config gives it.
#[derive(Debug, Clone, Copy)]
enum Shown {
    /// What the plan of an empty config says, or nothing.
    Plan,
    /// What the plan says beside these settings, as there is no such key without them.
    Beside(&'static str),
    /// It depends on others; in Markdown.
    Told(&'static str),
}

/// The table of a task's keys, in Markdown.
pub(crate) fn key_table(task: Task) -> Result<String, ConfigError> {
    let mut table = "| Key | Default | Meaning |\n|---|---|---|\n".to_owned();
    for key in keys(task) {
        let names: Vec<String> = key.names.iter().map(|name| format!("`{name}`")).collect();
        let default = key.default_of(task)?;
        let _ = writeln!(table, "| {} | {default} | {} |", names.join(", "), key.meaning);
    }
    Ok(table)
}

const fn keys(task: Task) -> &'static [Key] {
    match task {
        Task::ImageClassification => OF_IMAGES,
        Task::TabularRegression => OF_TABLES,
    }
}

impl Key {
    /// In Markdown; names with the same default share it.
    fn default_of(&self, task: Task) -> Result<String, ConfigError> {
        let settings = match self.default {
            Shown::Plan => "",
            Shown::Beside(settings) => settings,
            Shown::Told(text) => return Ok(text.to_owned()),
        };
        let plan = plan_of(task, settings)?;
        let mut defaults: Vec<String> =
            self.names.iter().map(|name| find(&plan, name).map_or("–".to_owned(), shown)).collect();
        defaults.dedup();
        Ok(defaults.join(", "))
    }
}

/// The plan of a config with these settings alone.
fn plan_of(task: Task, settings: &str) -> Result<Table, ConfigError> {
    let place = Path::new("settings");
    let plan = match task {
        Task::ImageClassification => {
            Plan::decide(RawConfig::read(settings, place, &[])?.0)?.to_toml()
        }
        Task::TabularRegression => {
            RegressionPlan::decide(RawRegression::read(settings, place, &[])?.0)?.to_toml()
        }
    };
    Ok(plan.parse().expect("a plan writes TOML"))
}

fn find<'a>(plan: &'a Table, name: &str) -> Option<&'a Value> {
    match name.split_once('.') {
        None => plan.get(name),
        Some((table, name)) => plan.get(table)?.get(name),
    }
}

/// A value in Markdown: numbers as people write them, one for several that are equal, and a table
/// by its kind with what else it holds.
fn shown(value: &Value) -> String {
    match value {
        Value::Float(number) => number.to_string(),
        Value::Integer(_) | Value::Boolean(_) => value.to_string(),
        Value::String(text) => format!("`{text}`"),
        Value::Array(all) if all.len() > 1 && all.iter().all(|one| *one == all[0]) => {
            shown(&all[0])
        }
        Value::Table(table) if table.contains_key("kind") => {
            let others = table.iter().filter(|(name, _)| *name != "kind");
            let others: Vec<String> =
                others.map(|(name, value)| format!("`{name}` {}", shown(value))).collect();
            let with = if others.is_empty() { "" } else { " with " };
            format!("{}{with}{}", shown(&table["kind"]), others.join(", "))
        }
        _ => format!("`{value}`"),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn defaults_are_those_of_plans() {
        let of = |task, name| {
            let mut of_task = keys(task).iter();
            let key = of_task.find(|key| key.names.contains(&name)).expect("a key");
            key.default_of(task).expect("a default")
        };
        let images = Task::ImageClassification;
        assert_eq!(of(images, "train.epochs"), "10");
        assert_eq!(of(images, "data.mean"), "0.5, 0.25");
        assert_eq!(of(images, "data.class_column"), "`path`, `class`");
        assert_eq!(of(images, "train.clip_norm"), "–");
        assert_eq!(of(images, "train.optimizer"), "`adamw` with `weight_decay` 0.01");
        assert_eq!(of(Task::TabularRegression, "model.kind"), "`kan`");
    }

    #[test]
    fn a_default_that_differs_between_tasks_is_told_for_both() {
        let plans =
            [Task::ImageClassification, Task::TabularRegression].map(|task| plan_of(task, ""));
        let [images, tables] = plans.map(|plan| plan.expect("a plan"));
        let names = |task| keys(task).iter().flat_map(|key| key.names.iter().copied());
        let of_tables: BTreeSet<&str> = names(Task::TabularRegression).collect();
        for name in names(Task::ImageClassification) {
            let [of_image, of_table] = [&images, &tables].map(|plan| find(plan, name));
            let is_of_both = of_image.is_some() && of_table.is_some();
            let is_told = of_image == of_table || of_tables.contains(name);
            assert!(!is_of_both || is_told, "{name}");
        }
    }
}
