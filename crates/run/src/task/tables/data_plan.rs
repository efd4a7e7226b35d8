//! The keys of `data`: the source of rows, and the content of their columns.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use updraft_data::{Delimiter, Scaling, TableSchema};

use super::target_plan::TargetsPlan;
use crate::config::{ConfigError, Edit, Key, Keys, Settings};
use crate::error::RunError;
use crate::task::place::{Place, has_repeats, refuse_folder};

const SOURCE: Key<SourceName> =
    Key::new("data.source", "`generated`: a table of drugs and gene variants, or `files`")
        .default(r#""generated""#)
        .edit(Edit::Reported);
const TRAIN_ROWS: Key<usize> = Key::new("data.train_rows", "generated only")
    .default("2000")
    .edit(Edit::Reported)
    .check("10 to 10000000 rows", |rows| (10..=10_000_000).contains(rows));
const TEST_ROWS: Key<usize> = Key::new("data.test_rows", "generated only")
    .default("500")
    .edit(Edit::Reported)
    .check("10 to 10000000 rows", |rows| (10..=10_000_000).contains(rows));
const FILES: Key<Vec<PathBuf>> = Key::new(
    "data.files",
    "files only: CSV or TSV files with the same columns for training and, without `data.test_files`, for testing",
)
.edit(Edit::Reported)
.check("a list of at least one file, none of them twice", |files| {
    !files.is_empty() && !has_repeats(files)
});
const TEST_FILES: Key<Vec<PathBuf>> =
    Key::new("data.test_files", "files only: test files with the same columns")
        .default("[]")
        .edit(Edit::Reported)
        .check("a list of files, none of them twice", |files| !has_repeats(files));
const DIR: Key<PathBuf> =
    Key::new("data.dir", "the data folder; `--data` takes precedence").edit(Edit::Free);
const HOW_TO_GET: Key<String> =
    Key::new("data.how_to_get", "printed when the data is missing").edit(Edit::Free);
const DELIMITER: Key<Delimiter> = Key::new("data.delimiter", "files only: or `semicolon`, `tab`")
    .default(r#""comma""#)
    .edit(Edit::Reported);
const COLUMNS: Key<Vec<String>> =
    Key::new("data.columns", "files only: the names of all columns, for files without a header")
        .check("a list of at least two names, none of them twice", |columns| {
            columns.len() > 1 && !has_repeats(columns)
        });
const FEATURES: Key<Vec<String>> =
    Key::new("data.features", "the columns that the targets are predicted from")
        .depends("every column that is neither a target nor in `data.leave_out`")
        .check("a list of at least one column, none of them twice", |features| {
            !features.is_empty() && !has_repeats(features)
        });
const LEAVE_OUT: Key<Vec<String>> =
    Key::new("data.leave_out", "columns that are not features; only without `data.features`")
        .default("[]")
        .check("a list of columns, none of them twice", |columns| !has_repeats(columns));
const NUMBERS: Key<Vec<String>> = Key::new(
    "data.numbers",
    "features that are numbers; unnamed ones are numbers if every value of the training rows is one, otherwise categories",
)
.default("[]")
.check("a list of columns, none of them twice", |columns| !has_repeats(columns));
const CATEGORIES: Key<Vec<String>> =
    Key::new("data.categories", "features that hold categories, such as codes made of digits")
        .default("[]")
        .check("a list of columns, none of them twice", |columns| !has_repeats(columns));
const LISTS: Key<BTreeMap<String, char>> = Key::new(
    "data.lists",
    "features with any number of words in a field: a table of column and separator",
)
.default("{}");
const MISSING: Key<Vec<String>> = Key::new(
    "data.missing",
    "fields that stand for a missing value, without the spaces around them",
)
.default(r#"["", "?", "NA", "N/A", "NaN", "nan", "null"]"#);
const REPLACE: Key<BTreeMap<String, BTreeMap<String, String>>> = Key::new(
    "data.replace",
    "replacements of field texts per column, such as `{ income = { \">50K.\" = \">50K\" } }`",
)
.default("{}");
const MIN_ROWS: Key<u64> = Key::new(
    "data.min_rows",
    "words in fewer training rows are unknown, like words that no training row has",
)
.default("1")
.check("at least 1", |rows| *rows >= 1);
const SCALING: Key<Scaling> = Key::new(
    "data.scaling",
    "scaling of numbers: by their rank to a normal distribution, or `standard`: mean 0 and standard deviation 1",
)
.default(r#""quantile""#);
const UNKNOWN_SHARE: Key<f64> = Key::new(
    "data.unknown_share",
    "fraction of the categories of training rows that are replaced by unknown, drawn again in each epoch: this trains the embedding of unknown words",
)
.default("0.01")
.edit(Edit::Reported)
.check("at least 0 and below 1", |share| (0.0..1.0).contains(share));
const TEST_FRACTION: Key<f64> = Key::new(
    "data.test_fraction",
    "files only, without `data.test_files`: fraction of the rows held out, stratified by `data.stratify`",
)
.default("0.2")
.edit(Edit::Reported)
.check("above 0 and below 1", |share| *share > 0.0 && *share < 1.0);
const STRATIFY: Key<String> = Key::new(
    "data.stratify",
    "files only, without `data.test_files`: the target for the stratified split",
)
.depends("the first target by name")
.edit(Edit::Reported);

/// The keys of `data`.
pub(super) const KEYS: Keys = &[
    &SOURCE,
    &TRAIN_ROWS,
    &TEST_ROWS,
    &FILES,
    &TEST_FILES,
    &DIR,
    &HOW_TO_GET,
    &DELIMITER,
    &COLUMNS,
    &FEATURES,
    &LEAVE_OUT,
    &NUMBERS,
    &CATEGORIES,
    &LISTS,
    &MISSING,
    &REPLACE,
    &MIN_ROWS,
    &SCALING,
    &UNKNOWN_SHARE,
    &TEST_FRACTION,
    &STRATIFY,
];

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum SourceName {
    Generated,
    Files,
}

/// The source of rows, and the content of their columns.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct DataPlan {
    pub(super) source: Source,
    pub(super) features: Option<Vec<String>>,
    pub(super) leave_out: Vec<String>,
    pub(super) numbers: Vec<String>,
    pub(super) categories: Vec<String>,
    pub(super) lists: BTreeMap<String, char>,
    pub(super) missing: Vec<String>,
    pub(super) replace: BTreeMap<String, BTreeMap<String, String>>,
    pub(super) min_rows: u64,
    pub(super) scaling: Scaling,
    pub(super) unknown_share: f64,
}

/// The source of rows.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Source {
    /// Generated by `updraft_data::interaction_csv`.
    Generated { train_rows: usize, test_rows: usize },
    /// Files with the same columns.
    Files(FilesPlan),
}

/// Files with the same columns.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct FilesPlan {
    pub(super) dir: Option<PathBuf>,
    pub(super) files: Vec<PathBuf>,
    pub(super) delimiter: Delimiter,
    /// The names of all columns, for files without a header.
    pub(super) columns: Option<Vec<String>>,
    pub(super) how_to_get: Option<String>,
    pub(super) test: TestRows,
}

/// The test rows.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum TestRows {
    /// Those of separate files.
    Files(Vec<PathBuf>),
    /// A stratified fraction of the rows.
    Share { fraction: f64, stratify: String },
}

