//! Tables that are read before it is decided what their columns hold.

use std::io::Read;
use std::path::{Path, PathBuf};

use crate::table::asked::Asked;
use crate::table::columns::{Column, MISSING};
use crate::table::infer::Seen;
use crate::table::open::open;
use crate::table::parallel::{ReadFile, in_parallel, read_asked};
use crate::table::{ColumnKind, ColumnSchema, Delimiter, InferredColumns, Table, TableError, TableSchema};

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
    columns: Vec<Option<Column>>,
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
        let paths: Vec<PathBuf> = paths.iter().map(|path| path.as_ref().to_owned()).collect();
        Self::of(&paths, &|path| open(path), delimiter, schema, &wanted)
    }

    /// The same for files that are opened by `open`.
    fn of<R: Read + Send>(
        paths: &[PathBuf],
        open: &dyn Fn(&Path) -> Result<R, TableError>,
        delimiter: Delimiter,
        schema: &TableSchema,
        wanted: &dyn Fn(&str) -> UntypedColumn,
    ) -> Result<Self, TableError> {
        let names = schema.header.as_deref();
        let (mut whole, mut starts): (Option<ReadFile>, _) = (None, Vec::new());
        for path in paths {
            let read = |ask: &dyn Fn(&[String], &[u8]) -> Asked| {
                read_asked(open(path)?, path, (delimiter, names), ask)
            };
            let Some(whole) = &mut whole else {
                starts.push(0);
                whole = Some(read(&|header, first| guess((header, first), (delimiter, schema), wanted))?);
                continue;
            };
            starts.push(whole.rows);
            whole.append(read(&|_, _| whole.asked.clone())?);
        }
        let no_file = || TableError::Setting {
            what: "there is no file to read".to_owned(),
            remedy: "name one",
        };
        let ReadFile { asked, mut columns, rows, header } = whole.ok_or_else(no_file)?;
        let Asked { schema: mut guessed, is_guessed: _ } = asked;
        let is_wrong: Vec<bool> = columns.iter().map(Option::is_none).collect();
        if is_wrong.contains(&true) {
            let mut again = guessed.clone();
            again.columns = guessed.columns.iter().zip(&is_wrong).filter(|(_, is_wrong)| **is_wrong).map(
                |(column, _)| ColumnSchema { kind: ColumnKind::Category, ..column.clone() },
            ).collect();
            let mut words: Option<ReadFile> = None;
            for path in paths {
                let ask = |_: &[String], _: &[u8]| Asked::known(again.clone());
                let read = read_asked(open(path)?, path, (delimiter, names), ask)?;
                match &mut words {
                    None => words = Some(read),
                    Some(words) => words.append(read),
                }
            }
            let mut words = words.into_iter().flat_map(|words| words.columns);
            for (column, schema) in columns.iter_mut().zip(&mut guessed.columns) {
                if column.is_none() {
                    *column = words.next().flatten();
                    schema.kind = ColumnKind::Category;
                }
            }
        }
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
        let columns: Vec<_> = self.schema.columns.iter().zip(&self.columns).collect();
        let seen = in_parallel(&columns, |(schema, column)| {
            let seen = |column| seen(column, self.rows, &is_looked_at);
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
    (header, first): (&[String], &[u8]),
    (delimiter, schema): (Delimiter, &TableSchema),
    wanted: &dyn Fn(&str) -> UntypedColumn,
) -> Asked {
    let mut inferred = InferredColumns::default();
    // Reading reports what is wrong.
    let _ = inferred.look_at_bytes(first, "", delimiter, schema, |_| true);
    let mut asked = Asked::known(TableSchema { columns: Vec::new(), ..schema.clone() });
    for name in header {
        let (kind, is_guessed) = match wanted(name) {
            UntypedColumn::LeftOut => continue,
            UntypedColumn::Of(kind) => (kind, false),
            UntypedColumn::Inferred => match inferred.kind(name) {
                Some(ColumnKind::Date) => (ColumnKind::Date, true),
                Some(ColumnKind::Number) | None => (ColumnKind::Number, true),
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
fn seen(column: &Column, rows: usize, is_looked_at: impl Fn(usize) -> bool) -> Seen {
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
