//! Columns that are probably not the feature as which they are read.

use crate::table::columns::{Column, MISSING};
use crate::table::{ColumnKind, Table, TableError};

/// A column is in doubt if at least 95 of 100 of its values fit.
const FITTING_PER_OTHER: usize = 19;

/// Fewer values than this leave no doubt.
const LEAST_VALUES: usize = 20;

/// Why a column is in doubt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Doubt {
    /// Its categories look like numbers with a decimal comma: `1,5`.
    DecimalComma,
    /// Its categories look like numbers with separators of thousands: `1,250,000`.
    Thousands,
    /// Its categories look like numbers with a sign of a currency, or with `%`.
    Unit,
    /// Its categories look like dates that are not those of ISO 8601: `2/29/2024`.
    Date,
    /// More than half of its categories are in a single row each, as identifiers are.
    Identifiers,
    /// Its numbers count the rows.
    RowNumbers,
}

/// A column that is probably not the feature as which it is read.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct DoubtfulColumn {
    /// Why.
    pub doubt: Doubt,
    /// The first of its values that fit, as it is in the file; a whole number without a fraction.
    pub example: String,
    /// The values that fit; the different ones for [`Doubt::Identifiers`].
    pub fitting: usize,
    /// All values that are not missing.
    pub values: usize,
}

impl Table {
    /// Whether a column of categories or numbers is in doubt; `None` for one that is not, and for one
    /// with fewer than 20 values. Only rows count for which `is_looked_at` returns true.
    ///
    /// # Errors
    /// [`TableError::Unfitted`] for a column that does not exist.
    ///
    /// # Example
    /// ```
    /// use updraft_data::{Delimiter, Doubt, Table, TableSchema};
    ///
    /// let rows: String = (0..40).map(|row| format!("{row},5\n")).collect();
    /// let schema = TableSchema::new().category("size");
    /// let bytes = format!("size\n{rows}");
    /// let table = Table::parse(bytes.as_bytes(), "t.csv", Delimiter::Semicolon, schema)?;
    /// let doubtful = table.doubt("size", |_| true)?.expect("a decimal comma");
    /// assert_eq!((doubtful.doubt, doubtful.example.as_str()), (Doubt::DecimalComma, "0,5"));
    /// # Ok::<(), updraft_data::TableError>(())
    /// ```
    pub fn doubt(
        &self,
        column: &str,
        is_looked_at: impl Fn(usize) -> bool,
    ) -> Result<Option<DoubtfulColumn>, TableError> {
        Ok(match self.column(column)? {
            Column::Category { words, codes } => {
                let rows = (0..self.rows).filter(|&row| is_looked_at(row));
                let codes: Vec<usize> = rows
                    .map(|row| codes[row])
                    .filter(|&it| it != MISSING)
                    .map(|it| it as usize)
                    .collect();
                (codes.len() >= LEAST_VALUES).then(|| of_words(words.words(), &codes)).flatten()
            }
            Column::Number { kind: ColumnKind::Number, numbers } => {
                let rows = (0..self.rows).filter(|&row| is_looked_at(row));
                of_numbers(rows.map(|row| (row, numbers[row])))
            }
            _ => None,
        })
    }
}

/// The doubt about the words of these codes.
fn of_words(words: &[Box<str>], codes: &[usize]) -> Option<DoubtfulColumn> {
    let of_word: Vec<Option<Doubt>> = words.iter().map(|word| doubt_of(word)).collect();
    let values = codes.len();
    let text = |code: usize| words[code].to_string();
    for doubt in [Doubt::Thousands, Doubt::DecimalComma, Doubt::Unit, Doubt::Date] {
        // Among decimal commas, `1,250` looks like thousands.
        let fits = |code: usize| match of_word[code] {
            Some(Doubt::Thousands) => matches!(doubt, Doubt::Thousands | Doubt::DecimalComma),
            other => other == Some(doubt),
        };
        let fitting = codes.iter().filter(|&&code| fits(code)).count();
        if fitting >= FITTING_PER_OTHER * (values - fitting) {
            let example = text(*codes.iter().find(|&&code| fits(code))?);
            return Some(DoubtfulColumn { doubt, example, fitting, values });
        }
    }
    let mut seen = vec![0_usize; words.len()];
    codes.iter().for_each(|&code| seen[code] += 1);
    let once = codes.iter().filter(|&&code| seen[code] == 1).count();
    let fitting = seen.iter().filter(|&&count| count > 0).count();
    let first = codes.iter().find(|&&code| seen[code] == 1)?;
    let doubtful =
        DoubtfulColumn { doubt: Doubt::Identifiers, example: text(*first), fitting, values };
    (2 * once > values).then_some(doubtful)
}

/// The doubt about numbers of rows: each is that of the first row, and one more for each row.
fn of_numbers(mut numbers: impl Iterator<Item = (usize, f64)>) -> Option<DoubtfulColumn> {
    let (first_row, first) = numbers.next()?;
    let mut values = 1;
    for (row, number) in numbers {
        if number != first + (row - first_row) as f64 {
            return None;
        }
        values += 1;
    }
    let example = first.to_string();
    let doubt = DoubtfulColumn { doubt: Doubt::RowNumbers, example, fitting: values, values };
    (values >= LEAST_VALUES).then_some(doubt)
}

