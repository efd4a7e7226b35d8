//! The keys of a task with their defaults and meanings, as in `configs/README.md`.

use std::fmt::Write as _;

use toml::{Table, Value};

use super::key::{AnyKey, KeyDefault, default_text};
use super::plan::COMMON;
use super::tune;
use crate::task::TaskKind;

/// The table of a task's keys, in Markdown: those of every task, then its own.
#[must_use]
pub fn key_table(kind: &dyn TaskKind) -> String {
    let mut table = "| Key | Default | Meaning |\n|---|---|---|\n".to_owned();
    let inherit =
        "configs from which missing values are inherited; in files only, not with `--set`";
    let _ = writeln!(table, "| `inherit` | – | {inherit} |");
    for key in COMMON.iter().chain(kind.keys()).chain([&tune::KEYS]).copied().flatten() {
        let default = default_of(*key, kind);
        let _ = writeln!(table, "| `{}` | {default} | {} |", key.name(), key.meaning());
        for (name, default, meaning) in key.inner() {
            let _ = writeln!(table, "| `{}.{name}` | {default} | {meaning} |", key.name());
        }
    }
    table
}

/// In Markdown.
fn default_of(key: &dyn AnyKey, kind: &dyn TaskKind) -> String {
    let Some(text) = default_text(key, kind.defaults()) else {
        return match key.standard() {
            KeyDefault::Depends(markdown) => markdown.to_owned(),
            _ => "–".to_owned(),
        };
    };
    let table: Table = format!("v = {text}").parse().expect("a default is TOML");
    shown(&table["v"])
}

/// A value in Markdown: numbers in short form, and a table as its kind with its other keys.
fn shown(value: &Value) -> String {
    match value {
        Value::Float(number) => number.to_string(),
        Value::Integer(_) | Value::Boolean(_) => value.to_string(),
        Value::String(text) => format!("`{text}`"),
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
    use super::*;
    use crate::config::{ConfigError, Key, Keys, Settings, TaskDefault, TrainPlan};
    use crate::task::{TASKS, TaskPlan};

    #[test]
    fn every_default_has_the_type_of_its_key_and_is_allowed() {
        for kind in TASKS {
            for key in COMMON.iter().chain(kind.keys()).copied().flatten() {
                let Some(text) = default_text(*key, kind.defaults()) else { continue };
                let table: Table = format!("v = {text}").parse().expect("TOML");
                assert!(key.accepts(&table["v"]), "`{}` = {text}", key.name());
            }
        }
    }

    /// A task with defaults and a key of its own.
    struct Invented(&'static [TaskDefault]);

    impl TaskKind for Invented {
        fn name(&self) -> &'static str {
            "invented"
        }

        fn about(&self) -> &'static str {
            "nothing"
        }

        fn keys(&self) -> &'static [Keys] {
            const PETALS: Key<usize> = Key::new("data.petals", "counted").default("5");
            const KEYS: Keys = &[&PETALS];
            &[KEYS]
        }

        fn defaults(&self) -> &'static [TaskDefault] {
            self.0
        }

        fn trial(&self) -> &'static str {
            ""
        }

        fn plan(&self, _: &Settings, _: &TrainPlan) -> Result<Box<dyn TaskPlan>, ConfigError> {
            unreachable!("only its keys are read")
        }
    }

    #[test]
    fn the_table_of_keys_has_the_defaults_of_the_task_in_words() {
        let plain = key_table(&Invented(&[]));
        let other = &[("train.epochs", "60"), ("train.criterion", r#""test-accuracy""#)];
        let other = key_table(&Invented(other));
        for (table, row) in [
            (&plain, "| `train.epochs` | 10 |"),
            (&plain, "| `data.petals` | 5 | counted |"),
            (&plain, "| `train.clip_norm` | – |"),
            (&plain, "| `train.optimizer` | `adamw` with `weight_decay` 0.01 |"),
            (&plain, "| `train.criterion` | `test-loss` |"),
            (&other, "| `train.criterion` | `test-accuracy` |"),
            (&other, "| `train.epochs` | 60 |"),
            (&other, "| `data.petals` | 5 | counted |"),
        ] {
            assert!(table.contains(row), "{row} in {table}");
        }
    }

    /// The names in backquotes after the first "expected" of what serde reported.
    fn names(fault: &str) -> Vec<String> {
        let names = fault.split_once("expected ").map_or("", |(_, names)| names);
        names.split('`').skip(1).step_by(2).map(str::to_owned).collect()
    }

    #[test]
    fn the_keys_inside_a_table_are_those_that_its_type_has() {
        let mut described = 0;
        let keys = COMMON.into_iter().chain([tune::KEYS]).flatten();
        for key in keys.filter(|key| !key.inner().is_empty()) {
            let odd = |kind: Option<&String>| {
                let mut table = Table::from_iter([("?".to_owned(), Value::Boolean(true))]);
                table.extend(kind.map(|kind| ("kind".to_owned(), Value::String(kind.clone()))));
                // A kind without keys of its own takes any: serde passes over them.
                key.fault(&Value::Table(table)).unwrap_or_default()
            };
            let unknown = Table::from_iter([("kind".to_owned(), Value::String("?".to_owned()))]);
            let kinds = key.fault(&Value::Table(unknown)).unwrap_or_default();
            let mut expected = match kinds.starts_with("unknown variant ") {
                true => names(&kinds).iter().flat_map(|kind| names(&odd(Some(kind)))).collect(),
                false => names(&odd(None)),
            };
            expected.sort_unstable();
            expected.dedup();
            let mut found: Vec<&str> = key.inner().iter().map(|(name, ..)| *name).collect();
            found.sort_unstable();
            assert_eq!(found, expected, "`{}`", key.name());
            described += 1;
        }
        assert!(described >= 4, "{described}");
    }

    #[test]
    fn no_key_is_declared_twice() {
        for kind in TASKS {
            let keys = COMMON.iter().chain(kind.keys()).copied().flatten();
            let mut names: Vec<&str> = keys.map(|key| key.name()).collect();
            let count = names.len();
            names.sort_unstable();
            names.dedup();
            assert_eq!(names.len(), count, "{}", kind.name());
        }
    }

    #[test]
    fn a_default_of_a_task_names_a_key_that_there_is() {
        for kind in TASKS {
            for (name, _) in kind.defaults() {
                let mut keys = COMMON.into_iter().flatten();
                assert!(keys.any(|key| key.name() == *name), "`{name}`");
            }
        }
    }
}
