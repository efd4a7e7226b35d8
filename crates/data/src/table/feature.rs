//! Encoding of one feature as a class or as numbers, fitted on the training rows only.

use serde::{Deserialize, Serialize};

use crate::digest::Digest;
use crate::table::columns::{Column, MISSING};
use crate::table::encoder::{classes, frequent, seen, seen_labels};
use crate::table::ready_column::ReadyColumn;
use crate::table::row_config::{CategoryEncoding, RowConfig};
use crate::table::scale::NumberScale;
use crate::table::{ColumnKind, ColumnRules, Vocabulary};

/// How one feature is encoded.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
#[non_exhaustive]
pub enum FeatureEncoder {
    /// A class or a number for each word.
    Category {
        /// The words.
        vocabulary: Vocabulary,
        /// Whether a missing word is counted as another word, the last one.
        has_missing: bool,
        /// Classes or numbers.
        encoding: CategoryEncoding,
    },
    /// A number, and a second one if it is missing in training rows.
    Number {
        /// Its scale.
        scale: NumberScale,
        /// Whether a second number marks a missing one.
        has_missing: bool,
    },
    /// 1 or −1, 0 for a missing one, and a second number if it is missing in training rows.
    Boolean {
        /// Whether a second number marks a missing one.
        has_missing: bool,
    },
    /// The number of days, sine and cosine of the place in the year and in the week, those of the time
    /// of day if training rows have times, and a number if it is missing in training rows.
    Date {
        /// The scale of the days.
        scale: NumberScale,
        /// Whether the time of day is encoded.
        has_time: bool,
        /// Whether a last number marks a missing one.
        has_missing: bool,
    },
    /// A number for each label.
    Labels {
        /// The labels.
        vocabulary: Vocabulary,
    },
}

impl FeatureEncoder {
    /// `None` for a column without a value in any of the rows.
    pub(super) fn fit(column: &Column, rows: &[usize], config: RowConfig) -> Option<Self> {
        let missing = |is_missing: &dyn Fn(usize) -> bool| {
            let count = rows.iter().filter(|&&row| is_missing(row)).count() as u64;
            (count < rows.len() as u64).then_some(count)
        };
        match column {
            Column::Category { words, codes } => {
                let missing = missing(&|row| codes[row] == MISSING)?;
                let seen = seen(words.words().len(), codes, rows);
                let vocabulary = frequent(words.words(), &seen, config.min_rows);
                let has_missing = missing >= config.min_rows.max(1);
                Some(Self::Category { vocabulary, has_missing, encoding: config.encoding })
            }
            Column::Number { kind: ColumnKind::Boolean, numbers } => {
                let missing = missing(&|row| numbers[row].is_nan())?;
                Some(Self::Boolean { has_missing: missing > 0 })
            }
            Column::Number { kind: ColumnKind::Date, numbers } => {
                let missing = missing(&|row| numbers[row].is_nan())?;
                let own = rows.iter().map(|&row| numbers[row]);
                let has_time = own.clone().any(|days| days.fract() != 0.0 && !days.is_nan());
                let scale = NumberScale::fit(config.scaling, own)?;
                Some(Self::Date { scale, has_time, has_missing: missing > 0 })
            }
            Column::Number { numbers, .. } => {
                let missing = missing(&|row| numbers[row].is_nan())?;
                let scale = NumberScale::fit(config.scaling, rows.iter().map(|&row| numbers[row]))?;
                Some(Self::Number { scale, has_missing: missing > 0 })
            }
            Column::MultiLabel { words, codes, ends, .. } => {
                let seen = seen_labels(words.words().len(), (codes, ends), rows);
                let vocabulary = frequent(words.words(), &seen, config.min_rows);
                (!vocabulary.words().is_empty()).then_some(Self::Labels { vocabulary })
            }
        }
    }

    /// The same without the words that the rules of its column do not have; `None` if no label is
    /// left.
    pub(super) fn limited(self, rules: &ColumnRules) -> Option<Self> {
        let limited = |vocabulary: Vocabulary| Vocabulary::from(rules.keep(vocabulary.into()));
        match self {
            Self::Category { vocabulary, has_missing, encoding } => {
                Some(Self::Category { vocabulary: limited(vocabulary), has_missing, encoding })
            }
            Self::Labels { vocabulary } => {
                let vocabulary = limited(vocabulary);
                (!vocabulary.words().is_empty()).then_some(Self::Labels { vocabulary })
            }
            other => Some(other),
        }
    }

