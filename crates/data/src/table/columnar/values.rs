//! The values of Arrow's arrays as columns of a table.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, Date32Type, Date64Type, Float16Type, Float32Type, Float64Type, Int8Type,
    Int16Type, Int32Type, Int64Type, TimestampMicrosecondType, TimestampMillisecondType,
    TimestampNanosecondType, TimestampSecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef};
use arrow_schema::{DataType, TimeUnit};

use crate::table::columns::{Column, Missing, Unfit, replaced, trim};
use crate::table::field_text::{expected_instead, shortened};
use crate::table::rules::RuleCheck;
use crate::table::{ColumnKind, ColumnSchema, TableError, TableSchema};

/// Milliseconds and seconds of a day.
const DAY_MS: i64 = 86_400_000;
const DAY_S: i64 = 86_400;

/// What a type is read as; `None` for a type that a table does not have.
pub(super) fn kind_of(found: &DataType) -> Option<ColumnKind> {
    match found {
        DataType::Boolean => Some(ColumnKind::Boolean),
        DataType::Date32 | DataType::Date64 | DataType::Timestamp(..) => Some(ColumnKind::Date),
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => Some(ColumnKind::Category),
        DataType::Dictionary(_, values) => kind_of(values),
        DataType::Int8
        | DataType::Int16
        | DataType::Int32
        | DataType::Int64
        | DataType::UInt8
        | DataType::UInt16
        | DataType::UInt32
        | DataType::UInt64
        | DataType::Float16
        | DataType::Float32
        | DataType::Float64
        | DataType::Null => Some(ColumnKind::Number),
        _ => None,
    }
}

/// Values of an array: the texts of words and of whole numbers, numbers, or those of truth values
/// and dates.
enum Values {
    Texts(Vec<Option<String>>),
    Numbers(ColumnKind, Vec<Option<f64>>),
}

/// A column while batches are appended.
pub(super) struct ReadColumn<'a> {
    path: PathBuf,
    name: &'a str,
    column: Column,
    missing: Missing<'a>,
    replace: Option<&'a BTreeMap<String, String>>,
    check: Option<RuleCheck<'a>>,
}

impl<'a> ReadColumn<'a> {
    pub(super) fn new(path: &Path, column: &'a ColumnSchema, schema: &'a TableSchema) -> Self {
        Self {
            path: path.to_owned(),
            name: &column.name,
            column: Column::new(&column.kind),
            missing: Missing::new(&schema.missing),
            replace: schema.replace.get(&column.name),
            check: RuleCheck::new(&column.rules),
        }
    }

    pub(super) fn into_column(self) -> Column {
        self.column
    }

    /// Appends an array, whose first row is this one of the file.
    pub(super) fn append(&mut self, array: &ArrayRef, first: usize) -> Result<(), TableError> {
        let wanted = self.column.kind();
        let of_words = matches!(wanted, ColumnKind::Category | ColumnKind::MultiLabel { .. });
        // Replacements are of texts.
        let as_texts = of_words || self.replace.is_some();
        let values = values(array, as_texts).filter(|values| match values {
            Values::Texts(_) => true,
            Values::Numbers(kind, _) => *kind == wanted,
        });
        let Some(values) = values else {
            let (path, column) = (self.path.clone(), self.name.to_owned());
            let (found, wanted) = (array.data_type().to_string(), wanted.name());
            return Err(TableError::ColumnType { path, column, found, wanted });
        };
        match values {
            Values::Texts(texts) => {
                for (row, text) in texts.iter().enumerate() {
                    self.add_text(text.as_deref()).map_err(|unfit| {
                        self.unfit(unfit, first + row, text.as_deref().unwrap_or_default())
                    })?;
                }
            }
            Values::Numbers(kind, values) => {
                for (row, number) in values.into_iter().enumerate() {
                    self.add_number(number, &kind).map_err(|unfit| {
                        let text = number.map_or_else(String::new, |number| number.to_string());
                        self.unfit(unfit, first + row, &text)
                    })?;
                }
            }
        }
        Ok(())
    }

