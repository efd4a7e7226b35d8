//! The columns of a regular text without quotes, each in blocks of rows.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::table::asked::Asked;
use crate::table::columns::{Column, MISSING, Missing, Unfit, replaced, trim};
use crate::table::field_ends::FieldEnds;
use crate::table::number::finite_at;
use crate::table::rules::RuleCheck;
use crate::table::ColumnKind;

/// Rows that are read together: their text stays in the first cache from column to column.
const ROWS: usize = 128;

/// Reads the columns asked for, `None` for those whose guess was wrong.
///
/// A field that does not fit is an error without its place, which reading row by row finds.
pub(super) fn read_plain(
    text: &[u8],
    ends: &FieldEnds,
    asked: &Asked,
    places: &[usize],
) -> Result<Vec<Option<Column>>, Unfit> {
    let Asked { schema, is_guessed } = asked;
    let missing = Missing::new(&schema.missing);
    let columns = schema.columns.iter().zip(places);
    let mut readings: Vec<Reading<'_>> = columns
        .map(|(column, &at)| Reading {
            at,
            column: Some(Column::with_room(&column.kind, ends.rows())),
            replace: schema.replace.get(&column.name),
            check: RuleCheck::new(&column.rules),
        })
        .collect();
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
    replace: Option<&'a BTreeMap<String, String>>,
    check: Option<RuleCheck<'a>>,
}

impl Reading<'_> {
    fn read(&mut self, rows: &Rows<'_>) -> Result<(), Unfit> {
        let is_plain = self.replace.is_none() && self.check.is_none();
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
            Some(Column::Category { words, codes }) if is_plain => {
                rows.places(self.at).try_for_each(|(start, end)| {
                    let is_word = !missing.may_begin(text, start, end)
                        && text[start].is_ascii_graphic()
                        && text[end - 1].is_ascii_graphic();
                    codes.push(if is_word {
                        words.number_at(text, start, end)?
                    } else {
                        match trim(&text[start..end])? {
                            field if missing.contains(field) => MISSING,
                            field => words.number(field)?,
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
