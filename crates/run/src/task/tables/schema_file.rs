//! The schema of the features as a file that a user reads and edits, `data.schema`.

use std::collections::BTreeSet;
use std::path::Path;

use serde::{Deserialize, Serialize};
use updraft_data::{
    ColumnKind, ColumnRules, ColumnSchema, FeatureEncoder, RowEncoder, Table, TableError,
    TableSchema,
};

use super::target_plan::TargetsPlan;
use crate::bounded::{RECORD_BYTES, read_text};
use crate::config::shortened;
use crate::error::RunError;

/// The file of a run folder with the schema of its features.
pub(super) const SCHEMA_FILE: &str = "schema.toml";

/// The first lines of the file.
const HEADER: &str = "\
# The features of this run, in their order; every later file is checked, by `eval`, `train --resume`
# and `predict`. Here only `missing`, `unknown` and, with `unknown = false`, `values` may change; for
# other changes, train a new run with an edited copy as `data.schema`.
#
# kind       number, category, boolean, date, or list with `separator`
# missing    whether a value may be missing, true by default; otherwise a missing one is an error
# values     of a category or a list: the words that are known if training rows have them
# unknown    whether other words are read, as unknown ones; otherwise they are an error
";

/// The features that a run reads, in their order.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct SchemaFile {
    columns: Vec<ColumnSchema>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    column: Vec<WrittenColumn>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenColumn {
    name: String,
    kind: WrittenKind,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    separator: Option<char>,
    #[serde(default = "yes")]
    missing: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    unknown: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    values: Option<Vec<String>>,
}

#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum WrittenKind {
    Number,
    Category,
    Boolean,
    Date,
    List,
}

impl WrittenKind {
    const fn name(self) -> &'static str {
        match self {
            Self::Number => "number",
            Self::Category => "category",
            Self::Boolean => "boolean",
            Self::Date => "date",
            Self::List => "list",
        }
    }
}

const fn yes() -> bool {
    true
}

impl SchemaFile {
    /// Reads the file of a path, whose columns are neither targets nor that of the groups.
    pub(super) fn read(
        path: &Path,
        targets: &TargetsPlan,
        group: Option<&String>,
    ) -> Result<Self, RunError> {
        let refuse = |what: String| RunError::Unusable {
            reason: format!("the schema `{}`: {what}", path.display()),
        };
        let schema = Self::parse(&read_text(path, RECORD_BYTES)?).map_err(refuse)?;
        for ColumnSchema { name, .. } in &schema.columns {
            if targets.targets.contains_key(name) {
                return Err(refuse(format!("the column `{name}` is a target; remove it")));
            }
            if group == Some(name) {
                return Err(refuse(format!("the column `{name}` is `data.group`; remove it")));
            }
        }
        Ok(schema)
    }

    fn parse(text: &str) -> Result<Self, String> {
        let written: Written = toml::from_str(text).map_err(|error| error.to_string())?;
        let mut names = BTreeSet::new();
        for column in &written.column {
            if !names.insert(&column.name) {
                return Err(format!("the column `{}` is there twice", column.name));
            }
        }
        if names.is_empty() {
            return Err("it has no column".to_owned());
        }
        let columns = written.column.into_iter().map(WrittenColumn::read);
        Ok(Self { columns: columns.collect::<Result<_, _>>()? })
    }

    /// The schema of a run without `data.schema`: the kinds of the features, the words of the
    /// training rows, and whether any row of the run's files misses a value.
    pub(super) fn inferred(encoder: &RowEncoder, features: &Table) -> Result<Self, TableError> {
        let rows: Vec<usize> = (0..features.rows()).collect();
        let columns = encoder.schema().columns.iter().zip(encoder.features());
        let column = |(column, (name, feature)): (&ColumnSchema, (&str, &FeatureEncoder))| {
            let values = match feature {
                FeatureEncoder::Category { vocabulary, .. }
                | FeatureEncoder::Labels { vocabulary } => Some(vocabulary.words().to_vec()),
                _ => None,
            };
            // No word is a value of a list.
            let is_list = matches!(column.kind, ColumnKind::MultiLabel { .. });
            let missing = is_list || features.misses_values(name, &rows)?;
            let rules = ColumnRules { missing, values, unknown: true };
            Ok(ColumnSchema { rules, ..column.clone() })
        };
        Ok(Self { columns: columns.map(column).collect::<Result<_, _>>()? })
    }

