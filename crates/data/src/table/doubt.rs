//! Columns that are probably not the feature as which they are read.

use std::collections::BTreeSet;

use crate::table::columns::{Column, MISSING};
use crate::table::{ColumnKind, Table, TableError};

/// Fewer values than this leave no doubt.
const LEAST_VALUES: usize = 20;

/// Fewer different numbers than this may be codes.
const LEAST_DIFFERENT: usize = 10;

/// Of so many numbers that could have a decimal comma, at least one cannot have separators of
/// thousands.
const OTHERS_PER_OWN: usize = 20;

/// The beginnings of the names of months, in English.
const MONTHS: [&str; 12] =
    ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];

/// Why a column is in doubt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Doubt {
    /// Most of its categories are numbers, ten different ones or more, and others are not.
    SomeNumbers,
    /// Most of its categories are dates of ISO 8601, and others are not.
    SomeDates,
    /// Its categories look like numbers with a decimal comma: `1,5`.
    DecimalComma,
    /// Its categories look like numbers with separators of thousands: `1,250,000`.
    Thousands,
    /// Its categories look like numbers with a unit, such as `$12`, `12 %` and `12 kg`.
    Unit,
    /// Its categories look like dates that are not those of ISO 8601: `2/29/2024`.
    Date,
    /// More than half of its values are in a single row each, as identifiers are.
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
    /// The first that does not fit, if there is one.
    pub other: Option<String>,
    /// The values that fit, more than half of them; the different ones for [`Doubt::Identifiers`].
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
    for doubt in [
        Doubt::SomeNumbers,
        Doubt::SomeDates,
        Doubt::DecimalComma,
        Doubt::Thousands,
        Doubt::Unit,
        Doubt::Date,
    ] {
        // Among decimal commas, `1,250` looks like thousands.
        let fits = |code: usize| match of_word[code] {
            Some(Doubt::Thousands) => matches!(doubt, Doubt::Thousands | Doubt::DecimalComma),
            other => other == Some(doubt),
        };
        let fitting = codes.iter().filter(|&&code| fits(code)).count();
        let different = || codes.iter().filter(|&&it| fits(it)).collect::<BTreeSet<_>>().len();
        let own = codes.iter().filter(|&&code| of_word[code] == Some(doubt)).count();
        let is_enough = match doubt {
            Doubt::SomeNumbers => different() >= LEAST_DIFFERENT,
            _ => OTHERS_PER_OWN * own >= fitting,
        };
        if 2 * fitting > values && is_enough {
            let example = text(*codes.iter().find(|&&code| fits(code))?);
            let other = codes.iter().find(|&&code| !fits(code)).map(|&code| text(code));
            return Some(DoubtfulColumn { doubt, example, other, fitting, values });
        }
    }
    let mut seen = vec![0_usize; words.len()];
    codes.iter().for_each(|&code| seen[code] += 1);
    let once = codes.iter().filter(|&&code| seen[code] == 1).count();
    let fitting = seen.iter().filter(|&&count| count > 0).count();
    let first = codes.iter().find(|&&code| seen[code] == 1)?;
    let (doubt, example) = (Doubt::Identifiers, text(*first));
    let doubtful = DoubtfulColumn { doubt, example, other: None, fitting, values };
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
    let (doubt, example) = (Doubt::RowNumbers, first.to_string());
    let doubtful = DoubtfulColumn { doubt, example, other: None, fitting: values, values };
    (values >= LEAST_VALUES).then_some(doubtful)
}

/// What a word looks like.
fn doubt_of(word: &str) -> Option<Doubt> {
    if ColumnKind::Number.takes(word) {
        return Some(Doubt::SomeNumbers);
    }
    if ColumnKind::Date.takes(word) {
        return Some(Doubt::SomeDates);
    }
    if is_date(word) || is_named_date(word) {
        return Some(Doubt::Date);
    }
    if let Some(number) = without_unit(word) {
        let is_number = ColumnKind::Number.takes(number) || of_number(number).is_some();
        return is_number.then_some(Doubt::Unit);
    }
    of_number(word)
}

