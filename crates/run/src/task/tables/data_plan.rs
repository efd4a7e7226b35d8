//! The keys of `data` about columns: which are features, and how they are read and encoded.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use updraft_data::{CategoryEncoding, RowEncoder, Scaling, TableSchema};

use super::data::ENCODER;
use super::files::file_features;
use super::schema_file::{SCHEMA_FILE, SchemaFile};
use super::source_plan::{FilesPlan, Source};
use super::target_plan::{TargetKind, TargetsPlan};
use crate::config::{ConfigError, Edit, Key, Keys, Settings};
use crate::error::RunError;
use crate::folder::RunFolder;
use crate::task::data_folder::has_repeats;

const SCHEMA: Key<PathBuf> = Key::new(
    "data.schema",
    "a file with the features, their kinds and the values that are accepted, such as an edited copy of `schema.toml` of a run",
);
/// The key that decides whether columns are named one by one.
const BY_SCHEMA: &[&str] = &["data.schema"];
const FEATURES: Key<Vec<String>> =
    Key::new("data.features", "the columns that the targets are predicted from")
        .depends("every column that is neither a target nor in `data.leave_out`")
        .decided_by(BY_SCHEMA)
        .check("a list of at least one column, none of them twice", |features| {
            !features.is_empty() && !has_repeats(features)
        });
const LEAVE_OUT: Key<Vec<String>> =
    Key::new("data.leave_out", "columns that are not features; only without `data.features`")
        .default("[]")
        .decided_by(&["data.schema", "data.features"])
        .check("a list of columns, none of them twice", |columns| !has_repeats(columns));
const NUMBERS: Key<Vec<String>> = Key::new(
    "data.numbers",
    "features that are numbers; unnamed ones are if every value of the training rows is one; those that are neither numbers nor dates nor truth values are categories",
)
.default("[]")
.decided_by(BY_SCHEMA)
.check("a list of columns, none of them twice", |columns| !has_repeats(columns));
const CATEGORIES: Key<Vec<String>> =
    Key::new("data.categories", "features that hold categories, such as codes made of digits")
        .default("[]")
        .decided_by(BY_SCHEMA)
        .check("a list of columns, none of them twice", |columns| !has_repeats(columns));
