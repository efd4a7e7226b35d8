//! Categories that are numbers or dates but for a few.

use crate::table::columns::{Column, MISSING};
use crate::table::{ColumnKind, Table, TableError};

/// At least this many of the values are numbers for each that is none: 95 of 100.
const NUMBERS_PER_STRAY: usize = 19;

/// At least this many different numbers; a column of codes such as `1`, `2` and `A` has fewer.
const LEAST_DIFFERENT: usize = 10;

/// A value of a column of categories that nearly all others show to be wrong: they are numbers, or
/// dates, and it is none.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct StrayValue {
    /// The kind of nearly all values: [`ColumnKind::Number`] or [`ColumnKind::Date`].
    pub kind: ColumnKind,
    /// The first row with a value of another kind.
    pub row: usize,
    /// That value.
    pub text: String,
    /// The values of the kind.
    pub of_kind: usize,
    /// All values that are not missing.
    pub values: usize,
}

impl Table {
    /// The first value of a column of categories that is no number where at least 95 % of the values
    /// are numbers, ten different ones or more; the same for dates. `None` for other columns.
    ///
    /// Only rows count for which `is_looked_at` returns true.
    ///
    /// # Errors
    /// [`TableError::Unfitted`] for a column that does not exist.
    ///
    /// # Example
    /// ```
    /// use updraft_data::{Delimiter, Table, TableSchema};
    ///
    /// let mut text = "size\n".to_owned();
    /// (0..40).for_each(|row| text += if row == 30 { "n.a.\n" } else { ["1.5\n", "2\n"][row % 2] });
    /// let schema = TableSchema::new().category("size");
    /// let table = Table::parse(text.as_bytes(), "t.csv", Delimiter::Comma, schema.clone())?;
    /// assert_eq!(table.stray_value("size", |_| true)?, None, "two different numbers may be codes");
    /// (0..400).for_each(|row| text += &format!("{row}\n"));
    /// let table = Table::parse(text.as_bytes(), "t.csv", Delimiter::Comma, schema)?;
    /// let stray = table.stray_value("size", |_| true)?.expect("one");
    /// assert_eq!((stray.row, stray.text.as_str(), stray.of_kind), (30, "n.a.", 439));
    /// # Ok::<(), updraft_data::TableError>(())
    /// ```
    pub fn stray_value(
        &self,
        column: &str,
        is_looked_at: impl Fn(usize) -> bool,
    ) -> Result<Option<StrayValue>, TableError> {
        let Column::Category { words, codes } = self.column(column)? else { return Ok(None) };
        let words = words.words();
        let is_value = |row: usize| codes[row] != MISSING && is_looked_at(row);
        let rows = || (0..self.rows).filter(|&row| is_value(row));
        let mut kinds = [ColumnKind::Number, ColumnKind::Date].into_iter();
        Ok(kinds.find_map(|kind| {
            let is_of_kind: Vec<bool> = words.iter().map(|word| kind.takes(word)).collect();
            if is_of_kind.iter().filter(|&&is| is).count() < LEAST_DIFFERENT {
                return None;
            }
            let (mut values, mut of_kind, mut stray) = (0, 0, None);
            let mut is_seen = vec![false; words.len()];
            for row in rows() {
                let code = codes[row] as usize;
                values += 1;
                if is_of_kind[code] {
                    of_kind += 1;
                    is_seen[code] = true;
                } else {
                    stray.get_or_insert(row);
                }
            }
            let row = stray?;
            let is_rule = is_seen.iter().filter(|&&is| is).count() >= LEAST_DIFFERENT
                && of_kind >= NUMBERS_PER_STRAY * (values - of_kind);
            let text = String::from(words[codes[row] as usize].clone());
            is_rule.then_some(StrayValue { kind, row, text, of_kind, values })
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::{Delimiter, TableSchema};

    fn stray_of(fields: &[&str], is_looked_at: impl Fn(usize) -> bool) -> Option<StrayValue> {
        let text = format!("a\n{}\n", fields.join("\n"));
        let schema = TableSchema::new().category("a");
        let table = Table::parse(text.as_bytes(), "t.csv", Delimiter::Comma, schema).unwrap();
        table.stray_value("a", is_looked_at).unwrap()
    }

    /// So many different fields of a kind, with others in place of the first.
    fn with(others: &[&'static str], count: usize, field: impl Fn(usize) -> String) -> Vec<String> {
        let of_kind = (others.len()..count).map(field);
        others.iter().map(|&other| other.to_owned()).chain(of_kind).collect()
    }

    fn stray(fields: &[String]) -> Option<(ColumnKind, usize, String, usize, usize)> {
        let fields: Vec<&str> = fields.iter().map(String::as_str).collect();
        let StrayValue { kind, row, text, of_kind, values } = stray_of(&fields, |_| true)?;
        Some((kind, row, text, of_kind, values))
    }

    #[test]
    fn one_of_twenty_values_is_stray_and_two_are_a_category() {
        let number = |row: usize| format!("{row}.5");
        let expected = |kind, text: &str| Some((kind, 0, text.to_owned(), 19, 20));
        assert_eq!(stray(&with(&["n.a."], 20, number)), expected(ColumnKind::Number, "n.a."));
        assert_eq!(stray(&with(&["n.a.", "x"], 20, number)), None);
        assert_eq!(stray(&with(&[], 20, number)), None);
        // A missing value is none.
        let missing = with(&["?", "n.a."], 21, number);
        let found = Some((ColumnKind::Number, 1, "n.a.".to_owned(), 19, 20));
        assert_eq!(stray(&missing), found);
        assert_eq!(stray(&missing[..20]), None);
        let date = |row: usize| format!("2024-02-{:02}", row % 28 + 1);
        assert_eq!(stray(&with(&["29.2.24"], 20, date)), expected(ColumnKind::Date, "29.2.24"));
    }

    #[test]
    fn codes_are_categories_whatever_their_number() {
        let code = |codes: usize| move |row: usize| (row % codes).to_string();
        assert_eq!(stray(&with(&["A"], 1000, code(9))), None);
        assert!(stray(&with(&["A"], 1000, code(10))).is_some());
    }

    #[test]
    fn only_rows_that_are_looked_at_decide() {
        let fields = with(&["n.a.", "x"], 400, |row| row.to_string());
        let fields: Vec<&str> = fields.iter().map(String::as_str).collect();
        assert_eq!(stray_of(&fields, |row| row > 0).expect("one").text, "x");
        assert_eq!(stray_of(&fields, |row| row > 1), None);
        assert_eq!(stray_of(&fields, |row| row < 11), None);
    }
}