/// The number of a word with a unit: `$12`, `-12 €`, `12%`, `(12)`, `12 kg`, `12 °C` or `CHF 12`.
fn without_unit(word: &str) -> Option<&str> {
    let is_sign = |it: char| "$€£¥%".contains(it);
    let word = word.trim();
    let inner = word.strip_prefix('(').and_then(|rest| rest.strip_suffix(')'));
    let unsigned = inner.unwrap_or(word);
    let unsigned = unsigned.strip_prefix(['+', '-']).unwrap_or(unsigned);
    let bare = unsigned.trim_matches(|it: char| is_sign(it) || it.is_whitespace());
    if inner.is_some() || bare.len() < unsigned.len() {
        return Some(bare);
    }
    let is_code = |text: &str| text.len() == 3 && text.bytes().all(|it| it.is_ascii_uppercase());
    let is_unit = |text: &str| {
        (1..=4).contains(&text.chars().count())
            && text.chars().all(|it| it.is_alphabetic() || "°µ²³/".contains(it))
    };
    match word.split_once(' ') {
        Some((code, number)) if is_code(code) => Some(number.trim()),
        Some((number, unit)) if is_unit(unit) => Some(number),
        _ => None,
    }
}

/// Whether a number has separators of thousands (`1,250,000.5`, `1.250.000,5`, `1 250 000`) or a
/// decimal comma.
fn of_number(word: &str) -> Option<Doubt> {
    let is_digits = |text: &str| !text.is_empty() && text.bytes().all(|it| it.is_ascii_digit());
    let number = word.strip_prefix(['+', '-']).unwrap_or(word);
    for (separators, point) in [(",", '.'), (".", ','), (" \u{a0}\u{202f}", ','), ("'_", '.')] {
        let (whole, fraction) =
            number.split_once(point).map_or((number, None), |(whole, rest)| (whole, Some(rest)));
        let mut groups = whole.split(|it| separators.contains(it));
        let is_first = groups.next().is_some_and(|it| is_digits(it) && it.len() <= 3);
        let others: Vec<&str> = groups.collect();
        let is_grouped =
            !others.is_empty() && others.iter().all(|it| it.len() == 3 && is_digits(it));
        if is_first && is_grouped && fraction.is_none_or(is_digits) {
            return Some(Doubt::Thousands);
        }
    }
    let (whole, fraction) = number.split_once(',')?;
    let is_whole = whole.is_empty() || is_digits(whole);
    // `12,` is no number, and `1,5e-2` is one.
    let is_fraction = fraction.starts_with(|it: char| it.is_ascii_digit())
        && ColumnKind::Number.takes(&format!("0.{fraction}"));
    (is_whole && is_fraction).then_some(Doubt::DecimalComma)
}

/// Day, month and year in any order that is used, with one of `/`, `.` and `-` between them, with or
/// without a time after a space or `T`.
fn is_date(word: &str) -> bool {
    let date = word.split([' ', 'T']).next().unwrap_or_default();
    ['/', '.', '-'].iter().any(|&separator| {
        let parts: Vec<&str> = date.split(separator).collect();
        let [first, middle, last] = parts[..] else { return false };
        let number = |text: &str, most: usize| {
            let is_read = text.len() <= most && text.bytes().all(|it| it.is_ascii_digit());
            text.parse::<u32>().ok().filter(|_| is_read)
        };
        let is_day = |one: &str, other: &str| match (number(one, 2), number(other, 2)) {
            (Some(one), Some(other)) => {
                (1..=31).contains(&one) && (1..=31).contains(&other) && one.min(other) <= 12
            }
            _ => false,
        };
        let is_year = |text: &str| matches!(text.len(), 2 | 4) && number(text, 4).is_some();
        is_day(first, middle) && is_year(last)
            || first.len() == 4 && is_year(first) && is_day(middle, last)
    })
}

