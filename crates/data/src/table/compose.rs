//! Tables composed of numbers, columns and rows.

use std::ops::Range;

use crate::table::columns::{Column, MISSING, start};
use crate::table::{ColumnKind, Table, TableError, TableSchema};

impl Table {
    /// A table of numbers, column by column; NaN is a missing value.
    ///
    /// # Errors
    /// [`TableError::Setting`] for columns of different lengths or none.
    pub fn of_numbers<N: Into<String>>(
        columns: impl IntoIterator<Item = (N, Vec<f64>)>,
    ) -> Result<Self, TableError> {
        let mut table = Self { schema: TableSchema::new(), columns: Vec::new(), rows: 0 };
        for (name, values) in columns {
            if table.columns.is_empty() {
                table.rows = values.len();
            }
            table = table.with_numbers(name, values)?;
        }
        if table.rows == 0 {
            let what = "a table without rows has nothing to encode".to_owned();
            return Err(TableError::Setting { what, remedy: "give each column a value a row" });
        }
        Ok(table)
    }

    /// The same table with another column of numbers; NaN is a missing value.
    ///
    /// # Errors
    /// [`TableError::Setting`] unless there is one number a row, or for a name that exists.
    pub fn with_numbers(
        mut self,
        name: impl Into<String>,
        values: Vec<f64>,
    ) -> Result<Self, TableError> {
        let name = name.into();
        if values.len() != self.rows {
            let what =
                format!("column `{name}` has {} values for {} rows", values.len(), self.rows);
            return Err(TableError::Setting { what, remedy: "give it one a row" });
        }
        if self.schema.columns.iter().any(|column| column.name == name) {
            let what = format!("column `{name}` is there already");
            return Err(TableError::Setting { what, remedy: "choose another name" });
        }
        self.schema = self.schema.number(name);
        self.columns.push(Column::Number { kind: ColumnKind::Number, numbers: values });
        Ok(self)
    }

    /// Neighboring rows.
    pub(super) fn slice(&self, rows: Range<usize>) -> Self {
        let columns = self.columns.iter().map(|column| column.slice(rows.clone())).collect();
        Self { schema: self.schema.clone(), columns, rows: rows.len() }
    }

    /// The rows of this table, then those of another with the same columns.
    ///
    /// # Errors
    /// [`TableError::Setting`] for other columns.
    pub fn append(mut self, other: &Self) -> Result<Self, TableError> {
        if self.schema.columns != other.schema.columns {
            let what = "tables with different columns cannot be put together".to_owned();
            return Err(TableError::Setting { what, remedy: "read both with one schema" });
        }
        for (own, other) in self.columns.iter_mut().zip(&other.columns) {
            own.append(other);
        }
        self.rows += other.rows;
        Ok(self)
    }
}

impl Column {
    /// Neighboring rows, with their words only.
    fn slice(&self, rows: Range<usize>) -> Self {
        let mut own = Self::new(&self.kind());
        match (self, &mut own) {
            (Self::Number { numbers: of, .. }, Self::Number { numbers, .. }) => {
                numbers.extend_from_slice(&of[rows]);
            }
            (Self::Category { words: of_words, codes: of }, Self::Category { words, codes }) => {
                let code = |&code: &u32| match code {
                    MISSING => MISSING,
                    code => words.renumber(of_words, code),
                };
                codes.extend(of[rows].iter().map(code));
            }
            (
                Self::MultiLabel { words: of_words, codes: of, ends: of_ends, .. },
                Self::MultiLabel { words, codes, ends, .. },
            ) => {
                for row in rows {
                    let labels = &of[start(of_ends, row)..of_ends[row]];
                    codes.extend(labels.iter().map(|&code| words.renumber(of_words, code)));
                    ends.push(codes.len());
                }
            }
            _ => unreachable!("a new column has the kind that it was made for"),
        }
        own
    }

    /// Appends the rows of a column of the same kind.
    pub(super) fn append(&mut self, other: &Self) {
        match (self, other) {
            (Self::Number { numbers: own, .. }, Self::Number { numbers: other, .. }) => {
                own.extend(other);
            }
            (
                Self::Category { words, codes },
                Self::Category { words: other_words, codes: other_codes },
            ) => {
                let numbers = words.add(other_words);
                let number = |&code: &u32| match code {
                    MISSING => MISSING,
                    code => numbers.number(code),
                };
                codes.extend(other_codes.iter().map(number));
            }
            (
                Self::MultiLabel { words, codes, ends, .. },
                Self::MultiLabel {
                    words: other_words, codes: other_codes, ends: other_ends, ..
                },
            ) => {
                let numbers = words.add(other_words);
                let before = codes.len();
                codes.extend(other_codes.iter().map(|&code| numbers.number(code)));
                ends.extend(other_ends.iter().map(|end| before + end));
            }
            _ => unreachable!("tables with the same schema have columns of the same kinds"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::Delimiter;

    fn read(text: &str) -> Table {
        let schema = TableSchema::new().category("color").number("size").multi_label("tags", '|');
        Table::parse(text.as_bytes(), "inline.csv", Delimiter::Comma, schema).expect("a table")
    }

    #[test]
    fn appended_rows_keep_their_words_and_missing_values() {
        let first = read("color,size,tags\nred,1,a|b\n?,2,\n");
        let second = read("color,size,tags\nblue,?,c\nred,4,b\n");
        let both = first.append(&second).expect("the same columns");
        assert_eq!(both.rows(), 4);
        let words: Vec<_> =
            (0..4).map(|row| both.word("color", row).expect("a row").map(str::to_owned)).collect();
        let expected = [Some("red"), None, Some("blue"), Some("red")];
        assert_eq!(words, expected.map(|word| word.map(str::to_owned)));
        assert_eq!(both.number("size", 2).expect("a row"), None);
        assert_eq!(both.number("size", 3).expect("a row"), Some(4.0));
        assert_eq!(both.labels("tags", 0).expect("a row"), ["a", "b"]);
        assert_eq!(both.labels("tags", 1).expect("a row"), [""; 0]);
        assert_eq!(both.labels("tags", 3).expect("a row"), ["b"]);
    }

    #[test]
    fn columns_that_do_not_fit_are_refused() {
        let table = Table::of_numbers([("a", vec![1.0, f64::NAN])]).expect("one column");
        assert_eq!(table.number("a", 1).expect("a row"), None);
        for (name, values) in [("b", vec![1.0]), ("a", vec![1.0, 2.0])] {
            let error = table.clone().with_numbers(name, values).expect_err("refused").to_string();
            assert!(error.contains(&format!("column `{name}`")), "{error}");
        }
        let other = Table::of_numbers([("c", vec![1.0])]).expect("one column");
        assert!(table.append(&other).is_err());
        assert!(Table::of_numbers::<&str>([]).is_err());
    }
}