impl DataPlan {
    /// Reads the keys of the chosen source.
    pub(super) fn read(settings: &Settings) -> Result<(Self, TargetsPlan), ConfigError> {
        let source = settings.value(&SOURCE)?;
        let targets = TargetsPlan::read(settings, source == SourceName::Generated)?;
        let is_target = |name: &String| targets.targets.contains_key(name);
        let source = match source {
            SourceName::Generated => Source::Generated {
                train_rows: settings.value(&TRAIN_ROWS)?,
                test_rows: settings.value(&TEST_ROWS)?,
            },
            SourceName::Files => Source::Files(FilesPlan::read(settings, &targets)?),
        };
        let features = settings.option(&FEATURES)?;
        let leave_out = match features {
            Some(_) => Vec::new(),
            None => settings.value(&LEAVE_OUT)?,
        };
        if let Some(target) = features.iter().flatten().find(|name| is_target(name)) {
            let expected = format!("a list without `{target}`, which is a target");
            return Err(settings.refuse_given("data.features", &expected));
        }
        let plan = Self {
            source,
            features,
            leave_out,
            numbers: settings.value(&NUMBERS)?,
            categories: settings.value(&CATEGORIES)?,
            lists: settings.value(&LISTS)?,
            missing: settings.value(&MISSING)?,
            replace: settings.value(&REPLACE)?,
            min_rows: settings.value(&MIN_ROWS)?,
            scaling: settings.value(&SCALING)?,
            unknown_share: settings.value(&UNKNOWN_SHARE)?,
        };
        plan.check_kinds(settings, &is_target)?;
        Ok((plan, targets))
    }