/// A day, the name of a month and a year: `06-Jun-2020`, `June 6, 2020`.
fn is_named_date(word: &str) -> bool {
    let parts = word.split(|it: char| !it.is_alphanumeric()).filter(|part| !part.is_empty());
    let parts: Vec<String> = parts.map(str::to_lowercase).collect();
    let is_month = |part: &&String| {
        MONTHS.iter().any(|month| part.starts_with(month)) && part.chars().all(char::is_alphabetic)
    };
    let is_number = |part: &&String| part.len() <= 4 && part.bytes().all(|it| it.is_ascii_digit());
    parts.len() == 3
        && parts.iter().filter(is_month).count() == 1
        && parts.iter().filter(is_number).count() == 2
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::{Delimiter, TableSchema};

    #[test]
    fn words_look_like_what_they_are() {
        for (words, expected) in [
            (&["12", "-1.5e3"][..], Some(Doubt::SomeNumbers)),
            (&["2024-02-29"], Some(Doubt::SomeDates)),
            (&["1,5", "-0,25", ",5", "5,34e-02"], Some(Doubt::DecimalComma)),
            (
                &["1,250", "1,250,000.5", "1.250.000", "1 250", "12'000", "+1,250", "1\u{202f}250"],
                Some(Doubt::Thousands),
            ),
            (
                &[
                    "$12",
                    "12.5 %",
                    "-3€",
                    "$1,250",
                    "1,5 €",
                    "-$72.19",
                    "CHF 72.19",
                    "(72.19)",
                    "53.4 kg",
                    "72 °C",
                    "72 EUR",
                ],
                Some(Doubt::Unit),
            ),
            (
                &[
                    "2/29/2024",
                    "29.02.2024",
                    "29-2-24",
                    "2024/02/29",
                    "2/29/24 23:59",
                    "06-Jun-2020",
                    "June 06, 2020",
                ],
                Some(Doubt::Date),
            ),
            (
                &[
                    "a,b",
                    "1,2,3",
                    "12,",
                    "A-17",
                    "1/2",
                    "1.2.3.4",
                    "%",
                    "",
                    "10-20",
                    "1234/5/678",
                    "55-98-31",
                    "13-14-2020",
                    "March",
                    "Room 12",
                    "12:30",
                    "(x)",
                    "May B 12",
                ],
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
        let DoubtfulColumn { doubt, example, fitting, values, .. } =
            table.doubt("a", |row| row != 3).unwrap()?;
        Some((doubt, example, fitting, values))
    }

    #[test]
    fn most_values_have_to_fit() {
        // Row 3 is not looked at, and a missing value is none.
        let of = |others: usize, field: &dyn Fn(usize) -> String| {
            let field = |row| match row {
                3 => "x".to_owned(),
                4 => "?".to_owned(),
                row if (5..5 + others).contains(&row) => "none".to_owned(),
                row => field(row),
            };
            doubt((0..25).map(field), false)
        };
        let thousands = |row: usize| format!("{},250", row % 7);
        assert_eq!(of(0, &thousands), Some((Doubt::Thousands, "0,250".to_owned(), 23, 23)));
        assert_eq!(of(11, &thousands), Some((Doubt::Thousands, "0,250".to_owned(), 12, 23)));
        assert_eq!(of(12, &thousands), None);
        let numbers = |row: usize| row.to_string();
        assert_eq!(of(3, &numbers), Some((Doubt::SomeNumbers, "0".to_owned(), 20, 23)));
        // Few numbers beside a word are codes.
        assert_eq!(of(3, &|row| (row % 9).to_string()), None);
        let dates = |row: usize| format!("2024-02-{:02}", row + 1);
        assert_eq!(of(3, &dates), Some((Doubt::SomeDates, "2024-02-01".to_owned(), 20, 23)));
        let commas = (0..40).map(|row| if row % 2 == 0 { "1,250" } else { "1,5" }.to_owned());
        let found = doubt(commas, false).expect("in doubt");
        assert_eq!((found.0, found.2), (Doubt::DecimalComma, 39));
        assert_eq!(doubt((0..20).map(|_| "1,5".to_owned()), false), None, "too few");
    }

    #[test]
    fn a_value_that_does_not_fit_is_an_example_of_the_others() {
        let text: String = (0..40)
            .map(|row| if row == 30 { "-\n".to_owned() } else { format!("{row},5\n") })
            .collect();
        let schema = TableSchema::new().category("a");
        let text = format!("a\n{text}");
        let table = Table::parse(text.as_bytes(), "t.csv", Delimiter::Semicolon, schema).unwrap();
        let of = |most: usize| table.doubt("a", |row| row < most).unwrap().unwrap().other;
        assert_eq!((of(30), of(31)), (None, Some("-".to_owned())));
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
