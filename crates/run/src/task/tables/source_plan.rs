//! The keys of `data` about the source of rows: a generator, a formula, or files.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use updraft_data::Delimiter;

use super::generated_rows::{FormulaPlan, Generated};
use super::target_plan::{TargetKind, TargetsPlan};
use crate::config::{ConfigError, Edit, Key, Keys, Settings};
use crate::error::RunError;
use crate::task::data_folder::{DataFolder, has_repeats, refuse_folder};

const SOURCE: Key<SourceName> = Key::new(
    "data.source",
    "`generated`: a table of drugs and gene variants, `labels`: labels that follow from numbers and a site by known rules, as in `updraft_data::label_csv`, `formula`: a number `y` from `x1`, `x2`, …, or `files`",
)
.default(r#""generated""#)
.edit(Edit::Reported);
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
const LABEL_NOISE: Key<f64> = Key::new(
    "data.label_noise",
    "labels only: probability with which a label of a row does not follow its rule",
)
.default("0.05")
.edit(Edit::Reported)
.check("at least 0 and at most 1", |noise| (0.0..=1.0).contains(noise));
const TRAIN_ROWS: Key<usize> = Key::new("data.train_rows", "generated, labels and formula only")
    .default("2000")
    .edit(Edit::Reported)
    .check("10 to 10000000 rows", |rows| (10..=10_000_000).contains(rows));
const TEST_ROWS: Key<usize> = Key::new("data.test_rows", "generated, labels and formula only")
    .default("500")
    .edit(Edit::Reported)
    .check("10 to 10000000 rows", |rows| (10..=10_000_000).contains(rows));
const FILES: Key<Vec<PathBuf>> = Key::new(
    "data.files",
    "files only: CSV or TSV files, compressed by gzip or not, with the same columns for training and, without `data.test_files`, for testing",
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
const DELIMITER: Key<Delimiter> = Key::new(
    "data.delimiter",
    "files only: `comma`, `semicolon`, `tab` or `pipe`, or the character itself; `predict` reads files that end in `.tsv` or `.tab` with tabs in any case",
)
.depends("`tab` for files that end in `.tsv` or `.tab`, compressed or not, otherwise `comma`")
.edit(Edit::Reported);
const COLUMNS: Key<Vec<String>> =
    Key::new("data.columns", "files only: the names of all columns, for files without a header")
        .check("a list of at least two names, none of them twice", |columns| {
            columns.len() > 1 && !has_repeats(columns)
        });
const FILE_FEATURES: Key<bool> = Key::new(
    "data.file_features",
    "files only: adds a number for each file but the first: 1 for its own rows",
)
.default("false");
/// The keys that decide whether a part of the rows is tested.
const DECIDED_BY_TEST_FILES: &[&str] = &["data.source", "data.test_files"];
const TEST_FRACTION: Key<f64> = Key::new(
    "data.test_fraction",
    "files only, without `data.test_files` and `data.folds`: fraction of the rows held out, stratified by `data.stratify`",
)
.default("0.2")
.edit(Edit::Reported)
.decided_by(&["data.source", "data.test_files", "data.folds"])
.check("above 0 and below 1", |share| *share > 0.0 && *share < 1.0);
const STRATIFY: Key<String> = Key::new(
    "data.stratify",
    "files only, without `data.test_files`: the target for the stratified split",
)
.depends("the first target by name")
.decided_by(DECIDED_BY_TEST_FILES)
.edit(Edit::Reported);
const FOLDS: Key<usize> = Key::new(
    "data.folds",
    "files only, without `data.test_files`: number of folds of a cross-validation; the rows of one, `data.fold`, are the test rows",
)
.edit(Edit::Reported)
.decided_by(DECIDED_BY_TEST_FILES)
.check("2 to 1000", |folds| (2..=1000).contains(folds));
const FOLD: Key<usize> =
    Key::new("data.fold", "only with `data.folds`: the fold that is tested, counted from 1")
        .default("1")
        .edit(Edit::Reported)
        .decided_by(DECIDED_BY_TEST_FILES)
        .check("at least 1", |fold| *fold >= 1);
const GROUP: Key<String> = Key::new(
    "data.group",
    "files only: a column that is not a feature; rows with the same value, such as those of one patient, are on one side of each split",
)
.edit(Edit::Reported);

/// The keys of `data` about the source of rows.
pub(super) const KEYS: Keys = &[
    &SOURCE,
    &FORMULA,
    &NOISE,
    &LABEL_NOISE,
    &TRAIN_ROWS,
    &TEST_ROWS,
    &FILES,
    &TEST_FILES,
    &DIR,
    &HOW_TO_GET,
    &DELIMITER,
    &COLUMNS,
    &FILE_FEATURES,
    &TEST_FRACTION,
    &STRATIFY,
    &FOLDS,
    &FOLD,
    &GROUP,
];

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum SourceName {
    Generated,
    Labels,
    Formula,
    Files,
}

/// The source of rows.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Source {
    /// Generated.
    Generated { rows: Generated, train_rows: usize, test_rows: usize },
    /// Files with the same columns.
    Files(FilesPlan),
}

/// Files with the same columns.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct FilesPlan {
    pub(super) dir: Option<PathBuf>,
    pub(super) files: Vec<PathBuf>,
    /// As the ending of each file says without one.
    delimiter: Option<Delimiter>,
    /// The names of all columns, for files without a header.
    pub(super) columns: Option<Vec<String>>,
    /// Whether a feature for each file but the first marks its rows.
    pub(super) file_features: bool,
    pub(super) how_to_get: Option<String>,
    pub(super) test: TestRows,
    /// The column whose equal values stay on one side of a split.
    pub(super) group: Option<String>,
}

