//! The keys of `data`: the source of rows, and their columns.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use updraft_data::{Delimiter, Formula};

use crate::config::{ConfigError, Edit, Key, Keys, Settings};
use crate::error::RunError;
use crate::task::place::{Place, has_repeats, refuse_folder};

const SOURCE: Key<SourceName> =
    Key::new("data.source", "`formula` or `files`").default(r#""formula""#).edit(Edit::Reported);
const FORMULA: Key<FormulaPlan> = Key::new(
    "data.formula",
    "formula only: or `friedman1`, `product`, as in `updraft_data::Formula`",
)
.default(r#""exp-sin-square""#);
const NOISE: Key<f32> = Key::new(
    "data.noise",
    "formula only: standard deviation of the noise on the values of training rows",
)
.default("0.0")
.edit(Edit::Reported)
.check("a finite number of at least 0", |noise| noise.is_finite() && *noise >= 0.0);
const TRAIN_ROWS: Key<usize> = Key::new("data.train_rows", "formula only")
    .default("2000")
    .edit(Edit::Reported)
    .check("10 to 10000000 rows", |rows| (10..=10_000_000).contains(rows));
const TEST_ROWS: Key<usize> = Key::new("data.test_rows", "formula only")
    .default("1000")
    .edit(Edit::Reported)
    .check("10 to 10000000 rows", |rows| (10..=10_000_000).contains(rows));
const FILES: Key<Vec<PathBuf>> =
    Key::new("data.files", "files only: one or several, of the same columns")
        .edit(Edit::Reported)
        .check("a list of at least one file, none of them twice", |files| {
            !files.is_empty() && !has_repeats(files)
        });
const DIR: Key<PathBuf> =
    Key::new("data.dir", "the data folder; `--data` takes precedence").edit(Edit::Free);
const HOW_TO_GET: Key<String> =
    Key::new("data.how_to_get", "printed when the data is missing").edit(Edit::Free);
const DELIMITER: Key<Delimiter> = Key::new("data.delimiter", "files only: or `semicolon`, `tab`")
    .default(r#""comma""#)
    .edit(Edit::Reported);
const COLUMNS: Key<Vec<String>> =
    Key::new("data.columns", "the names of all columns, for files without a header")
        .check("a list of names, none of them twice", |columns| !has_repeats(columns));
const TARGET: Key<String> = Key::new("data.target", "the column to predict: a number");
const FEATURES: Key<Vec<String>> = Key::new(
    "data.features",
    "the columns it is predicted from; a missing number counts as the column's mean",
)
.depends("every other one of `data.columns`")
.check("a list of at least one column, none of them twice", |features| {
    !features.is_empty() && !has_repeats(features)
});
const CATEGORIES: Key<Vec<String>> = Key::new(
    "data.categories",
    "the categorical features: one input of 0 or 1 for each word of the training rows; missing and unknown words are all 0",
)
.default("[]")
.check("a list of columns, none of them twice", |columns| !has_repeats(columns));
const FILE_FEATURES: Key<bool> = Key::new(
    "data.file_features",
    "adds a feature for each file but the first: 1 for its own rows",
)
.default("false");
const TEST_FRACTION: Key<f64> = Key::new(
    "data.test_fraction",
    "files only: fraction of the rows held out, stratified by deciles of the target",
)
.default("0.2")
.edit(Edit::Reported)
.check("above 0 and below 1", |share| *share > 0.0 && *share < 1.0);

/// The keys of `data`.
pub(super) const KEYS: Keys = &[
    &SOURCE,
    &FORMULA,
    &NOISE,
    &TRAIN_ROWS,
    &TEST_ROWS,
    &FILES,
    &DIR,
    &HOW_TO_GET,
    &DELIMITER,
    &COLUMNS,
    &TARGET,
    &FEATURES,
    &CATEGORIES,
    &FILE_FEATURES,
    &TEST_FRACTION,
];

/// The source of rows.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum DataPlan {
    /// Generated from a formula; only the training rows have noise.
    Formula { formula: FormulaPlan, noise: f32, train_rows: usize, test_rows: usize },
    /// Files with the same columns; a fraction of each decile of the target is held out.
    Files(FilesPlan),
}

/// Files with the same columns.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct FilesPlan {
    pub(super) dir: Option<PathBuf>,
    pub(super) files: Vec<PathBuf>,
    pub(super) delimiter: Delimiter,
    /// The names of all columns, where the files' first line is a row already.
    pub(super) columns: Option<Vec<String>>,
    pub(super) features: Vec<String>,
    /// The categorical features.
    pub(super) categories: Vec<String>,
    pub(super) target: String,
    /// Whether to add features for the file of a row.
    pub(super) file_features: bool,
    pub(super) test_fraction: f64,
    pub(super) how_to_get: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum SourceName {
    Formula,
    Files,
}

/// A formula of [`updraft_data::Formula`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum FormulaPlan {
    ExpSinSquare,
    Friedman1,
    Product,
}

impl From<FormulaPlan> for Formula {
    fn from(plan: FormulaPlan) -> Self {
        match plan {
            FormulaPlan::ExpSinSquare => Self::ExpSinSquare,
            FormulaPlan::Friedman1 => Self::Friedman1,
            FormulaPlan::Product => Self::Product,
        }
    }
}

impl DataPlan {
    /// Reads the keys of the chosen source.
    pub(super) fn read(settings: &Settings) -> Result<Self, ConfigError> {
        match settings.value(&SOURCE)? {
            SourceName::Formula => Ok(Self::Formula {
                formula: settings.value(&FORMULA)?,
                noise: settings.value(&NOISE)?,
                train_rows: settings.value(&TRAIN_ROWS)?,
                test_rows: settings.value(&TEST_ROWS)?,
            }),
            SourceName::Files => Ok(Self::Files(FilesPlan::read(settings)?)),
        }
    }

    /// The files, found in the data folder; empty for a formula.
    pub(super) fn find(&self, dir: Option<&Path>) -> Result<Vec<PathBuf>, RunError> {
        match self {
            Self::Formula { .. } => refuse_folder(dir).map(|()| Vec::new()),
            Self::Files(files) => {
                let dir = dir.or(files.dir.as_deref());
                let place = Place { dir, how_to_get: files.how_to_get.as_deref() };
                place.find(&files.files.iter().collect::<Vec<_>>())
            }
        }
    }

    /// The name of the target.
    pub(super) fn target(&self) -> &str {
        match self {
            Self::Formula { .. } => "y",
            Self::Files(files) => &files.target,
        }
    }
}

impl FilesPlan {
    fn read(settings: &Settings) -> Result<Self, ConfigError> {
        const BECAUSE: &str = "`data.source = \"files\"`";
        let files = settings.required(&FILES, BECAUSE)?;
        let target = settings.required(&TARGET, BECAUSE)?;
        let columns = settings.option(&COLUMNS)?;
        let features = match &columns {
            None => settings.required(&FEATURES, "`data.files` without `data.columns`")?,
            Some(columns) => {
                let others = columns.iter().filter(|column| **column != target);
                settings.value_or(&FEATURES, || others.cloned().collect())?
            }
        };
        if features.contains(&target) {
            let expected = format!("a list without `{target}`, which is `data.target`");
            return Err(settings.refuse_given("data.features", &expected));
        }
        let known: BTreeSet<&String> = columns.iter().flatten().collect();
        if columns.is_some()
            && let Some(unknown) =
                features.iter().chain([&target]).find(|name| !known.contains(name))
        {
            let what = if *unknown == target { "data.target" } else { "data.features" };
            let expected = format!("a list of all columns, with `{unknown}` of `{what}`");
            return Err(settings.refuse_given("data.columns", &expected));
        }
        let categories = settings.value(&CATEGORIES)?;
        let known: BTreeSet<&String> = features.iter().collect();
        if let Some(other) = categories.iter().find(|name| !known.contains(name)) {
            let expected = format!("a list of columns of `data.features`, which has no `{other}`");
            return Err(settings.refuse_given("data.categories", &expected));
        }
        Ok(Self {
            dir: settings.option(&DIR)?,
            files,
            delimiter: settings.value(&DELIMITER)?,
            columns,
            features,
            categories,
            target,
            file_features: settings.value(&FILE_FEATURES)?,
            test_fraction: settings.value(&TEST_FRACTION)?,
            how_to_get: settings.option(&HOW_TO_GET)?,
        })
    }
}