    /// What encodes a column; `None` for one of another kind.
    pub(super) fn prepare<'a>(&'a self, column: &'a Column) -> Option<ReadyColumn<'a>> {
        Some(match (self, column) {
            (
                Self::Category { vocabulary, has_missing, encoding },
                Column::Category { words, codes },
            ) => {
                let missing = vocabulary.classes() as u32;
                let missing = if *has_missing { missing } else { Vocabulary::UNKNOWN };
                let classes = classes(vocabulary, words.words());
                ReadyColumn::Category { classes, codes, missing, encoding: *encoding }
            }
            (
                Self::Boolean { has_missing },
                Column::Number { kind: ColumnKind::Boolean, numbers },
            ) => ReadyColumn::Boolean { numbers, has_missing: *has_missing },
            (
                Self::Date { scale, has_time, has_missing },
                Column::Number { kind: ColumnKind::Date, numbers },
            ) => ReadyColumn::Date {
                numbers,
                scale,
                parts: date_numbers(*has_time),
                has_missing: *has_missing,
            },
            (
                Self::Number { scale, has_missing },
                Column::Number { kind: ColumnKind::Number, numbers },
            ) => ReadyColumn::Number { numbers, scale, has_missing: *has_missing },
            (Self::Labels { vocabulary }, Column::MultiLabel { words, codes, ends, .. }) => {
                ReadyColumn::Labels { classes: classes(vocabulary, words.words()), codes, ends }
            }
            _ => return None,
        })
    }

    /// The number of its classes: the values of its vocabulary, the unknown one, and the missing one
    /// if enough training rows miss a value. `None` for features that are encoded as numbers.
    #[must_use]
    pub fn class_count(&self) -> Option<usize> {
        match self {
            Self::Category { encoding: CategoryEncoding::Embedding, vocabulary, has_missing } => {
                Some(vocabulary.classes() + usize::from(*has_missing))
            }
            _ => None,
        }
    }

    /// How many numbers of a row it is.
    #[must_use]
    pub fn number_count(&self) -> usize {
        match self {
            Self::Category { encoding: CategoryEncoding::Embedding, .. } => 0,
            Self::Category { vocabulary, has_missing, .. } => {
                vocabulary.words().len() + usize::from(*has_missing)
            }
            Self::Number { has_missing, .. } | Self::Boolean { has_missing } => {
                1 + usize::from(*has_missing)
            }
            Self::Date { has_time, has_missing, .. } => {
                date_numbers(*has_time) + usize::from(*has_missing)
            }
            Self::Labels { vocabulary } => vocabulary.words().len(),
        }
    }

    pub(super) const fn expected(&self) -> &'static str {
        match self {
            Self::Category { .. } => "categories",
            Self::Number { .. } => "numbers",
            Self::Boolean { .. } => "truth values",
            Self::Date { .. } => "dates",
            Self::Labels { .. } => "several labels",
        }
    }

    pub(super) fn add_to(&self, digest: Digest) -> Digest {
        match self {
            Self::Category { vocabulary, has_missing, encoding } => digest
                .number(if *encoding == CategoryEncoding::Embedding { 1 } else { 4 })
                .texts(vocabulary.words())
                .number(usize::from(*has_missing)),
            Self::Number { scale, has_missing } => {
                scale.add_to(digest.number(2)).number(usize::from(*has_missing))
            }
            Self::Labels { vocabulary } => digest.number(3).texts(vocabulary.words()),
            Self::Boolean { has_missing } => digest.number(5).number(usize::from(*has_missing)),
            Self::Date { scale, has_time, has_missing } => scale
                .add_to(digest.number(6))
                .number(usize::from(*has_time))
                .number(usize::from(*has_missing)),
        }
    }
}

/// The numbers of a date that is there.
const fn date_numbers(has_time: bool) -> usize {
    if has_time { 7 } else { 5 }
}
