//! Errors about columns that a configuration names: with its key.

use std::path::Path;

use updraft_data::{ColumnKind, StrayValue, TableError, TableSchema};

use super::data_plan::DataPlan;
use super::schema_file::{missing_value, unknown_value};
use super::target_plan::TargetsPlan;
use super::targets::listed;
use crate::config::{ConfigError, shortened};
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
        TableError::MissingColumn { path, column, known }
            if let Some(delimiter) = unseen_delimiter(&known) =>
        {
            let reason = format!(
                "{}; if {delimiter}s divide its fields, set `data.delimiter` to \"{delimiter}\"",
                single_field(&path, &column, &known)
            );
            RunError::Unusable { reason }
        }
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
            match &plan.features {
                Some(features) => {
                    refuse("data.features", format!("{features:?}"), of_file("columns"))
                }
                None => RunError::Unusable {
                    reason: format!(
                        "{file} has no column `{column}`, which is a feature of the other files; it \
                         has {}",
                        listed(&known)
                    ),
                },
            }
        }
        TableError::Header { path, line } => RunError::Unusable {
            reason: format!(
                "`{}` line {line} has the names of `data.columns`: leave out `data.columns`, which is \
                 for files without a header, or remove the line",
                path.display()
            ),
        },
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
        TableError::Refused { path, line, column, word } if let Some((_, file)) = &plan.columns => {
            let place = format!("`{}` line {line}", path.display());
            let reason = match word {
                Some(word) => unknown_value(&place, &column, &word, file),
                None => missing_value(&place, &column, file),
            };
            RunError::Unusable { reason }
        }
        other => other.into(),
    }
}

/// The error of a value that is no number or date where nearly all others of its column are.
pub(super) fn of_stray(stray: &StrayValue, place: &str, column: &str) -> RunError {
    let StrayValue { kind, text, of_kind, values, .. } = stray;
    let what = if *kind == ColumnKind::Date { "date" } else { "number" };
    let text = shortened(text);
    // Such as 1e400, which is infinite as f64.
    let is_too_large = text.bytes().any(|byte| byte.is_ascii_digit())
        && text.parse::<f64>().is_ok_and(f64::is_infinite);
    let is_none = match is_too_large {
        true => "is beyond the range of f64, which ends at 1.8e308".to_owned(),
        false => format!("is no {what}"),
    };
    let reason = format!(
        "{place}, column `{column}`: `{text}` {is_none}, and {of_kind} of the {values} values of \
         the training rows are {what}s; correct it, add it to `data.missing` if it stands for a \
         missing value, or name the column in `data.categories`"
    );
    RunError::Unusable { reason }
}

/// The error of a header that a run's model cannot predict from.
pub(super) fn of_later_header(error: RunError, missing: &[String]) -> RunError {
    let RunError::Table(TableError::MissingColumn { path, column, known }) = error else {
        return error;
    };
    let is_value = |name: &String| ColumnKind::Number.takes(name) || missing.contains(name);
    let reason = if unseen_delimiter(&known).is_some() {
        format!(
            "{}; files that end in `.tsv` have tabs between fields, others what `data.delimiter` of \
             the run says",
            single_field(&path, &column, &known)
        )
    } else if known.iter().any(is_value) {
        format!(
            "`{}` has no column `{column}`: its first line, which is read as the names of the \
             columns, has {}; add a line with the names",
            path.display(),
            listed(&known)
        )
    } else {
        return RunError::Table(TableError::MissingColumn { path, column, known });
    };
    RunError::Unusable { reason }
}

/// The delimiter in the single field of a header, which is read with another one.
fn unseen_delimiter(known: &[String]) -> Option<&'static str> {
    let [only] = known else { return None };
    let named = [('\t', "tab"), (';', "semicolon"), (',', "comma"), ('|', "pipe")];
    named.into_iter().find(|(character, _)| only.contains(*character)).map(|(_, name)| name)
}

fn single_field(path: &Path, column: &str, known: &[String]) -> String {
    let shown = listed(known).escape_debug().to_string();
    format!("`{}` has no column `{column}`: its header is the single field {shown}", path.display())
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
        TableError::Refused { path, line, column, word: Some(word) } => {
            unknown_value(&format!("`{}` line {line}", path.display()), &column, &word, file)
        }
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