    /// A schema for reading with these columns.
    pub(super) fn add_to(&self, schema: TableSchema) -> TableSchema {
        self.columns.iter().fold(schema, |schema, column| {
            schema.column_of(&column.name, column.kind.clone(), column.rules.clone())
        })
    }

    /// A schema with the rules of these columns, for reading.
    pub(super) fn with_rules(&self, mut schema: TableSchema) -> TableSchema {
        for column in &mut schema.columns {
            if let Some(own) = self.columns.iter().find(|own| own.name == column.name) {
                column.rules = own.rules.clone();
            }
        }
        schema
    }

    /// Refuses rows with values that this schema does not accept; `path` is its file.
    pub(super) fn refuse_others(
        &self,
        path: &Path,
        table: &Table,
        place: &dyn Fn(usize) -> String,
    ) -> Result<(), RunError> {
        self.refuse_missing(path, table, place)?;
        for ColumnSchema { name, kind, rules } in &self.columns {
            let Some(values) = rules.values.as_ref().filter(|_| !rules.unknown) else { continue };
            let values: BTreeSet<&str> = values.iter().map(String::as_str).collect();
            for row in 0..table.rows() {
                let words = match kind {
                    ColumnKind::MultiLabel { .. } => table.labels(name, row)?,
                    _ => table.word(name, row)?.into_iter().collect(),
                };
                if let Some(word) = words.into_iter().find(|word| !values.contains(word)) {
                    let reason = unknown_value(&place(row), name, word, path);
                    return Err(RunError::Unusable { reason });
                }
            }
        }
        Ok(())
    }

    fn refuse_missing(
        &self,
        path: &Path,
        table: &Table,
        place: &dyn Fn(usize) -> String,
    ) -> Result<(), RunError> {
        let known = |name: &str| table.schema().columns.iter().any(|column| column.name == name);
        let required = self.columns.iter().filter(|column| !column.rules.missing);
        for ColumnSchema { name, .. } in required.filter(|column| known(&column.name)) {
            for row in 0..table.rows() {
                if table.misses_values(name, &[row])? {
                    let reason = missing_value(&place(row), name, path);
                    return Err(RunError::Unusable { reason });
                }
            }
        }
        Ok(())
    }

    /// Refuses the schema of a run, in the file `path`, if an edit changed what its network was trained
    /// on; an inferred one lists all words. The columns of these names are not in the file.
    pub(super) fn refuse_changed(
        &self,
        path: &Path,
        (encoder, is_inferred): (&RowEncoder, bool),
        without: &[String],
    ) -> Result<(), RunError> {
        let trained = encoder.schema().columns.iter().zip(encoder.features());
        let trained = trained.filter(|(column, _)| !without.contains(&column.name));
        let trained: Vec<_> = trained.map(|(column, (_, feature))| (column, feature)).collect();
        match changed(&self.columns, &trained, is_inferred) {
            None => Ok(()),
            Some(what) => Err(RunError::Unusable {
                reason: format!(
                    "the schema `{}`: {what}; the run's network was trained on the schema as it \
                     was: undo the change, or train a new run with the edited file as `data.schema`",
                    path.display()
                ),
            }),
        }
    }