const BOOLEANS: Key<Vec<String>> = Key::new(
    "data.booleans",
    "features that are truth values: `true` and `false`, `yes` and `no`, their first letters, or `1` and `0`; unnamed ones are if every value of the training rows is one of the four words",
)
.default("[]")
.decided_by(BY_SCHEMA)
.check("a list of columns, none of them twice", |columns| !has_repeats(columns));
const DATES: Key<Vec<String>> = Key::new(
    "data.dates",
    "features that are dates such as `2024-02-29`, or with a time such as `2024-02-29T23:59`; unnamed ones are if every value of the training rows is one",
)
.default("[]")
.decided_by(BY_SCHEMA)
.check("a list of columns, none of them twice", |columns| !has_repeats(columns));
const LISTS: Key<BTreeMap<String, char>> = Key::new(
    "data.lists",
    "features with any number of words in a field: a table of column and separator",
)
.default("{}")
.decided_by(BY_SCHEMA);
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
    "values of categories in fewer training rows are unknown, like values that no training row has",
)
.default("1")
.check("at least 1", |rows| *rows >= 1);
const SCALING: Key<Scaling> = Key::new(
    "data.scaling",
    "scaling of numbers: by their rank to a normal distribution, or `standard`: mean 0 and standard deviation 1",
)
.default(r#""quantile""#);
const ENCODING: Key<CategoryEncoding> = Key::new(
    "data.encoding",
    "encoding of categories: a learned `embedding` of each value, or `one-hot`: an input for each value, 1 in the rows that have it and otherwise 0; unknown values have no input",
)
.default(r#""embedding""#);
const UNKNOWN_SHARE: Key<f64> = Key::new(
    "data.unknown_share",
    "embeddings only: fraction of the categories of training rows that are replaced by unknown, drawn again in each epoch: this trains the embedding of unknown values",
)
.default("0.01")
.edit(Edit::Reported)
.check("at least 0 and below 1", |share| (0.0..1.0).contains(share));

const VALIDATION_FRACTION: Key<f64> = Key::new(
    "data.validation_fraction",
    "with a target of labels: fraction of the training rows that is not learned from; the threshold of each label is the one with the highest F1 on these rows after training. 0: thresholds are 0.5",
)
.default("0.0")
.edit(Edit::Reported)
.check("at least 0 and below 1", |share| (0.0..1.0).contains(share));

const IMPORTANCE_ROWS: Key<usize> = Key::new(
    "data.importance_rows",
    "test rows on which a run measures, for its report, the importance of each feature and the effect of the most important ones; 0 leaves both out",
)
.default("1000")
.edit(Edit::Free);

/// The keys of `data` about columns.
pub(super) const KEYS: Keys = &[
    &SCHEMA,
    &FEATURES,
    &LEAVE_OUT,
    &NUMBERS,
    &CATEGORIES,
    &BOOLEANS,
    &DATES,
    &LISTS,
    &MISSING,
    &REPLACE,
    &MIN_ROWS,
    &SCALING,
    &ENCODING,
    &UNKNOWN_SHARE,
    &VALIDATION_FRACTION,
    &IMPORTANCE_ROWS,
];

/// The source of rows, and the content of their columns.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct DataPlan {
    pub(super) source: Source,
    /// The file with the features, which a new run reads; a run has a copy.
    pub(super) schema_path: Option<PathBuf>,
    /// Its content, and the file from which it was read: this one, or the copy of a run; after
    /// [`with_schema`](Self::with_schema).
    pub(super) columns: Option<(SchemaFile, PathBuf)>,
    /// The schema that a run without `data.schema` has inferred, with its file, after
    /// [`with_schema`](Self::with_schema): later files have no other values.
    pub(super) inferred: Option<(SchemaFile, PathBuf)>,
    pub(super) features: Option<Vec<String>>,
    pub(super) leave_out: Vec<String>,
    pub(super) numbers: Vec<String>,
    pub(super) categories: Vec<String>,
    pub(super) booleans: Vec<String>,
    pub(super) dates: Vec<String>,
    pub(super) lists: BTreeMap<String, char>,
    pub(super) missing: Vec<String>,
    pub(super) replace: BTreeMap<String, BTreeMap<String, String>>,
    pub(super) min_rows: u64,
    pub(super) scaling: Scaling,
    pub(super) encoding: CategoryEncoding,
    pub(super) unknown_share: f64,
    /// The fraction of the training rows on which thresholds are found; 0 for none.
    pub(super) validation_fraction: f64,
    /// The test rows on which the report measures features; 0 for none.
    pub(super) importance_rows: usize,
}

impl DataPlan {
    /// Reads the keys of the chosen source, and the targets.
    pub(super) fn read(settings: &Settings) -> Result<(Self, TargetsPlan), ConfigError> {
        let (source, targets) = Source::read(settings)?;
        let is_target = |name: &String| targets.targets.contains_key(name);
        let schema_path = settings.option(&SCHEMA)?;
        let has_schema = schema_path.is_some();
        let features = if has_schema { None } else { settings.option(&FEATURES)? };
        let mut leave_out = match features {
            None if !has_schema => settings.value(&LEAVE_OUT)?,
            _ => Vec::new(),
        };
        let named = |key: &Key<Vec<String>>| match has_schema {
            true => Ok(Vec::new()),
            false => settings.value(key),
        };
        if let Some(group) = source.group() {
            if features.iter().flatten().any(|name| name == group) {
                let expected = format!("a list without `{group}`, which is `data.group`");
                return Err(settings.refuse_given("data.features", &expected));
            }
            if features.is_none() && !leave_out.contains(group) {
                leave_out.push(group.clone());
            }
        }
        if let Some(target) = features.iter().flatten().find(|name| is_target(name)) {
            let expected = format!("a list without `{target}`, which is a target");
            return Err(settings.refuse_given("data.features", &expected));
        }
        let encoding = settings.value(&ENCODING)?;
        let unknown_share = match encoding {
            CategoryEncoding::Embedding => settings.value(&UNKNOWN_SHARE)?,
            CategoryEncoding::OneHot if settings.option(&UNKNOWN_SHARE)?.is_some() => {
                let expected = "left out with `data.encoding = \"one-hot\"`: an unknown \
                                value has no embedding to train";
                return Err(settings.refuse_given("data.unknown_share", expected));
            }
            CategoryEncoding::OneHot => 0.0,
        };
        let validation_fraction = settings.value(&VALIDATION_FRACTION)?;
        let has_labels = targets.targets.values().any(|target| target.kind == TargetKind::Labels);
        if validation_fraction > 0.0 && !has_labels {
            let expected = "0 without a target of the kind `labels`, whose thresholds are found on \
                            these rows";
            return Err(settings.refuse_given("data.validation_fraction", expected));
        }
        let plan = Self {
            source,
            schema_path,
            columns: None,
            inferred: None,
            features,
            leave_out,
            numbers: named(&NUMBERS)?,
            categories: named(&CATEGORIES)?,
            booleans: named(&BOOLEANS)?,
            dates: named(&DATES)?,
            lists: if has_schema { BTreeMap::new() } else { settings.value(&LISTS)? },
            missing: settings.value(&MISSING)?,
            replace: settings.value(&REPLACE)?,
            min_rows: settings.value(&MIN_ROWS)?,
            scaling: settings.value(&SCALING)?,
            encoding,
            unknown_share,
            validation_fraction,
            importance_rows: settings.value(&IMPORTANCE_ROWS)?,
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
        let is_feature = |name: &String| match &self.features {
            Some(features) => features.contains(name),
            None => !self.leave_out.contains(name),
        };
        let mut seen: BTreeSet<&String> = BTreeSet::new();
        for (key, names) in [
            ("data.numbers", &self.numbers),
            ("data.categories", &self.categories),
            ("data.booleans", &self.booleans),
            ("data.dates", &self.dates),
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
        let (columns, of) = match &self.source {
            Source::Files(FilesPlan { columns: None, .. }) => return Ok(()),
            Source::Files(FilesPlan { columns: Some(columns), .. }) => {
                (columns.clone(), "`data.columns`, which has".to_owned())
            }
            Source::Generated { rows, .. } => {
                let columns = rows.columns();
                let of = format!("the generated rows (`{}`), which have", columns.join("`, `"));
                (columns, of)
            }
        };
        for (key, names) in [
            ("data.features", self.features.as_deref().unwrap_or_default()),
            ("data.leave_out", &self.leave_out),
            ("data.numbers", &self.numbers),
            ("data.categories", &self.categories),
            ("data.booleans", &self.booleans),
            ("data.dates", &self.dates),
            ("data.lists", &lists),
        ] {
            if let Some(unknown) = names.iter().find(|name| !columns.contains(name)) {
                let expected = format!("columns of {of} no `{unknown}`");
                return Err(settings.refuse_given(key, &expected));
            }
        }
        if let Some(unknown) = self.replace.keys().find(|name| !columns.contains(name)) {
            let expected = format!("a table of columns of {of} no `{unknown}`");
            return Err(settings.refuse_given("data.replace", &expected));
        }
        Ok(())
    }

    /// The same with the content of `data.schema`; with what a run has read or inferred, if there is
    /// one.
    pub(super) fn with_schema(
        &self,
        targets: &TargetsPlan,
        run: Option<&RunFolder>,
    ) -> Result<Self, RunError> {
        let mut plan = self.clone();
        if let Some(run) = run {
            let encoder = run.read_bound_json(ENCODER)?;
            let schema = Some(self.schema_of(run, targets, &encoder)?);
            match self.schema_path {
                Some(_) => plan.columns = schema,
                None => plan.inferred = schema,
            }
            return Ok(plan);
        }
        if let Some(path) = &self.schema_path {
            let of_key = |error: RunError| match error {
                RunError::Io { .. } => {
                    RunError::Unusable { reason: format!("`data.schema`: {error}") }
                }
                other => other,
            };
            let read = SchemaFile::read(path, targets, self.source.group());
            plan.columns = Some((read.map_err(of_key)?, path.clone()));
        }
        Ok(plan)
    }

    /// The schema of a run, and its file; edits may only change which values are accepted.
    pub(super) fn schema_of(
        &self,
        run: &RunFolder,
        targets: &TargetsPlan,
        encoder: &RowEncoder,
    ) -> Result<(SchemaFile, PathBuf), RunError> {
        let path = run.path().join(SCHEMA_FILE);
        let schema = SchemaFile::read(&path, targets, self.source.group())?;
        let is_inferred = self.schema_path.is_none();
        schema.refuse_changed(&path, (encoder, is_inferred), &self.unwritten())?;
        Ok((schema, path))
    }

    /// The features that are not columns of files, and therefore in no schema.
    pub(super) fn unwritten(&self) -> Vec<String> {
        self.source.with_file_features().into_iter().flat_map(file_features).collect()
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