/// What a word looks like that is neither a number nor a date.
fn doubt_of(word: &str) -> Option<Doubt> {
    let is_digits = |text: &str| !text.is_empty() && text.bytes().all(|it| it.is_ascii_digit());
    if is_date(word) {
        return Some(Doubt::Date);
    }
    let is_unit = |it: char| "$€£¥%".contains(it);
    let bare = word.trim_matches(|it: char| is_unit(it) || it.is_whitespace());
    let number = bare.trim_start_matches(['+', '-']);
    if bare.len() < word.len() && (ColumnKind::Number.takes(bare) || doubt_of(bare).is_some()) {
        return Some(Doubt::Unit);
    }
    // `1,250,000.5`, `1.250.000,5` and `1 250 000`.
    for (separator, point) in [(',', '.'), ('.', ','), (' ', ','), ('\u{a0}', ','), ('\'', '.')] {
        let (whole, fraction) =
            number.split_once(point).map_or((number, None), |(whole, rest)| (whole, Some(rest)));
        let mut groups = whole.split(separator);
        let is_first = groups.next().is_some_and(|it| is_digits(it) && it.len() <= 3);
        let others: Vec<&str> = groups.collect();
        let is_grouped =
            !others.is_empty() && others.iter().all(|it| it.len() == 3 && is_digits(it));
        if is_first && is_grouped && fraction.is_none_or(is_digits) {
            return Some(Doubt::Thousands);
        }
    }
    let (whole, fraction) = number.split_once(',')?;
    ((whole.is_empty() || is_digits(whole)) && is_digits(fraction)).then_some(Doubt::DecimalComma)
}

/// Three numbers with one of `/`, `.` and `-` between them, one of them of a year, with or without a
/// time after a space or `T`.
fn is_date(word: &str) -> bool {
    let date = word.split([' ', 'T']).next().unwrap_or_default();
    ['/', '.', '-'].iter().any(|&separator| {
        let parts: Vec<&str> = date.split(separator).collect();
        let [first, middle, last] = parts[..] else { return false };
        let is_part = |text: &str, digits: usize| {
            (1..=digits).contains(&text.len()) && text.bytes().all(|it| it.is_ascii_digit())
        };
        let is_year = |text: &str| is_part(text, 4) && text.len() != 3;
        let is_year_last = is_part(first, 2) && is_year(last) && last.len() >= 2;
        let is_year_first = is_year(first) && first.len() == 4 && is_part(last, 2);
        is_part(middle, 2) && (is_year_last || is_year_first)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::{Delimiter, TableSchema};

    #[test]
    fn words_look_like_what_they_are() {
        for (words, expected) in [
            (&["1,5", "-0,25", ",5", "12,"][..3], Some(Doubt::DecimalComma)),
            (
                &["1,250", "1,250,000.5", "1.250.000", "1 250", "12'000", "+1,250"],
                Some(Doubt::Thousands),
            ),
            (&["$12", "12.5 %", "-3€", "$1,250", "1,5 €"], Some(Doubt::Unit)),
            (
                &["2/29/2024", "29.02.2024", "29-2-24", "2024/02/29", "2/29/24 23:59"],
                Some(Doubt::Date),
            ),
            (
                &["a,b", "1,2,3", "12,", "A-17", "1/2", "1.2.3.4", "%", "", "10-20", "1234/5/678"],
                None,
            ),
        ] {
            for word in words {
                assert_eq!(doubt_of(word), expected, "{word}");
            }
        }
    }

    fn doubt(
        fields: impl Iterator<Item = String>,
        is_number: bool,
    ) -> Option<(Doubt, String, usize, usize)> {
        let text: String = ["a".to_owned()].into_iter().chain(fields).map(|it| it + "\n").collect();
        let schema = TableSchema::new();
        let schema = if is_number { schema.number("a") } else { schema.category("a") };
        let table = Table::parse(text.as_bytes(), "t.csv", Delimiter::Semicolon, schema).unwrap();
        let DoubtfulColumn { doubt, example, fitting, values } =
            table.doubt("a", |row| row != 3).unwrap()?;
        Some((doubt, example, fitting, values))
    }

    #[test]
    fn nearly_all_values_have_to_fit() {
        // Row 3 is not looked at, and a missing value is none.
        let of = |others: usize| {
            let field = move |row| match row {
                3 => "x".to_owned(),
                4 => "?".to_owned(),
                row if (5..5 + others).contains(&row) => "none".to_owned(),
                row => format!("{},250", row % 7),
            };
            doubt((0..25).map(field), false)
        };
        assert_eq!(of(0), Some((Doubt::Thousands, "0,250".to_owned(), 23, 23)));
        assert_eq!(of(1), Some((Doubt::Thousands, "0,250".to_owned(), 22, 23)));
        assert_eq!(of(2), None);
        let commas = (0..40).map(|row| if row % 2 == 0 { "1,250" } else { "1,5" }.to_owned());
        let found = doubt(commas, false).expect("in doubt");
        assert_eq!((found.0, found.2), (Doubt::DecimalComma, 39));
        assert_eq!(doubt((0..20).map(|_| "1,5".to_owned()), false), None, "too few");
    }

    #[test]
    fn identifiers_are_in_one_row_each_and_row_numbers_count() {
        let ids = |most: usize| (0..41).map(move |row| format!("A{}", row.min(most)));
        assert_eq!(doubt(ids(40), false), Some((Doubt::Identifiers, "A0".to_owned(), 40, 40)));
        assert_eq!(doubt(ids(22), false).map(|it| it.2), Some(22));
        assert_eq!(doubt(ids(20), false), None);
        let rows = |step: usize| (0..41).map(move |row| (7 + row * step).to_string());
        assert_eq!(doubt(rows(1), true), Some((Doubt::RowNumbers, "7".to_owned(), 40, 40)));
        assert_eq!(doubt(rows(2), true), None);
    }
}
