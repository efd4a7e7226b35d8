//! The keys of `data`: where the rows come from, and what their columns hold.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use updraft_data::{Delimiter, Scaling, TableSchema};

use super::target_plan::TargetsPlan;
use crate::config::{ConfigError, Edit, Key, Keys, Settings};
use crate::error::RunError;
use crate::task::place::{Place, has_repeats, refuse_folder};

const SOURCE: Key<SourceName> =
    Key::new("data.source", "`generated`: drugs that act through a variant of a gene, or `files`")
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
    "files only: CSV or TSV files of the same columns, to learn from, and where `data.test_files` are not given to test on",
)
.edit(Edit::Reported)
.check("a list of at least one file, none of them twice", |files| {
    !files.is_empty() && !has_repeats(files)
});
const TEST_FILES: Key<Vec<PathBuf>> =
    Key::new("data.test_files", "files only: files of the same columns, to test on")
        .default("[]")
        .edit(Edit::Reported)
        .check("a list of files, none of them twice", |files| !has_repeats(files));
const DIR: Key<PathBuf> =
    Key::new("data.dir", "the data folder; `--data` comes before it").edit(Edit::Free);
const HOW_TO_GET: Key<String> =
    Key::new("data.how_to_get", "printed when the data is missing").edit(Edit::Free);
const DELIMITER: Key<Delimiter> = Key::new("data.delimiter", "files only: or `semicolon`, `tab`")
    .default(r#""comma""#)
    .edit(Edit::Reported);
const COLUMNS: Key<Vec<String>> = Key::new(
    "data.columns",
    "files only: the names of all columns, where the first line is a row already",
)
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
    Key::new("data.leave_out", "columns that are no features; without `data.features` only")
        .default("[]")
        .check("a list of columns, none of them twice", |columns| !has_repeats(columns));
const NUMBERS: Key<Vec<String>> = Key::new(
    "data.numbers",
    "features that hold numbers; those that are named nowhere hold numbers where every value of the training rows is one, else categories",
)
.default("[]")
.check("a list of columns, none of them twice", |columns| !has_repeats(columns));
const CATEGORIES: Key<Vec<String>> =
    Key::new("data.categories", "features that hold categories, such as codes made of digits")
        .default("[]")
        .check("a list of columns, none of them twice", |columns| !has_repeats(columns));
const LISTS: Key<BTreeMap<String, char>> = Key::new(
    "data.lists",
    "features with any number of words in a field: a table of column and the character between words",
)
.default("{}");
const MISSING: Key<Vec<String>> = Key::new(
    "data.missing",
    "fields that stand for a missing value, without the spaces around them",
)
.default(r#"["", "?", "NA", "N/A", "NaN", "nan", "null"]"#);
const REPLACE: Key<BTreeMap<String, BTreeMap<String, String>>> = Key::new(
    "data.replace",
    "for columns a table of fields and what they are read as, such as `{ income = { \">50K.\" = \">50K\" } }`",
)
.default("{}");
const MIN_ROWS: Key<u64> = Key::new(
    "data.min_rows",
    "a word of fewer training rows is unknown, as one that no training row has",
)
.default("1")
.check("at least 1", |rows| *rows >= 1);
const SCALING: Key<Scaling> = Key::new(
    "data.scaling",
    "of numbers: by their rank to a normal distribution, or `standard`: mean 0 and standard deviation 1",
)
.default(r#""quantile""#);
const UNKNOWN_SHARE: Key<f64> = Key::new(
    "data.unknown_share",
    "share of the categories of training rows that are read as unknown, drawn anew in each epoch: what trains the vectors of unknown words",
)
.default("0.01")
.edit(Edit::Reported)
.check("at least 0 and below 1", |share| (0.0..1.0).contains(share));
const TEST_FRACTION: Key<f64> = Key::new(
    "data.test_fraction",
    "files only, without `data.test_files`: share of the rows held out, the same in each class or tenth of `data.stratify`",
)
.default("0.2")
.edit(Edit::Reported)
.check("above 0 and below 1", |share| *share > 0.0 && *share < 1.0);
const STRATIFY: Key<String> = Key::new(
    "data.stratify",
    "files only, without `data.test_files`: the target of which both parts have the same shares",
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

/// Where the rows come from, and what their columns hold.
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

/// Where the rows come from.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Source {
    /// Drawn by `updraft_data::interaction_csv`.
    Generated { train_rows: usize, test_rows: usize },
    /// Files of one set of columns.
    Files(FilesPlan),
}

/// Files of one set of columns.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct FilesPlan {
    pub(super) dir: Option<PathBuf>,
    pub(super) files: Vec<PathBuf>,
    pub(super) delimiter: Delimiter,
    /// The names of all columns, where the files' first line is a row already.
    pub(super) columns: Option<Vec<String>>,
    pub(super) how_to_get: Option<String>,
    pub(super) test: TestRows,
}

/// Which rows are tested on.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum TestRows {
    /// Those of files of their own.
    Files(Vec<PathBuf>),
    /// A share of the rows, with the same shares of a target's values.
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

    /// Refuses columns that are named as two kinds, or as features and targets, or that are not
    /// there.
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

    /// Training and test files, found in the data folder; none for generated rows.
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

    /// What divides the fields of a file.
    pub(super) fn delimiter(&self) -> Delimiter {
        match &self.source {
            Source::Generated { .. } => Delimiter::Comma,
            Source::Files(plan) => plan.delimiter,
        }
    }

    /// A schema without columns, with what every file of the run is read by.
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
