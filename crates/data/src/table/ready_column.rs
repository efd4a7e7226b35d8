//! A column that is encoded block by block.

use crate::table::Vocabulary;
use crate::table::columns::start;
use crate::table::instant::cycles;
use crate::table::row_config::CategoryEncoding;
use crate::table::rows::{Place, RowBlock};
use crate::table::scale::NumberScale;

/// A column with what its encoding needs.
pub(super) enum ReadyColumn<'a> {
    /// The class of each of its words, and that of a missing one.
    Category { classes: Vec<u32>, codes: &'a [u32], missing: u32, encoding: CategoryEncoding },
    /// Numbers on a scale.
    Number { numbers: &'a [f64], scale: &'a NumberScale, has_missing: bool },
    /// Truth values.
    Boolean { numbers: &'a [f64], has_missing: bool },
    /// Dates, of which each is so many numbers.
    Date { numbers: &'a [f64], scale: &'a NumberScale, parts: usize, has_missing: bool },
    /// The class of each of its labels.
    Labels { classes: Vec<u32>, codes: &'a [u32], ends: &'a [usize] },
}

impl ReadyColumn<'_> {
    /// Writes the column into the rows of a block.
    pub(super) fn encode(&self, block: &mut RowBlock<'_>, place: Place) {
        let (width, wide) = (block.class_columns, block.number_columns);
        let Place { class, number } = place;
        let rows = block.rows.clone();
        match self {
            Self::Category { classes, codes, missing, encoding } => {
                for (row, &code) in codes[rows].iter().enumerate() {
                    // The code of a missing word is past the end of the list.
                    let found = classes.get(code as usize).copied().unwrap_or(*missing);
                    match encoding {
                        CategoryEncoding::Embedding => block.classes[row * width + class] = found,
                        CategoryEncoding::OneHot if found == Vocabulary::UNKNOWN => {}
                        CategoryEncoding::OneHot => {
                            block.numbers[row * wide + number + found as usize - 1] = 1.0;
                        }
                    }
                }
            }
            Self::Boolean { numbers, has_missing } => {
                for (row, value) in numbers[rows].iter().enumerate() {
                    let at = row * wide + number;
                    if !value.is_nan() {
                        block.numbers[at] = if *value > 0.0 { 1.0 } else { -1.0 };
                    } else if *has_missing {
                        block.numbers[at + 1] = 1.0;
                    }
                }
            }
            Self::Date { numbers, scale, parts, has_missing } => {
                for (row, days) in numbers[rows].iter().enumerate() {
                    let at = row * wide + number;
                    if !days.is_nan() {
                        block.numbers[at] = scale.encode(*days);
                        let own = &mut block.numbers[at + 1..at + parts];
                        own.copy_from_slice(&cycles(*days).as_flattened()[..parts - 1]);
                    } else if *has_missing {
                        block.numbers[at + parts] = 1.0;
                    }
                }
            }
            Self::Number { numbers, scale, has_missing } => {
                for (row, value) in numbers[rows].iter().enumerate() {
                    let at = row * wide + number;
                    if value.is_nan() {
                        // In addition to the 0 of the number itself.
                        if *has_missing {
                            block.numbers[at + 1] = 1.0;
                        }
                    } else {
                        block.numbers[at] = scale.encode(*value);
                    }
                }
            }
            Self::Labels { classes, codes, ends } => {
                for (row, of_file) in rows.enumerate() {
                    for &code in &codes[start(ends, of_file)..ends[of_file]] {
                        let label = classes[code as usize];
                        if label != Vocabulary::UNKNOWN {
                            block.numbers[row * wide + number + label as usize - 1] = 1.0;
                        }
                    }
                }
            }
        }
    }
}