/// The test rows.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum TestRows {
    /// Those of separate files.
    Files(Vec<PathBuf>),
    /// A stratified part of the rows.
    Part { part: TestPart, stratify: String },
}

/// The part of the rows that is tested.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum TestPart {
    /// This fraction.
    Share(f64),
    /// One of several folds, counted from 0.
    Fold { fold: usize, folds: usize },
}

impl TestPart {
    /// Reads the keys of folds, or of a fraction without them.
    fn read(settings: &Settings) -> Result<Self, ConfigError> {
        let Some(folds) = settings.option(&FOLDS)? else {
            if settings.option(&FOLD)?.is_some() {
                let expected = "left out without `data.folds`, the number of folds";
                return Err(settings.refuse_given("data.fold", expected));
            }
            return Ok(Self::Share(settings.value(&TEST_FRACTION)?));
        };
        let fold = settings.value(&FOLD)?;
        if fold > folds {
            let expected = format!("1 to {folds}, the number of folds");
            return Err(settings.refuse_given("data.fold", &expected));
        }
        Ok(Self::Fold { fold: fold - 1, folds })
    }

    /// The fraction of the rows.
    pub(super) fn fraction(self) -> f64 {
        match self {
            Self::Share(fraction) => fraction,
            Self::Fold { folds, .. } => 1.0 / folds as f64,
        }
    }
}

impl Source {
    /// Reads the keys of the chosen source, and the targets.
    pub(super) fn read(settings: &Settings) -> Result<(Self, TargetsPlan), ConfigError> {
        let name = settings.value(&SOURCE)?;
        let standard = match name {
            SourceName::Generated => {
                Some(&[("effect", TargetKind::Classes), ("symptoms", TargetKind::Labels)][..])
            }
            SourceName::Labels => Some(&[("labels", TargetKind::Labels)][..]),
            SourceName::Formula => Some(&[("y", TargetKind::Number)][..]),
            SourceName::Files => None,
        };
        let targets = TargetsPlan::read(settings, standard)?;
        let rows = match name {
            SourceName::Files => {
                let files = FilesPlan::read(settings, &targets)?;
                return Ok((Self::Files(files), targets));
            }
            SourceName::Generated => Generated::Interactions,
            SourceName::Labels => Generated::Labels { noise: settings.value(&LABEL_NOISE)? },
            SourceName::Formula => Generated::Formula {
                formula: settings.value(&FORMULA)?,
                noise: settings.value(&NOISE)?,
            },
        };
        let columns = rows.columns();
        if let Some(unknown) = targets.targets.keys().find(|name| !columns.contains(name)) {
            let expected = format!("one of the generated columns `{}`", columns.join("`, `"));
            return Err(settings.refuse(&format!("targets.{unknown}"), "given", expected));
        }
        let (train_rows, test_rows) = (settings.value(&TRAIN_ROWS)?, settings.value(&TEST_ROWS)?);
        Ok((Self::Generated { rows, train_rows, test_rows }, targets))
    }

