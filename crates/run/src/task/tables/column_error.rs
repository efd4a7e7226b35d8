//! Errors about columns that a configuration names: with its key.

use std::path::Path;

use updraft_data::{TableError, TableSchema};

use super::data_plan::DataPlan;
use super::schema_file::missing_value;
use super::target_plan::TargetsPlan;
use super::targets::listed;
use crate::config::ConfigError;
use crate::error::RunError;

/// Returns an error for a column that the plan names and that is not in the files.
pub(super) fn check_names(plan: &DataPlan, known: &[String]) -> Result<(), RunError> {
    let lists: Vec<String> = plan.lists.keys().cloned().collect();
    let replaced: Vec<String> = plan.replace.keys().cloned().collect();
    for (key, names) in [
        ("data.features", plan.features.as_deref().unwrap_or_default()),
        ("data.leave_out", &plan.leave_out),
        ("data.numbers", &plan.numbers),
        ("data.categories", &plan.categories),
        ("data.booleans", &plan.booleans),
        ("data.dates", &plan.dates),
        ("data.lists", &lists),
        ("data.replace", &replaced),
    ] {
        if let Some(unknown) = names.iter().find(|name| !known.contains(name)) {
            let value = format!("{names:?}");
            return Err(refuse(key, value, columns_of("columns", "the table", unknown, known)));
        }
    }
    Ok(())
}

/// The error of a table, about the key that decides what is read.
pub(super) fn of_table(error: TableError, plan: &DataPlan, targets: &TargetsPlan) -> RunError {
    match error {
        TableError::MissingColumn { path, column, known } => {
            let file = format!("`{}`", path.display());
            let of_file = |what: &str| columns_of(what, &file, &column, &known);
            if targets.targets.contains_key(&column) {
                let key = format!("targets.{column}");
                return refuse(&key, "given".to_owned(), of_file("a column"));
            }
            if plan.source.group() == Some(&column) {
                let value = format!("{column:?}");
                return refuse("data.group", value, of_file("a column"));
            }
            if let Some(schema) = &plan.schema_path {
                let value = format!("{:?}", schema.display().to_string());
                return refuse("data.schema", value, of_file("a file with columns"));
            }
            let value = format!("{:?}", plan.features.as_deref().unwrap_or_default());
            refuse("data.features", value, of_file("columns"))
        }
        TableError::Field { expected, path, line, column, text } => {
            let other = match targets.targets.contains_key(&column) {
                true => format!("set `targets.{column}.kind`"),
                false if plan.columns.is_some() => "change its kind in the schema".to_owned(),
                false => "name the column in `data.categories`".to_owned(),
            };
            let reason = format!(
                "`{}` line {line}, column `{column}`: expected {expected}, got `{text}`; correct \
                 it, add it to `data.missing` if it stands for a missing value, or {other}",
                path.display()
            );
            RunError::Unusable { reason }
        }
        other => other.into(),
    }
}

/// The error of a table that a run's model predicts: about the file of the run's schema, which
/// decides what is read.
pub(super) fn of_later_table(error: TableError, schema: &TableSchema, file: &Path) -> RunError {
    let reason = match error {
        TableError::Field { expected, path, line, column, text } => {
            let rules = schema.columns.iter().find(|other| other.name == column);
            let missing = match rules {
                Some(column) if column.rules.missing && !schema.missing.is_empty() => {
                    format!(", or write {} if it is missing", listed(&schema.missing))
                }
                _ => String::new(),
            };
            format!(
                "`{}` line {line}, column `{column}`: expected {expected}, got `{text}`; correct \
                 it{missing}",
                path.display()
            )
        }
        TableError::Refused { path, line, column, word: None } => {
            missing_value(&format!("`{}` line {line}", path.display()), &column, file)
        }
        TableError::Refused { path, line, column, word: Some(word) } => format!(
            "`{}` line {line}, column `{column}`: `{word}` is none of the values of the schema; \
             correct it, or set `unknown = true` for the column in `{}`",
            path.display(),
            file.display()
        ),
        other => return other.into(),
    };
    RunError::Unusable { reason }
}

fn columns_of(what: &str, table: &str, unknown: &str, known: &[String]) -> String {
    format!("{what} of {table}, which has no column `{unknown}`; it has {}", listed(known))
}

fn refuse(key: &str, value: String, expected: String) -> RunError {
    let (place, key) = (String::new(), key.to_owned());
    RunError::Config(ConfigError::Value { place, key, value, expected })
}