    /// The text of the file, without the columns of these names.
    pub(super) fn to_toml(&self, without: &[String]) -> String {
        let columns = self.columns.iter().filter(|column| !without.contains(&column.name));
        columns.fold(HEADER.to_owned(), |text, column| {
            let of_words = column.rules.values.as_ref().map(|values| values.len());
            let known = of_words.map_or_else(String::new, |count| format!("# {count} values\n"));
            let written =
                toml::to_string(&WrittenColumn::of(column)).expect("TOML of plain values");
            format!("{text}\n[[column]]\n{known}{written}")
        })
    }
}

/// What an edit of a run's schema changed that its network depends on.
fn changed(
    own: &[ColumnSchema],
    trained: &[(&ColumnSchema, &FeatureEncoder)],
    is_inferred: bool,
) -> Option<String> {
    let written = |column: &ColumnSchema| WrittenColumn::of(column);
    for (at, (before, feature)) in trained.iter().enumerate() {
        let name = &before.name;
        let Some(column) = own.get(at).filter(|column| column.name == *name) else {
            return Some(match own.iter().any(|column| column.name == *name) {
                true => format!("from `{name}` on, its columns are in another order"),
                false => format!("it has no column `{name}`"),
            });
        };
        let before_rules = &before.rules;
        let (now, before) = (written(column), written(before));
        if now.kind != before.kind {
            return Some(format!("the kind of the column `{name}` was `{}`", before.kind.name()));
        }
        if now.separator != before.separator {
            let separator = before.separator.unwrap_or_default();
            return Some(format!("the separator of the column `{name}` was {separator:?}"));
        }
        let known: BTreeSet<&str> = match (&before_rules.values, feature) {
            (Some(values), _) => values.iter().map(String::as_str).collect(),
            (
                None,
                FeatureEncoder::Category { vocabulary, .. } | FeatureEncoder::Labels { vocabulary },
            ) => vocabulary.words().iter().map(|word| &**word).collect(),
            _ => continue,
        };
        let own = column.rules.values.iter().flatten().map(String::as_str).collect();
        let is_given =
            is_inferred || column.rules.values.is_some() || before_rules.values.is_some();
        if column.rules.unknown && is_given && known != own {
            let other = known.symmetric_difference(&own).next().copied().unwrap_or_default();
            return Some(format!(
                "`values` of the column `{name}` changed (`{other}`), which has an effect only with \
                 `unknown = false`"
            ));
        }
    }
    let other = own.iter().find(|column| trained.iter().all(|(of, _)| of.name != column.name));
    other.map(|column| format!("it has a new column `{}`", column.name))
}

/// The message about a missing value that the schema of a run does not accept.
pub(super) fn missing_value(place: &str, column: &str, schema: &Path) -> String {
    format!(
        "{place}, column `{column}`: the value is missing, which the schema does not accept; fill it \
         in, or set `missing = true` for the column in `{}`",
        schema.display()
    )
}

/// The message about a word that the schema of a run does not accept.
pub(super) fn unknown_value(place: &str, column: &str, word: &str, schema: &Path) -> String {
    format!(
        "{place}, column `{column}`: `{}` is none of the values of the schema; correct it, or set \
         `unknown = true` for the column in `{}`",
        shortened(word),
        schema.display()
    )
}

impl WrittenColumn {
    fn of(column: &ColumnSchema) -> Self {
        let ColumnSchema { name, kind, rules, .. } = column;
        let (kind, separator) = match kind {
            ColumnKind::Number => (WrittenKind::Number, None),
            ColumnKind::Boolean => (WrittenKind::Boolean, None),
            ColumnKind::Date => (WrittenKind::Date, None),
            ColumnKind::MultiLabel { separator } => (WrittenKind::List, Some(*separator)),
            _ => (WrittenKind::Category, None),
        };
        let unknown = rules.values.as_ref().map(|_| rules.unknown);
        let (missing, values) = (rules.missing, rules.values.clone());
        Self { name: name.clone(), kind, separator, missing, unknown, values }
    }

