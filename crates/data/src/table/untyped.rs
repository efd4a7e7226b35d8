//! Tables that are read before it is decided what their columns hold.

use std::path::Path;

use crate::table::asked::{Asked, AskedColumns, First};
use crate::table::columnar::{Columnar, read_columnar};
use crate::table::columns::{Column, MISSING};
use crate::table::infer::Seen;
use crate::table::open::open;
use crate::table::parallel::{ReadFile, in_parallel, read_asked};
use crate::table::{ColumnKind, Delimiter, InferredColumns, Table, TableError, TableSchema};

/// Files that are read once, before it is decided what their columns hold.
///
/// The kind of a column is guessed from the first part of the first file. Columns whose guess was
/// wrong are read again as words, so that files whose kinds show early are read once. Afterwards the
/// kinds are inferred from any of the rows, and the columns become a [`Table`] without reading the
/// files again.
#[derive(Debug, Clone)]
pub struct UntypedTable {
    schema: TableSchema,
    header: Vec<String>,
    /// `None` after they were taken out.
    columns: AskedColumns,
    /// The first row of each file.
    starts: Vec<usize>,
    rows: usize,
}

/// How a column of an [`UntypedTable`] is read.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum UntypedColumn {
    /// As what its values are.
    Inferred,
    /// As this kind.
    Of(ColumnKind),
    /// Not at all.
    LeftOut,
}

impl UntypedTable {
    /// Reads files with the same columns as one table; `wanted` is asked for each name of the header
    /// of the first file.
    ///
    /// `schema` has the names of files without a header, the fields that stand for a missing value
    /// and those that are read as another text; its columns do not matter.
    ///
    /// # Errors
    /// [`TableError`] with file, line and column; [`TableError::Setting`] for no file, or for no
    /// column.
    ///
    /// # Example
    /// ```
    /// use updraft_data::{Delimiter, TableSchema, UntypedColumn, UntypedTable};
    ///
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("sizes.csv");
    /// std::fs::write(&path, "size,color\n1.5,red\n2,?\nbig,blue\n")?;
    /// let all = |_: &str| UntypedColumn::Inferred;
    /// let mut files = UntypedTable::read(&[path], Delimiter::Comma, &TableSchema::new(), all)?;
    /// // Row 2 decides nothing here, but it is no number.
    /// let columns = files.infer(|row| row < 2);
    /// let schema = |name| TableSchema::new().column(name, columns.kind(name).expect("values"));
    /// assert!(files.take(&schema("size")).is_none());
    /// let table = files.take(&schema("color")).expect("words");
    /// assert_eq!((table.rows(), table.word("color", 2)?), (3, Some("blue")));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn read<P: AsRef<Path>>(
        paths: &[P],
        delimiter: Delimiter,
        schema: &TableSchema,
        wanted: impl Fn(&str) -> UntypedColumn,
    ) -> Result<Self, TableError> {
        let paths: Vec<&Path> = paths.iter().map(P::as_ref).collect();
        Self::read_paths(&paths, delimiter, schema, &wanted)
    }

    /// The same, compiled in this crate.
    fn read_paths(
        paths: &[&Path],
        delimiter: Delimiter,
        schema: &TableSchema,
        wanted: &dyn Fn(&str) -> UntypedColumn,
    ) -> Result<Self, TableError> {
        let ask = |header: &[String], first: First<'_>| {
            guess((header, first), (delimiter, schema), wanted)
        };
        let names = schema.header.as_deref();
        let (read, starts) = read_files(paths, (delimiter, names), &ask)?;
        let ReadFile { asked: Asked { schema: mut guessed, .. }, columns, rows, header } = read;
        let mut again = TableSchema { columns: Vec::new(), ..guessed.clone() };
        for (schema, column) in guessed.columns.iter_mut().zip(&columns) {
            if column.is_none() {
                schema.kind = ColumnKind::Category;
                again.columns.push(schema.clone());
            }
        }
        if again.columns.is_empty() {
            return Ok(Self { schema: guessed, header, columns, starts, rows });
        }
        let ask = |_: &[String], _: First<'_>| Asked::known(again.clone());
        let mut words =
            read_files(paths, (delimiter, names), &ask)?.0.columns.into_iter().flatten();
        let columns = columns.into_iter().map(|column| column.or_else(|| words.next())).collect();
        Ok(Self { schema: guessed, header, columns, starts, rows })
    }

    /// The number of rows of all files.
    #[must_use]
    pub const fn rows(&self) -> usize {
        self.rows
    }

    /// The first row of each file.
    #[must_use]
    pub fn starts(&self) -> &[usize] {
        &self.starts
    }

    /// The names of all columns of the first file.
    #[must_use]
    pub fn names(&self) -> &[String] {
        &self.header
    }

    /// The kinds of the columns that were read as what their values are and not taken out yet, from
    /// the rows for which `is_looked_at` returns true: as [`InferredColumns::look_at`] finds them.
    #[must_use]
    pub fn infer(&self, is_looked_at: impl Fn(usize) -> bool + Sync) -> InferredColumns {
        self.infer_from(&is_looked_at)
    }

    /// The same, compiled in this crate.
    fn infer_from(&self, is_looked_at: &(dyn Fn(usize) -> bool + Sync)) -> InferredColumns {
        let columns: Vec<_> = self.schema.columns.iter().zip(&self.columns).collect();
        let seen = in_parallel(&columns, |(schema, column)| {
            let seen = |column| seen(column, self.rows, is_looked_at);
            (&schema.name, column.as_ref().map(seen).unwrap_or_default())
        });
        let of = |name: &String| {
            seen.iter().find(|(other, _)| *other == name).map(|(_, seen)| *seen).unwrap_or_default()
        };
        InferredColumns::of_seen(self.header.clone(), self.header.iter().map(of).collect())
    }

    /// Takes the columns of a schema out; `None` if one was not read, is taken already or has a field
    /// of another kind, which [`Table::read`] reports with its place, and for a schema with rules.
    /// Columns may be gone then.
    #[must_use]
    pub fn take(&mut self, schema: &TableSchema) -> Option<Table> {
        let mut columns = Vec::with_capacity(schema.columns.len());
        for wanted in &schema.columns {
            let at = self.schema.columns.iter().position(|column| column.name == wanted.name)?;
            let column = self.columns[at].take().filter(|_| wanted.rules.is_empty())?;
            columns.push(converted(column, &wanted.kind)?);
        }
        (!columns.is_empty()).then(|| Table { schema: schema.clone(), columns, rows: self.rows })
    }
}

