//! Rows of fields in memory as a table.

use std::path::Path;

use crate::table::asked::Asked;
use crate::table::blocks::read_columns;
use crate::table::row_source::RowSource;
use crate::table::{Table, TableError, TableSchema};

/// Rows with a field for each column.
struct Fields<'a> {
    path: &'a Path,
    header: &'a [String],
    rows: &'a [Vec<String>],
    /// Rows that were read.
    done: usize,
}

impl RowSource for Fields<'_> {
    fn path(&self) -> &Path {
        self.path
    }

    fn header(&self) -> &[String] {
        self.header
    }

    fn advance(&mut self) -> Result<bool, TableError> {
        let Some(row) = self.rows.get(self.done) else { return Ok(false) };
        self.done += 1;
        match row.len() == self.header.len() {
            true => Ok(true),
            false => Err(self.ragged(row.len())),
        }
    }

    fn bytes(&self, column: usize) -> &[u8] {
        self.rows[self.done - 1][column].as_bytes()
    }

    fn line(&self) -> u64 {
        self.done as u64
    }

    fn lines(&self) -> u64 {
        self.done as u64
    }
}

impl Table {
    /// Reads rows that are in memory, of a field for each column of the schema, as those of a file;
    /// `name` names them in errors, in which a row is a line.
    ///
    /// # Errors
    /// [`TableError::Ragged`], [`TableError::Field`] or [`TableError::Refused`] with row and column.
    ///
    /// # Example
    /// ```
    /// use updraft_data::{Table, TableSchema};
    ///
    /// let schema = TableSchema::new().number("size").category("color");
    /// let rows = [["1.5", "red"], ["", "blue"]].map(|row| row.map(str::to_owned).to_vec());
    /// let table = Table::of_rows("rows", schema, &rows)?;
    /// assert_eq!((table.number("size", 0)?, table.number("size", 1)?), (Some(1.5), None));
    /// # Ok::<(), updraft_data::TableError>(())
    /// ```
    pub fn of_rows(
        name: impl AsRef<Path>,
        schema: TableSchema,
        rows: &[Vec<String>],
    ) -> Result<Self, TableError> {
        let header: Vec<String> = schema.columns.iter().map(|column| column.name.clone()).collect();
        let places: Vec<usize> = (0..header.len()).collect();
        let mut fields = Fields { path: name.as_ref(), header: &header, rows, done: 0 };
        let asked = Asked::known(schema);
        let (columns, rows) = read_columns(&mut fields, &asked, &places, rows.len())?;
        let columns = columns.into_iter().flatten().collect();
        Ok(Self { schema: asked.schema, columns, rows })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::ColumnRules;

    #[test]
    fn a_field_that_does_not_fit_is_refused_with_its_row_and_column() {
        let rules = ColumnRules { missing: false, ..ColumnRules::default() };
        let mut schema = TableSchema::new().number("x").category("color").multi_label("tags", ';');
        schema.columns[1].rules = rules;
        let read = |rows: &[&[&str]]| {
            let owned = |row: &&[&str]| row.iter().map(|&field| field.to_owned()).collect();
            let rows: Vec<Vec<String>> = rows.iter().map(owned).collect();
            Table::of_rows("rows", schema.clone(), &rows)
        };
        let table = read(&[&["1", " red ", "a;b"], &["?", "blue", ""]]).unwrap();
        assert_eq!(table.word("color", 0).unwrap(), Some("red"));
        assert_eq!(table.labels("tags", 0).unwrap(), ["a", "b"]);
        assert_eq!(table.number("x", 1).unwrap(), None);
        let good: &[&str] = &["1", "red", "a"];
        for (row, expected) in [
            (&["one", "red", "a"][..], "`rows` line 2, column `x`: expected a finite number"),
            (&["1", "", "a"], "`rows` line 2, column `color`: the value is missing"),
            (&["1", "red"], "`rows` line 2 has 2 fields; the header has 3"),
        ] {
            let error = read(&[good, row]).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{error}");
        }
    }
}