    fn add_text(&mut self, text: Option<&str>) -> Result<(), Unfit> {
        let field = match text {
            Some(text) => replaced(self.replace, trim(text.as_bytes())?),
            None => &[],
        };
        let is_missing = text.is_none() || self.missing.contains(field);
        self.column.push(field, is_missing)?;
        let column = &self.column;
        self.check.as_mut().map_or(Ok(()), |check| check.check(column, is_missing))
    }

    fn add_number(&mut self, number: Option<f64>, kind: &ColumnKind) -> Result<(), Unfit> {
        let number = number.filter(|number| !number.is_nan());
        if number.is_some_and(f64::is_infinite) {
            return Err(Unfit::Number(kind.expected()));
        }
        if let Column::Number { numbers, .. } = &mut self.column {
            numbers.push(number.unwrap_or(f64::NAN));
        }
        let column = &self.column;
        self.check.as_mut().map_or(Ok(()), |check| check.check(column, number.is_none()))
    }

    /// The error of a value, with its row counted from 1.
    fn unfit(&self, unfit: Unfit, row: usize, text: &str) -> TableError {
        let (path, line, column) = (self.path.clone(), row as u64 + 1, self.name.to_owned());
        match unfit {
            Unfit::Text => TableError::NotUtf8 { path, line, column, likely: None },
            Unfit::Number(expected) => {
                let expected = expected_instead(expected, text);
                TableError::Field { expected, path, line, column, text: shortened(text) }
            }
            Unfit::Missing => TableError::Refused { path, line, column, word: None },
            Unfit::Unknown(word) => {
                TableError::Refused { path, line, column, word: Some(shortened(&word)) }
            }
        }
    }
}

