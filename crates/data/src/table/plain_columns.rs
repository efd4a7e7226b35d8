//! The columns of a regular text without quotes, each in blocks of rows.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::table::asked::{Asked, AskedColumns};
use crate::table::columns::{Column, MISSING, Missing, Unfit, replaced, trim};
use crate::table::field_ends::FieldEnds;
use crate::table::number::finite_at;
use crate::table::rules::RuleCheck;
use crate::table::{ColumnKind, ColumnSchema};

/// Rows that are read together: their text stays in the first cache from column to column.
const ROWS: usize = 128;

/// Reads the columns asked for, `None` for those whose guess was wrong, to be appended to the columns
/// of the rows before.
///
/// A field that does not fit is an error without its place, which reading row by row finds.
pub(super) fn read_plain<'a>(
    text: &[u8],
    ends: &FieldEnds,
    (asked, places): (&'a Asked, &[usize]),
    before: &'a [Option<Column>],
) -> Result<AskedColumns, Unfit> {
    let Asked { schema, is_guessed } = asked;
    let missing = Missing::new(&schema.missing);
    let reading = |((column, &at), before): ((&'a ColumnSchema, _), &'a Option<Column>)| {
        let ColumnSchema { name, kind, rules } = column;
        let replace = schema.replace.get(name);
        let check = RuleCheck::new(rules);
        let known = Option::as_ref(before).filter(|_| replace.is_none() && check.is_none());
        let column = Some(Column::after(known, kind, ends.rows()));
        Reading { at, column, known, replace, check }
    };
    let columns = schema.columns.iter().zip(places).zip(before);
    let mut readings: Vec<Reading<'_>> = columns.map(reading).collect();
    for first in (0..ends.rows()).step_by(ROWS) {
        let rows = first..ends.rows().min(first + ROWS);
        let rows = Rows { text, ends, rows, missing: &missing };
        for (reading, is_guessed) in readings.iter_mut().zip(is_guessed) {
            match reading.read(&rows) {
                Err(Unfit::Number(_)) if *is_guessed => reading.column = None,
                read => read?,
            }
        }
    }
    Ok(readings.into_iter().map(|reading| reading.column).collect())
}

/// Neighboring rows of a text.
struct Rows<'a> {
    text: &'a [u8],
    ends: &'a FieldEnds,
    rows: Range<usize>,
    missing: &'a Missing<'a>,
}

/// A column while it is read.
struct Reading<'a> {
    at: usize,
    column: Option<Column>,
    /// The words of the rows before, of a plain column.
    known: Option<&'a Column>,
    replace: Option<&'a BTreeMap<String, String>>,
    check: Option<RuleCheck<'a>>,
}

impl Reading<'_> {
    fn read(&mut self, rows: &Rows<'_>) -> Result<(), Unfit> {
        let is_plain = self.replace.is_none() && self.check.is_none();
        let known = match self.known {
            Some(Column::Category { words, .. }) => Some(words),
            _ => None,
        };
        let Rows { text, missing, .. } = *rows;
        match &mut self.column {
            None => Ok(()),
            Some(Column::Number { kind: ColumnKind::Number, numbers }) if is_plain => {
                rows.places(self.at).try_for_each(|(start, end)| {
                    let number = match missing.may_begin(text, start, end) {
                        true => None,
                        false => finite_at(text, start, end),
                    };
                    numbers.push(match number {
                        Some(number) => number,
                        None => other_number(&text[start..end], missing)?,
                    });
                    Ok(())
                })
            }
            Some(Column::Category { words, codes }) if let Some(known) = known => {
                rows.places(self.at).try_for_each(|(start, end)| {
                    let is_word = !missing.may_begin(text, start, end)
                        && text[start].is_ascii_graphic()
                        && text[end - 1].is_ascii_graphic();
                    codes.push(if is_word {
                        words.number_after(known, text, (start, end))?
                    } else {
                        match trim(&text[start..end])? {
                            field if missing.contains(field) => MISSING,
                            field => words.number_after(known, field, (0, field.len()))?,
                        }
                    });
                    Ok(())
                })
            }
            Some(column) => rows.places(self.at).try_for_each(|(start, end)| {
                let field = replaced(self.replace, trim(&text[start..end])?);
                let is_missing = missing.contains(field);
                column.push(field, is_missing)?;
                self.check.as_mut().map_or(Ok(()), |check| check.check(column, is_missing))
            }),
        }
    }
}

impl Rows<'_> {
    /// Where the fields of a column begin and end.
    fn places(&self, column: usize) -> impl Iterator<Item = (usize, usize)> {
        self.rows.clone().map(move |row| self.ends.place(self.text, row, column))
    }
}

/// The number of a field that has none without trimming it; NaN for a missing one.
#[inline(never)]
fn other_number(field: &[u8], missing: &Missing<'_>) -> Result<f64, Unfit> {
    let field = trim(field)?;
    if missing.contains(field) {
        return Ok(f64::NAN);
    }
    match ColumnKind::Number.number(field) {
        Some(number) => Ok(number),
        None => {
            str::from_utf8(field)?;
            Err(Unfit::Number(ColumnKind::Number.expected()))
        }
    }
}
