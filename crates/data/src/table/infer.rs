//! Inference of column kinds: numbers, dates, truth values or categories.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;

use updraft_simd::{Cut, over, pool_threads};

use crate::table::columnar::Columnar;
use crate::table::columns::{Missing, replaced, trim};
use crate::table::instant::truth;
use crate::table::open::open;
use crate::table::pieces::{FilePieces, OnRows, Piece, for_each_piece};
use crate::table::records::{Delimiter, Records};
use crate::table::row_source::RowSource;
use crate::table::{ColumnKind, TableError, TableSchema, UntypedColumn, UntypedTable};

/// The inferred kinds of columns, from the records that were examined.
#[derive(Debug, Clone, Default)]
pub struct InferredColumns {
    names: Vec<String>,
    /// What each column can be.
    seen: Vec<Seen>,
}

impl InferredColumns {
    /// Examines the records of a file for which `is_looked_at` returns true, called with the
    /// record's number from 0; more files with the same columns can be added.
    ///
    /// `schema` has the names of a file without a header, the fields that stand for a missing value
    /// and those that are read as another text; its columns do not matter.
    ///
    /// # Errors
    /// [`TableError`] with file and line, [`TableError::Setting`] for a file of other columns.
    pub fn look_at(
        &mut self,
        path: impl AsRef<Path>,
        delimiter: Delimiter,
        schema: &TableSchema,
        is_looked_at: impl Fn(usize) -> bool + Sync,
    ) -> Result<(), TableError> {
        let path = path.as_ref();
        if Columnar::of(path).is_some() {
            let all = |_: &str| UntypedColumn::Inferred;
            let read = UntypedTable::read(&[path], delimiter, schema, all)?;
            let Self { names, seen } = read.infer(is_looked_at);
            self.begin(path, &names)?;
            self.add(&seen);
            return Ok(());
        }
        let file = open(path)?;
        self.look_at_bytes(file, path, delimiter, schema, is_looked_at)
    }

    /// Takes the names of the first file, and refuses others later.
    fn begin(&mut self, path: &Path, names: &[String]) -> Result<(), TableError> {
        if self.names.is_empty() {
            self.names = names.to_vec();
            self.seen = vec![Seen::default(); names.len()];
        } else if self.names != names {
            return Err(TableError::other_columns(path));
        }
        Ok(())
    }

    /// The same for bytes; `path` names them in errors.
    ///
    /// # Errors
    /// As [`look_at`](Self::look_at).
    pub fn look_at_bytes(
        &mut self,
        bytes: impl Read + Send,
        path: impl AsRef<Path>,
        delimiter: Delimiter,
        schema: &TableSchema,
        is_looked_at: impl Fn(usize) -> bool + Sync,
    ) -> Result<(), TableError> {
        let path = path.as_ref();
        let mut pieces = FilePieces::new(bytes, delimiter);
        let first = pieces.first().into_reader();
        let mut records = Records::new(first, path, delimiter, schema.header.as_deref())?;
        self.begin(path, records.header())?;
        let missing = &Missing::new(&schema.missing);
        let replace: Vec<_> = self.names.iter().map(|name| schema.replace.get(name)).collect();
        let (replace, is_looked_at) = (&replace, &is_looked_at);
        let look = |first_row| Look { missing, replace, first_row, is_looked_at };
        let (seen, mut rows) = look(0).run(&mut records)?;
        self.add(&seen);
        let mut lines = records.lines();
        let header = self.names.clone();
        let count = |(): &(), piece: Piece| (piece.count(path, delimiter, &header), piece);
        for_each_piece(pieces, &mut (), count, |(), counted| {
            let jobs = counted.into_iter().map(|(count, piece)| {
                let first_row = rows;
                rows += count;
                (first_row, piece, None)
            });
            let mut jobs: Vec<_> = jobs.collect();
            over(Cut::new(&mut jobs, 1), &mut vec![(); pool_threads()], |_, jobs, ()| {
                for (first_row, piece, result) in jobs {
                    let seen = piece.read(path, delimiter, &header, look(*first_row));
                    *result = Some(seen);
                }
            });
            for result in jobs.into_iter().filter_map(|(.., result)| result) {
                let ((seen, _), more) = result.map_err(|error: TableError| error.below(lines))?;
                self.add(&seen);
                lines += more;
            }
            Ok(())
        })
    }