/// The values of an array, as texts if these are wanted; `None` for a type that a table does not
/// have.
fn values(array: &ArrayRef, as_texts: bool) -> Option<Values> {
    /// Whole numbers: exact as texts.
    fn whole<T: ArrowPrimitiveType<Native: Copy + ToString>>(
        array: &ArrayRef,
        as_texts: bool,
        number: impl Fn(T::Native) -> f64,
    ) -> Values {
        let values = array.as_primitive::<T>().iter();
        if as_texts {
            return Values::Texts(values.map(|value| value.map(|it| it.to_string())).collect());
        }
        Values::Numbers(ColumnKind::Number, values.map(|value| value.map(&number)).collect())
    }
    fn dates<T: ArrowPrimitiveType>(array: &ArrayRef, days: impl Fn(T::Native) -> f64) -> Values {
        let values = array.as_primitive::<T>().iter();
        Values::Numbers(ColumnKind::Date, values.map(|value| value.map(&days)).collect())
    }
    /// The days of an instant in parts of a second, as those of a text.
    fn days(parts: i64, a_second: i64) -> f64 {
        let (seconds, rest) = (parts.div_euclid(a_second), parts.rem_euclid(a_second));
        let of_day = seconds.rem_euclid(DAY_S) as f64 + rest as f64 / a_second as f64;
        seconds.div_euclid(DAY_S) as f64 + of_day / DAY_S as f64
    }
    let texts = |values: Vec<Option<&str>>| {
        Values::Texts(values.into_iter().map(|text| text.map(str::to_owned)).collect())
    };
    let floats = |values: Vec<Option<f64>>| match as_texts {
        true => Values::Texts(
            values
                .into_iter()
                .map(|it| it.filter(|it| !it.is_nan()).map(|it| it.to_string()))
                .collect(),
        ),
        false => Values::Numbers(ColumnKind::Number, values),
    };
    Some(match array.data_type() {
        DataType::Null => {
            let none = vec![None; array.len()];
            if as_texts {
                texts(none)
            } else {
                Values::Numbers(ColumnKind::Number, vec![None; array.len()])
            }
        }
        DataType::Boolean => {
            let values = array.as_boolean().iter();
            match as_texts {
                true => Values::Texts(values.map(|it| it.map(|it| it.to_string())).collect()),
                false => {
                    let number = |it: Option<bool>| it.map(|it| f64::from(u8::from(it)));
                    Values::Numbers(ColumnKind::Boolean, values.map(number).collect())
                }
            }
        }
        DataType::Int8 => whole::<Int8Type>(array, as_texts, f64::from),
        DataType::Int16 => whole::<Int16Type>(array, as_texts, f64::from),
        DataType::Int32 => whole::<Int32Type>(array, as_texts, f64::from),
        DataType::Int64 => whole::<Int64Type>(array, as_texts, |value| value as f64),
        DataType::UInt8 => whole::<UInt8Type>(array, as_texts, f64::from),
        DataType::UInt16 => whole::<UInt16Type>(array, as_texts, f64::from),
        DataType::UInt32 => whole::<UInt32Type>(array, as_texts, f64::from),
        DataType::UInt64 => whole::<UInt64Type>(array, as_texts, |value| value as f64),
        DataType::Float16 => {
            floats(array.as_primitive::<Float16Type>().iter().map(|it| it.map(f64::from)).collect())
        }
        // The shortest text of an f32 is that of the f32, not of the f64 that it is.
        DataType::Float32 if as_texts => {
            let values = array.as_primitive::<Float32Type>().iter();
            let text = |it: Option<f32>| it.filter(|it| !it.is_nan()).map(|it| it.to_string());
            Values::Texts(values.map(text).collect())
        }
        DataType::Float32 => {
            floats(array.as_primitive::<Float32Type>().iter().map(|it| it.map(f64::from)).collect())
        }
        DataType::Float64 => floats(array.as_primitive::<Float64Type>().iter().collect()),
        DataType::Utf8 => texts(array.as_string::<i32>().iter().collect()),
        DataType::LargeUtf8 => texts(array.as_string::<i64>().iter().collect()),
        DataType::Utf8View => texts(array.as_string_view().iter().collect()),
        DataType::Date32 if !as_texts => dates::<Date32Type>(array, f64::from),
        DataType::Date64 if !as_texts => dates::<Date64Type>(array, |ms| days(ms, DAY_MS / DAY_S)),
        DataType::Timestamp(unit, _) if !as_texts => match unit {
            TimeUnit::Second => dates::<TimestampSecondType>(array, |it| days(it, 1)),
            TimeUnit::Millisecond => dates::<TimestampMillisecondType>(array, |it| days(it, 1_000)),
            TimeUnit::Microsecond => {
                dates::<TimestampMicrosecondType>(array, |it| days(it, 1_000_000))
            }
            TimeUnit::Nanosecond => {
                dates::<TimestampNanosecondType>(array, |it| days(it, 1_000_000_000))
            }
        },
        DataType::Dictionary(..) => {
            let dictionary = array.as_any_dictionary();
            if dictionary.values().is_empty() {
                // Every key is null, and a null key has no place.
                let none =
                    arrow_array::new_null_array(dictionary.values().data_type(), array.len());
                return values(&none, as_texts);
            }
            let keys = dictionary.normalized_keys();
            let key = |row: usize| (!dictionary.keys().is_null(row)).then(|| keys[row]);
            match values(dictionary.values(), as_texts)? {
                Values::Texts(words) => {
                    let word = |row| key(row).and_then(|key| words[key].clone());
                    Values::Texts((0..array.len()).map(word).collect())
                }
                Values::Numbers(kind, numbers) => {
                    let number = |row| key(row).and_then(|key| numbers[key]);
                    Values::Numbers(kind, (0..array.len()).map(number).collect())
                }
            }
        }
        _ => return None,
    })
}