    fn read(self) -> Result<ColumnSchema, String> {
        let Self { name, kind, separator, missing, unknown, values } = self;
        let has_words = matches!(kind, WrittenKind::Category | WrittenKind::List);
        let refuse = |what: &str| Err(format!("the column `{name}` {what}"));
        if !has_words && (values.is_some() || unknown.is_some()) {
            return refuse("has no words: remove `values` and `unknown`");
        }
        if unknown == Some(false) && values.is_none() {
            return refuse("accepts no unknown words: list the known ones in `values`");
        }
        let twice =
            |values: &Vec<String>| (0..values.len()).find(|&at| values[..at].contains(&values[at]));
        if let Some(at) = values.as_ref().and_then(twice) {
            return refuse(&format!("lists the value `{}` twice", values.unwrap_or_default()[at]));
        }
        if values.as_ref().is_some_and(Vec::is_empty) {
            return refuse("has no values: list some in `values`, or remove it");
        }
        let kind = match (kind, separator) {
            (WrittenKind::List, Some(separator)) => ColumnKind::MultiLabel { separator },
            (WrittenKind::List, None) => return refuse("is a list: set its `separator`"),
            (_, Some(_)) => return refuse("is no list: remove its `separator`"),
            (WrittenKind::Number, None) => ColumnKind::Number,
            (WrittenKind::Category, None) => ColumnKind::Category,
            (WrittenKind::Boolean, None) => ColumnKind::Boolean,
            (WrittenKind::Date, None) => ColumnKind::Date,
        };
        let rules = ColumnRules { missing, values, unknown: unknown.unwrap_or(true) };
        Ok(ColumnSchema { name, kind, rules })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "[[column]]\nname = \"z\"\nkind = \"number\"\nmissing = false\n\
                        [[column]]\nname = \"a\"\nkind = \"category\"\nvalues = [\"x\", \"y\"]\n\
                        unknown = false\n\
                        [[column]]\nname = \"l\"\nkind = \"list\"\nseparator = \";\"\n";

    fn names(schema: &SchemaFile) -> Vec<&str> {
        schema.columns.iter().map(|column| column.name.as_str()).collect()
    }

    #[test]
    fn a_schema_survives_as_text_in_its_order() {
        let schema = SchemaFile::parse(TEXT).expect("a schema");
        assert_eq!(names(&schema), ["z", "a", "l"]);
        let text = schema.to_toml(&[]);
        assert_eq!(SchemaFile::parse(&text), Ok(schema.clone()), "{text}");
        assert!(text.starts_with(HEADER) && text.contains("# 2 values"), "{text}");
        let without = SchemaFile::parse(&schema.to_toml(&["a".to_owned()])).expect("a schema");
        assert_eq!(names(&without), ["z", "l"]);
    }

    #[test]
    fn what_is_no_schema_is_refused_with_the_column() {
        for (text, expected) in [
            ("", "missing field `column`"),
            ("column = []", "it has no column"),
            ("[[column]]\nname = \"a\"\nkind = \"digit\"", "unknown variant `digit`"),
            ("[[column]]\nname = \"a\"\nkind = \"number\"\nmising = true", "mising"),
            ("[[column]]\nname = \"a\"\nkind = \"number\"\nvalues = [\"1\"]", "`a` has no words"),
            ("[[column]]\nname = \"a\"\nkind = \"list\"", "`a` is a list: set"),
            ("[[column]]\nname = \"a\"\nkind = \"date\"\nseparator = \";\"", "`a` is no list"),
            ("[[column]]\nname = \"a\"\nkind = \"category\"\nunknown = false", "list the known"),
            ("[[column]]\nname = \"a\"\nkind = \"category\"\nvalues = []", "`a` has no values"),
            (
                "[[column]]\nname = \"a\"\nkind = \"date\"\n[[column]]\nname = \"a\"\nkind = \"date\"",
                "`a` is there twice",
            ),
        ] {
            let error = SchemaFile::parse(text).expect_err("refused");
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
