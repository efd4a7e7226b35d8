//! The data part of a regression's plan.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::error::ConfigError;
use super::plan::value;

/// Where the rows come from; which keys are read depends on the source.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawTableData {
    pub(crate) source: Option<String>,
    pub(crate) dir: Option<PathBuf>,
    pub(crate) how_to_get: Option<String>,
    pub(crate) files: Option<Vec<PathBuf>>,
    pub(crate) delimiter: Option<DelimiterPlan>,
    pub(crate) columns: Option<Vec<String>>,
    pub(crate) features: Option<Vec<String>>,
    pub(crate) target: Option<String>,
    pub(crate) file_features: Option<bool>,
    pub(crate) test_fraction: Option<f64>,
    pub(crate) formula: Option<FormulaPlan>,
    pub(crate) noise: Option<f32>,
    pub(crate) train_rows: Option<usize>,
    pub(crate) test_rows: Option<usize>,
}

/// Where the rows come from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "source", rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) enum TableDataPlan {
    /// Drawn from a formula; the training rows alone have noise.
    Formula { formula: FormulaPlan, noise: f32, train_rows: usize, test_rows: usize },
    /// Files of one set of columns; of each tenth of the target's values a share is held out.
    Files {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        dir: Option<PathBuf>,
        files: Vec<PathBuf>,
        delimiter: DelimiterPlan,
        /// The names of all columns, where the files' first line is a row already.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        columns: Option<Vec<String>>,
        features: Vec<String>,
        target: String,
        /// Whether the file that a row is from is told by features of its own.
        file_features: bool,
        test_fraction: f64,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        how_to_get: Option<String>,
    },
}

/// A formula of [`updraft_data::Formula`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum FormulaPlan {
    ExpSinSquare,
    Friedman1,
    Product,
}

/// What divides the fields of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum DelimiterPlan {
    #[default]
    Comma,
    Semicolon,
    Tab,
}

/// Decides where the rows come from.
pub(super) fn decide_table_data(raw: RawTableData) -> Result<TableDataPlan, ConfigError> {
    let source = raw.source.clone().unwrap_or_else(|| "formula".to_owned());
    refuse_unread(&raw, &source)?;
    match source.as_str() {
        "formula" => {
            let (train_rows, test_rows) =
                (raw.train_rows.unwrap_or(2000), raw.test_rows.unwrap_or(1000));
            for (key, count) in [("data.train_rows", train_rows), ("data.test_rows", test_rows)] {
                if !(10..=10_000_000).contains(&count) {
                    return value(key, count.to_string(), "10 to 10000000 rows");
                }
            }
            let noise = raw.noise.unwrap_or(0.0);
            if !(noise.is_finite() && noise >= 0.0) {
                return value("data.noise", noise.to_string(), "a finite number of at least 0");
            }
            let formula = raw.formula.unwrap_or(FormulaPlan::ExpSinSquare);
            Ok(TableDataPlan::Formula { formula, noise, train_rows, test_rows })
        }
        "files" => decide_files(raw, source),
        other => value("data.source", format!("`{other}`"), "`formula` or `files`"),
    }
}

fn decide_files(raw: RawTableData, source_name: String) -> Result<TableDataPlan, ConfigError> {
    let missing = |key| ConfigError::Missing { source_name: source_name.clone(), key };
    let files = raw.files.filter(|files| !files.is_empty()).ok_or_else(|| missing("data.files"))?;
    let target = raw.target.ok_or_else(|| missing("data.target"))?;
    let features = match (raw.features, &raw.columns) {
        (Some(features), _) => features,
        (None, Some(columns)) => {
            columns.iter().filter(|column| **column != target).cloned().collect()
        }
        (None, None) => return Err(missing("data.features")),
    };
    if features.is_empty() {
        return value("data.features", "empty".to_owned(), "at least one column");
    }
    if features.contains(&target) {
        let given = format!("naming `{target}`, which is `data.target`");
        return value("data.features", given, "columns that are known when the target is not");
    }
    if let Some(columns) = &raw.columns
        && let Some(unknown) = features.iter().chain([&target]).find(|name| !columns.contains(name))
    {
        let given = format!("without `{unknown}`, which is a feature or the target");
        return value("data.columns", given, &format!("the names of all columns: {columns:?}"));
    }
    let test_fraction = raw.test_fraction.unwrap_or(0.2);
    if !(0.0 < test_fraction && test_fraction < 1.0) {
        return value("data.test_fraction", test_fraction.to_string(), "above 0 and below 1");
    }
    Ok(TableDataPlan::Files {
        dir: raw.dir,
        files,
        delimiter: raw.delimiter.unwrap_or_default(),
        columns: raw.columns,
        features,
        target,
        file_features: raw.file_features.unwrap_or(false),
        test_fraction,
        how_to_get: raw.how_to_get,
    })
}

/// A key that the source does not read is a mistake.
fn refuse_unread(raw: &RawTableData, source: &str) -> Result<(), ConfigError> {
    let given = [
        ("data.dir", raw.dir.is_some(), "files"),
        ("data.how_to_get", raw.how_to_get.is_some(), "files"),
        ("data.files", raw.files.is_some(), "files"),
        ("data.delimiter", raw.delimiter.is_some(), "files"),
        ("data.columns", raw.columns.is_some(), "files"),
        ("data.features", raw.features.is_some(), "files"),
        ("data.target", raw.target.is_some(), "files"),
        ("data.file_features", raw.file_features.is_some(), "files"),
        ("data.test_fraction", raw.test_fraction.is_some(), "files"),
        ("data.formula", raw.formula.is_some(), "formula"),
        ("data.noise", raw.noise.is_some(), "formula"),
        ("data.train_rows", raw.train_rows.is_some(), "formula"),
        ("data.test_rows", raw.test_rows.is_some(), "formula"),
    ];
    for (key, is_given, reader) in given {
        if ["files", "formula"].contains(&source) && is_given && reader != source {
            let expected = format!("only with `data.source` {reader}");
            return value(key, format!("given with source `{source}`"), &expected);
        }
    }
    Ok(())
}