/// Reads files with the same columns, and returns the first row of each; `ask` decides by the names
/// and the first bytes of the first file what is read.
fn read_files(
    paths: &[&Path],
    (delimiter, names): (Delimiter, Option<&[String]>),
    ask: &dyn Fn(&[String], First<'_>) -> Asked,
) -> Result<(ReadFile, Vec<usize>), TableError> {
    let (mut whole, mut starts): (Option<ReadFile>, _) = (None, Vec::new());
    for &path in paths {
        let ask = |header: &[String], first: First<'_>| match &whole {
            None => ask(header, first),
            Some(whole) => whole.asked.clone(),
        };
        let read = match Columnar::of(path) {
            Some(format) => read_columnar(path, format, names, ask)?,
            None => read_asked(open(path)?, path, (delimiter, names), ask)?,
        };
        starts.push(whole.as_ref().map_or(0, |whole| whole.rows));
        match &mut whole {
            None => whole = Some(read),
            Some(whole) if whole.header == read.header => whole.append(read),
            Some(_) => return Err(TableError::other_columns(path)),
        }
    }
    let no_file =
        || TableError::Setting { what: "there is no file to read".to_owned(), remedy: "name one" };
    Ok((whole.ok_or_else(no_file)?, starts))
}

impl ReadFile {
    /// Appends the rows of another file that was read in the same way.
    fn append(&mut self, other: Self) {
        for (own, other) in self.columns.iter_mut().zip(other.columns) {
            match (own.as_mut(), other) {
                (Some(own), Some(other)) => own.append(&other),
                _ => *own = None,
            }
        }
        self.rows += other.rows;
    }
}