    /// Returns an error for columns with two kinds, for columns that are both features and targets,
    /// and for missing columns.
    fn check_kinds(
        &self,
        settings: &Settings,
        is_target: &dyn Fn(&String) -> bool,
    ) -> Result<(), ConfigError> {
        let lists: Vec<String> = self.lists.keys().cloned().collect();
        let columns = match &self.source {
            Source::Files(FilesPlan { columns: Some(columns), .. }) => Some(columns),
            _ => None,
        };
        let is_feature = |name: &String| match &self.features {
            Some(features) => features.contains(name),
            None => !self.leave_out.contains(name),
        };
        let mut seen: BTreeSet<&String> = BTreeSet::new();
        for (key, names) in [
            ("data.numbers", &self.numbers),
            ("data.categories", &self.categories),
            ("data.lists", &lists),
        ] {
            for name in names {
                let refuse = |expected: String| Err(settings.refuse_given(key, &expected));
                if is_target(name) {
                    return refuse(format!("columns without `{name}`, which is a target"));
                }
                if !seen.insert(name) {
                    return refuse(format!("columns without `{name}`, which is of another kind"));
                }
                if !is_feature(name) {
                    return refuse(format!("columns of the features, and `{name}` is none"));
                }
            }
        }
        let Some(columns) = columns else { return Ok(()) };
        for (key, names) in [
            ("data.features", self.features.as_deref().unwrap_or_default()),
            ("data.leave_out", &self.leave_out),
            ("data.numbers", &self.numbers),
            ("data.categories", &self.categories),
            ("data.lists", &lists),
        ] {
            if let Some(unknown) = names.iter().find(|name| !columns.contains(name)) {
                let expected = format!("columns of `data.columns`, which has no `{unknown}`");
                return Err(settings.refuse_given(key, &expected));
            }
        }
        if let Some(unknown) = self.replace.keys().find(|name| !columns.contains(name)) {
            let expected =
                format!("a table of columns of `data.columns`, which has no `{unknown}`");
            return Err(settings.refuse_given("data.replace", &expected));
        }
        Ok(())
    }

    /// Training and test files, found in the data folder; empty for generated rows.
    pub(super) fn find(&self, dir: Option<&Path>) -> Result<[Vec<PathBuf>; 2], RunError> {
        match &self.source {
            Source::Generated { .. } => refuse_folder(dir).map(|()| [Vec::new(), Vec::new()]),
            Source::Files(plan) => {
                let dir = dir.or(plan.dir.as_deref());
                let place = Place { dir, how_to_get: plan.how_to_get.as_deref() };
                let test: &[PathBuf] = match &plan.test {
                    TestRows::Files(files) => files,
                    TestRows::Share { .. } => &[],
                };
                let mut found = place.find(&plan.files.iter().chain(test).collect::<Vec<_>>())?;
                let test = found.split_off(plan.files.len());
                Ok([found, test])
            }
        }
    }

    /// The delimiter of fields.
    pub(super) fn delimiter(&self) -> Delimiter {
        match &self.source {
            Source::Generated { .. } => Delimiter::Comma,
            Source::Files(plan) => plan.delimiter,
        }
    }

    /// A schema without columns, with the settings for reading every file of the run.
    pub(super) fn schema(&self) -> TableSchema {
        let schema = TableSchema::new()
            .with_missing(self.missing.clone())
            .with_replaced(self.replace.clone());
        match &self.source {
            Source::Files(FilesPlan { columns: Some(columns), .. }) => {
                schema.with_header(columns.clone())
            }
            _ => schema,
        }
    }
}

impl FilesPlan {
    fn read(settings: &Settings, targets: &TargetsPlan) -> Result<Self, ConfigError> {
        let files = settings.required(&FILES, "`data.source = \"files\"`")?;
        let test_files = settings.value(&TEST_FILES)?;
        if let Some(both) = files.iter().find(|file| test_files.contains(file)) {
            let expected = format!("files without `{}`, which is in `data.files`", both.display());
            return Err(settings.refuse_given("data.test_files", &expected));
        }
        let test = if test_files.is_empty() {
            let first = targets.targets.keys().next().cloned().unwrap_or_default();
            let stratify = settings.value_or(&STRATIFY, || first)?;
            if !targets.targets.contains_key(&stratify) {
                return Err(settings.refuse_given("data.stratify", "a target"));
            }
            TestRows::Share { fraction: settings.value(&TEST_FRACTION)?, stratify }
        } else {
            TestRows::Files(test_files)
        };
        let columns = settings.option(&COLUMNS)?;
        if let Some(columns) = &columns
            && let Some(target) = targets.targets.keys().find(|name| !columns.contains(name))
        {
            let expected = format!("a list of all columns, with the target `{target}`");
            return Err(settings.refuse_given("data.columns", &expected));
        }
        Ok(Self {
            dir: settings.option(&DIR)?,
            files,
            delimiter: settings.value(&DELIMITER)?,
            columns,
            how_to_get: settings.option(&HOW_TO_GET)?,
            test,
        })
    }
}