    /// Training and test files, found in the data folder; empty for generated rows.
    pub(super) fn find(&self, dir: Option<&Path>) -> Result<[Vec<PathBuf>; 2], RunError> {
        match self {
            Self::Generated { .. } => refuse_folder(dir).map(|()| [Vec::new(), Vec::new()]),
            Self::Files(plan) => {
                let dir = dir.or(plan.dir.as_deref());
                let folder = DataFolder { dir, how_to_get: plan.how_to_get.as_deref() };
                let test: &[PathBuf] = match &plan.test {
                    TestRows::Files(files) => files,
                    TestRows::Part { .. } => &[],
                };
                let mut found = folder.find(&plan.files.iter().chain(test).collect::<Vec<_>>())?;
                let test = found.split_off(plan.files.len());
                Ok([found, test])
            }
        }
    }

    /// The files, if a feature marks which of them a row is from.
    pub(super) fn with_file_features(&self) -> Option<&FilesPlan> {
        match self {
            Self::Files(files) if files.file_features => Some(files),
            _ => None,
        }
    }

    /// The part of the rows that is tested, and the target for the stratified split; `None` if the
    /// test rows are separate.
    pub(super) fn test_part(&self) -> Option<(TestPart, &str)> {
        match self {
            Self::Files(FilesPlan { test: TestRows::Part { part, stratify }, .. }) => {
                Some((*part, stratify))
            }
            _ => None,
        }
    }

    /// The column whose equal values stay on one side of a split.
    pub(super) fn group(&self) -> Option<&String> {
        match self {
            Self::Files(plan) => plan.group.as_ref(),
            Self::Generated { .. } => None,
        }
    }

    /// The delimiter of one of the run's files.
    pub(super) fn delimiter_of(&self, path: &Path) -> Delimiter {
        self.delimiter().unwrap_or_else(|| Delimiter::of(path))
    }

    /// The delimiter of a file to predict, whose ending may be another than that of the run's files.
    pub(super) fn delimiter_of_later(&self, path: &Path) -> Delimiter {
        match Delimiter::of(path) {
            Delimiter::Tab => Delimiter::Tab,
            usual => self.delimiter().unwrap_or(usual),
        }
    }

    /// The delimiter that the plan gives.
    fn delimiter(&self) -> Option<Delimiter> {
        match self {
            Self::Generated { .. } => None,
            Self::Files(plan) => plan.delimiter,
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
            TestRows::Part { part: TestPart::read(settings)?, stratify }
        } else {
            TestRows::Files(test_files)
        };
        let group = settings.option(&GROUP)?;
        if group.as_ref().is_some_and(|group| targets.targets.contains_key(group)) {
            return Err(settings.refuse_given("data.group", "a column that is not a target"));
        }
        let columns = settings.option(&COLUMNS)?;
        if let Some(columns) = &columns
            && let Some(target) = targets.targets.keys().find(|name| !columns.contains(name))
        {
            let expected = format!("a list of all columns, with the target `{target}`");
            return Err(settings.refuse_given("data.columns", &expected));
        }
        if let (Some(columns), Some(group)) = (&columns, &group)
            && !columns.contains(group)
        {
            let expected = "one of `data.columns`";
            return Err(settings.refuse_given("data.group", expected));
        }
        let file_features = settings.value(&FILE_FEATURES)?;
        if file_features && matches!(test, TestRows::Files(_)) {
            let expected = "false with `data.test_files`, whose rows are from other files";
            return Err(settings.refuse_given("data.file_features", expected));
        }
        Ok(Self {
            dir: settings.option(&DIR)?,
            files,
            delimiter: settings.option(&DELIMITER)?,
            columns,
            file_features,
            how_to_get: settings.option(&HOW_TO_GET)?,
            test,
            group,
        })
    }
}