/// The columns that are wanted, with the kinds of those in the first bytes of a file.
fn guess(
    (header, first): (&[String], First<'_>),
    (delimiter, schema): (Delimiter, &TableSchema),
    wanted: &dyn Fn(&str) -> UntypedColumn,
) -> Asked {
    let mut inferred = InferredColumns::default();
    match first {
        // Reading reports what is wrong.
        First::Bytes(first) => {
            let _ = inferred.look_at_bytes(first, "", delimiter, schema, |_| true);
        }
        #[cfg(feature = "parquet")]
        First::Kinds(kinds) => {
            let seen = kinds.iter().map(|kind| kind.as_ref().map(Seen::of).unwrap_or_default());
            inferred = InferredColumns::of_seen(header.to_vec(), seen.collect());
        }
    }
    let mut asked = Asked::known(TableSchema { columns: Vec::new(), ..schema.clone() });
    for name in header {
        let (kind, is_guessed) = match wanted(name) {
            UntypedColumn::LeftOut => continue,
            UntypedColumn::Of(kind) => (kind, false),
            UntypedColumn::Inferred => match inferred.kind(name) {
                Some(ColumnKind::Date) => (ColumnKind::Date, true),
                Some(ColumnKind::Number) | None => (ColumnKind::Number, true),
                #[cfg(feature = "parquet")]
                Some(ColumnKind::Boolean) if matches!(first, First::Kinds(_)) => {
                    (ColumnKind::Boolean, false)
                }
                // Words say whether a truth value was written as `true` or as `1`.
                _ => (ColumnKind::Category, false),
            },
        };
        asked.schema = asked.schema.column(name, kind);
        asked.is_guessed.push(is_guessed);
    }
    asked
}

/// What a column can be by the rows that are looked at.
fn seen(column: &Column, rows: usize, is_looked_at: &dyn Fn(usize) -> bool) -> Seen {
    let mut seen = Seen::default();
    match column {
        Column::Number { kind, numbers } => {
            let has_value = |row: usize| !numbers[row].is_nan() && is_looked_at(row);
            if (0..rows).any(has_value) {
                seen = Seen::of(kind);
            }
        }
        Column::Category { words, codes } => {
            let mut is_looked_at_word = vec![false; words.words().len()];
            for (row, &code) in codes.iter().enumerate() {
                if code != MISSING && !is_looked_at_word[code as usize] && is_looked_at(row) {
                    is_looked_at_word[code as usize] = true;
                    if !seen.is_category() {
                        seen.look_at(words.words()[code as usize].as_bytes());
                    } else {
                        break;
                    }
                }
            }
        }
        Column::MultiLabel { .. } => {}
    }
    seen
}

/// A column as another kind; `None` if a field does not fit.
fn converted(column: Column, kind: &ColumnKind) -> Option<Column> {
    if column.kind() == *kind {
        return Some(column);
    }
    let Column::Category { words, codes } = &column else { return None };
    if !matches!(kind, ColumnKind::Number | ColumnKind::Boolean | ColumnKind::Date) {
        return None;
    }
    let of_words: Vec<f64> =
        words.words().iter().map(|word| kind.number(word.as_bytes())).collect::<Option<_>>()?;
    let number = |&code: &u32| if code == MISSING { f64::NAN } else { of_words[code as usize] };
    Some(Column::Number { kind: kind.clone(), numbers: codes.iter().map(number).collect() })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// Longer than the first piece and some others.
    const ROWS: usize = 40_000;

    /// Rows that decide no kind.
    fn is_training(row: usize) -> bool {
        !row.is_multiple_of(1000)
    }

    const NAMES: [&str; 11] = [
        "number", "late", "refused", "sparse", "words", "date", "dated", "truth", "short",
        "quoted", "none",
    ];

    fn field(name: &str, row: usize) -> String {
        let number = format!("{}.25", row * 37 % 1009);
        match name {
            // A word in the last training row, and in a row that decides nothing.
            "late" if row == ROWS - 1 => "late".to_owned(),
            "refused" if row == 39_000 => "refused".to_owned(),
            "sparse" if row < 20_000 => String::new(),
            "words" if row < 20_000 => "?".to_owned(),
            "words" => format!("w{}", row % 700),
            "date" | "dated" if row == 30_001 && name == "dated" => "2024".to_owned(),
            "date" | "dated" => format!("2024-02-{:02}T{:02}:30", row % 29 + 1, row % 24),
            "truth" | "short" if row == 39_000 && name == "short" => "t".to_owned(),
            "truth" | "short" => ["yes", "no", "NA"][row % 3].to_owned(),
            "quoted" if row % 500 == 7 => "\"a, \"\"b\"\"\"".to_owned(),
            "quoted" => format!(" c{} ", row % 11),
            "none" if row.is_multiple_of(1000) => number,
            "none" => String::new(),
            _ => number,
        }
    }

    fn text(rows: std::ops::Range<usize>) -> String {
        let mut text = NAMES.join(",") + "\n";
        for row in rows {
            text += &(NAMES.map(|name| field(name, row)).join(",") + "\n");
        }
        text
    }

    fn base() -> TableSchema {
        let replaced = [("c3".to_owned(), "c4".to_owned())].into();
        TableSchema::new().with_replaced([("quoted".to_owned(), replaced)].into())
    }

    /// The values of a table, or its error.
    fn values(table: &Table, name: &str) -> String {
        let of = |row| match table.number(name, row) {
            Ok(number) => format!("{:?}", number.map(f64::to_bits)),
            Err(_) => format!("{:?}", table.word(name, row).expect("a word")),
        };
        let strata = table.strata(name).unwrap_or_default();
        format!("{:?} {strata:?}", (0..table.rows()).map(of).collect::<Vec<_>>())
    }

    #[test]
    fn one_pass_finds_what_looking_and_reading_find() {
        let folder = tempfile::tempdir().unwrap();
        let whole = folder.path().join("whole.csv");
        fs::write(&whole, text(0..ROWS)).unwrap();
        let parts = ["a.csv", "b.csv"].map(|name| folder.path().join(name));
        fs::write(&parts[0], text(0..25_000)).unwrap();
        fs::write(&parts[1], text(25_000..ROWS)).unwrap();
        let mut looked = InferredColumns::default();
        looked.look_at(&whole, Delimiter::Comma, &base(), is_training).unwrap();
        let wanted = |_: &str| UntypedColumn::Inferred;
        let one = UntypedTable::read(&[&whole], Delimiter::Comma, &base(), wanted).unwrap();
        let two = UntypedTable::read(&parts, Delimiter::Comma, &base(), wanted).unwrap();
        assert_eq!((one.rows(), one.starts()), (ROWS, &[0][..]));
        assert_eq!((two.rows(), two.starts()), (ROWS, &[0, 25_000][..]));
        let mut refused = Vec::new();
        for mut untyped in [one, two] {
            let inferred = untyped.infer(is_training);
            assert_eq!(inferred.names(), looked.names());
            for name in NAMES {
                assert_eq!(inferred.kind(name), looked.kind(name), "{name}");
                let Some(kind) = inferred.kind(name) else { continue };
                let schema = base().column(name, kind);
                let read = Table::read(&whole, Delimiter::Comma, schema.clone());
                match untyped.take(&schema) {
                    Some(table) => {
                        assert!(values(&table, name) == values(&read.unwrap(), name), "{name}");
                    }
                    None => {
                        assert!(read.is_err(), "{name}");
                        refused.push(name);
                    }
                }
                assert!(untyped.take(&schema).is_none(), "{name} is taken");
            }
        }
        assert_eq!(refused, ["refused", "refused"]);
        let kinds = NAMES.map(|name| looked.kind(name).map_or("none", |kind| kind.name()));
        let (number, category) = ("numbers", "categories");
        let truth = "truth values";
        assert_eq!(
            kinds,
            [
                number, category, number, number, category, "dates", category, truth, truth,
                category, "none",
            ]
        );
    }

    #[test]
    fn kinds_that_are_given_are_read_and_others_left_out() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.csv");
        fs::write(&path, b"a,b,c,d\n1,2,x;y,bad\n3,?,y,\xFF\n").unwrap();
        let wanted = |name: &str| match name {
            "a" => UntypedColumn::Of(ColumnKind::Category),
            "b" => UntypedColumn::Inferred,
            "c" => UntypedColumn::Of(ColumnKind::MultiLabel { separator: ';' }),
            _ => UntypedColumn::LeftOut,
        };
        let read = || UntypedTable::read(&[&path], Delimiter::Comma, &TableSchema::new(), wanted);
        let mut untyped = read().unwrap();
        let schema = TableSchema::new().multi_label("c", ';').category("a").number("b");
        let table = untyped.take(&schema).unwrap();
        assert_eq!(table.word("a", 1).unwrap(), Some("3"));
        assert_eq!(table.number("b", 1).unwrap(), None);
        assert_eq!(table.labels("c", 0).unwrap(), ["x", "y"]);
        for schema in [
            TableSchema::new().category("d"),
            TableSchema::new().category("b"),
            TableSchema::new().date("a"),
            TableSchema::new().multi_label("c", '|'),
            TableSchema::new(),
        ] {
            assert!(read().unwrap().take(&schema).is_none(), "{schema:?}");
        }
        // A kind that is given is no guess.
        let wanted = |_: &str| UntypedColumn::Of(ColumnKind::Number);
        let read = UntypedTable::read(&[&path], Delimiter::Comma, &TableSchema::new(), wanted);
        let error = read.unwrap_err().to_string();
        assert!(error.contains("line 2, column `c`: expected a finite number"), "{error}");
        let none: [&Path; 0] = [];
        let read = UntypedTable::read(&none, Delimiter::Comma, &TableSchema::new(), wanted);
        assert!(read.unwrap_err().to_string().contains("no file to read"));
        let other = folder.path().join("other.csv");
        fs::write(&other, "a,c,b,d\n1,2,3,4\n").unwrap();
        fs::write(&path, "a,b,c,d\n1,2,3,4\n").unwrap();
        let wanted = |_: &str| UntypedColumn::Inferred;
        let files = [path, other];
        let read = UntypedTable::read(&files, Delimiter::Comma, &TableSchema::new(), wanted);
        let error = read.unwrap_err().to_string();
        assert!(error.contains("other.csv` has other columns than the files before"), "{error}");
    }
}