    /// What was seen of columns that were read already.
    pub(super) const fn of_seen(names: Vec<String>, seen: Vec<Seen>) -> Self {
        Self { names, seen }
    }

    fn add(&mut self, seen: &[Seen]) {
        self.seen.iter_mut().zip(seen).for_each(|(own, seen)| own.add(*seen));
    }

    /// The names of the columns, in their order.
    #[must_use]
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// The kind of a column: numbers if every value is one, dates if every value is one, truth values
    /// if each is `true` or `false`, `yes` or `no` in any case, otherwise categories; `None` if it has
    /// no values or does not exist.
    #[must_use]
    pub fn kind(&self, name: &str) -> Option<ColumnKind> {
        let at = self.names.iter().position(|other| other == name)?;
        self.seen[at].kind()
    }
}

/// Looks at rows of all columns.
struct Look<'a, F> {
    missing: &'a Missing<'a>,
    replace: &'a [Option<&'a BTreeMap<String, String>>],
    /// The number of the first row in the file.
    first_row: usize,
    is_looked_at: &'a F,
}

impl<F: Fn(usize) -> bool> OnRows for Look<'_, F> {
    type Result = Result<(Vec<Seen>, usize), TableError>;

    fn run(self, rows: &mut impl RowSource) -> Self::Result {
        let mut all = vec![Seen::default(); self.replace.len()];
        let mut count = 0;
        while rows.advance()? {
            count += 1;
            if !(self.is_looked_at)(self.first_row + count - 1) {
                continue;
            }
            for (at, seen) in all.iter_mut().enumerate() {
                if seen.is_category() {
                    continue;
                }
                let field = trim(rows.bytes(at)).map_err(|_| rows.not_utf8(at))?;
                let field = replaced(self.replace[at], field);
                if !self.missing.contains(field) {
                    seen.look_at(field);
                }
            }
        }
        Ok((all, count))
    }
}

/// What a column can be by the values that were looked at.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Seen {
    has_value: bool,
    /// Whether a value is no number, no date, or no truth value.
    no_number: bool,
    no_date: bool,
    no_truth: bool,
}

impl Seen {
    /// What values of a kind with numbers are, all of them.
    pub(super) fn of(kind: &ColumnKind) -> Self {
        Self {
            has_value: true,
            no_number: *kind != ColumnKind::Number,
            no_date: *kind != ColumnKind::Date,
            no_truth: *kind != ColumnKind::Boolean,
        }
    }

    pub(super) fn look_at(&mut self, field: &[u8]) {
        self.has_value = true;
        self.no_number = self.no_number || ColumnKind::Number.number(field).is_none();
        self.no_date = self.no_date || ColumnKind::Date.number(field).is_none();
        self.no_truth = self.no_truth || truth(field).is_none();
    }

    /// Whether nothing else can be found.
    pub(super) const fn is_category(self) -> bool {
        self.no_number && self.no_date && self.no_truth
    }

    fn add(&mut self, other: Self) {
        self.has_value |= other.has_value;
        self.no_number |= other.no_number;
        self.no_date |= other.no_date;
        self.no_truth |= other.no_truth;
    }

    fn kind(self) -> Option<ColumnKind> {
        let kind = match self {
            Self { no_number: false, .. } => ColumnKind::Number,
            Self { no_date: false, .. } => ColumnKind::Date,
            Self { no_truth: false, .. } => ColumnKind::Boolean,
            _ => ColumnKind::Category,
        };
        self.has_value.then_some(kind)
    }
}
