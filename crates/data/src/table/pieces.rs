//! A file in pieces of whole records, which several threads read.

use std::cell::OnceCell;
use std::io::{self, Cursor, Read};
use std::path::Path;

use updraft_simd::{over, pool_threads};

use crate::table::TableError;
use crate::table::asked::{Asked, AskedColumns};
use crate::table::blocks::read_columns;
use crate::table::columns::Column;
use crate::table::field_ends::FieldEnds;
use crate::table::plain_columns::read_plain;
use crate::table::plain_records::{PlainRecords, count_plain, is_plain};
use crate::table::quotes::Quotes;
use crate::table::records::{Delimiter, MOST_RECORD_BYTES, Records};
use crate::table::row_source::RowSource;

/// Bytes of the first piece, which a single thread reads, and of each other one.
const FIRST_BYTES: usize = 1 << 16;
const PIECE_BYTES: usize = 1 << 19;

/// Pieces that are in memory for each thread.
const AT_ONCE: usize = 4;

/// Whole records.
#[derive(Debug)]
pub(super) struct Piece {
    bytes: Vec<u8>,
    /// Why nothing can be read after these bytes.
    fault: Option<io::Error>,
    is_plain: OnceCell<bool>,
}

/// Runs on the records of a piece, whatever reads them.
pub(super) trait OnRows {
    type Result;

    fn run(self, rows: &mut impl RowSource) -> Self::Result;
}

impl Piece {
    const fn new(bytes: Vec<u8>, fault: Option<io::Error>) -> Self {
        Self { bytes, fault, is_plain: OnceCell::new() }
    }

    /// The bytes before the fault.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The bytes, then the fault.
    pub(super) fn into_reader(self) -> impl Read {
        Cursor::new(self.bytes).chain(Failing(self.fault))
    }

    /// The columns asked for, to be appended to those before, with the number of rows, and the number
    /// of lines. Lines of errors are counted from the beginning of the piece.
    pub(super) fn columns(
        &mut self,
        path: &Path,
        delimiter: Delimiter,
        header: &[String],
        (asked, places): (&Asked, &[usize]),
        before: &[Option<Column>],
    ) -> Result<((AskedColumns, usize), u64), TableError> {
        let mut ends = FieldEnds::default();
        if self.is_short() && ends.find(&self.bytes, delimiter.byte(), header.len()) {
            let rows = ends.rows();
            if let Ok(columns) = read_plain(&self.bytes, &ends, (asked, places), before) {
                return Ok(((columns, rows), rows as u64));
            }
        }
        self.read(path, delimiter, header, ReadColumns { asked, places })
    }

    /// Runs on the records, and returns the number of lines, too; those of lines without quotes are
    /// found faster. Lines of errors are counted from the beginning of the piece.
    pub(super) fn read<T, W: OnRows<Result = Result<T, TableError>>>(
        &mut self,
        path: &Path,
        delimiter: Delimiter,
        header: &[String],
        work: W,
    ) -> Result<(T, u64), TableError> {
        fn run<T, W: OnRows<Result = Result<T, TableError>>>(
            work: W,
            mut rows: impl RowSource,
        ) -> Result<(T, u64), TableError> {
            Ok((work.run(&mut rows)?, rows.lines()))
        }
        if self.is_plain() {
            return run(work, PlainRecords::new(&self.bytes, path, header, delimiter.byte()));
        }
        let rest = Failing(self.fault.take());
        let bytes = Cursor::new(&self.bytes).chain(rest);
        run(work, Records::part(bytes, path, delimiter, header)?)
    }

    /// The number of records before the first fault.
    pub(super) fn count(&self, path: &Path, delimiter: Delimiter, header: &[String]) -> usize {
        if self.is_plain() {
            return count_plain(&self.bytes);
        }
        let records = Records::part(self.bytes.as_slice(), path, delimiter, header);
        let Ok(mut records) = records else { return 0 };
        let mut count = 0;
        while let Ok(true) = RowSource::advance(&mut records) {
            count += 1;
        }
        count
    }

    /// Whether its records are plain, and none can be too long.
    fn is_plain(&self) -> bool {
        self.is_short() && *self.is_plain.get_or_init(|| is_plain(&self.bytes))
    }

    /// Whether no record can be too long, and nothing is wrong after the last.
    fn is_short(&self) -> bool {
        self.bytes.len() as u64 <= MOST_RECORD_BYTES && self.fault.is_none()
    }
}

/// Reads the columns asked for row by row.
struct ReadColumns<'a> {
    asked: &'a Asked,
    places: &'a [usize],
}

impl OnRows for ReadColumns<'_> {
    type Result = Result<(AskedColumns, usize), TableError>;

    fn run(self, rows: &mut impl RowSource) -> Self::Result {
        read_columns(rows, self.asked, self.places, usize::MAX)
    }
}

/// Bytes that end with an error, if there is one.
struct Failing(Option<io::Error>);

impl Read for Failing {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        self.0.take().map_or(Ok(0), Err)
    }
}

/// Divides bytes into pieces.
#[derive(Debug)]
pub(super) struct FilePieces<R> {
    bytes: R,
    delimiter: Delimiter,
    /// What was read after the last piece.
    rest: Vec<u8>,
    has_ended: bool,
}

impl<R: Read> FilePieces<R> {
    pub(super) const fn new(bytes: R, delimiter: Delimiter) -> Self {
        Self { bytes, delimiter, rest: Vec::new(), has_ended: false }
    }

    /// The first piece, which has the header.
    pub(super) fn first(&mut self) -> Piece {
        self.next(FIRST_BYTES).unwrap_or_else(|| Piece::new(Vec::new(), None))
    }

    /// At least so many bytes in whole records; fewer at the end of the file, and at a fault.
    fn next(&mut self, wanted: usize) -> Option<Piece> {
        if self.has_ended {
            return None;
        }
        let mut bytes = std::mem::take(&mut self.rest);
        let mut quotes = Quotes::new(self.delimiter.byte());
        let mut followed = 0;
        loop {
            let add = wanted.saturating_sub(bytes.len()).max(FIRST_BYTES);
            let before = bytes.len();
            let read = fill(&mut self.bytes, &mut bytes, add);
            if read.is_err() || bytes.len() < before + add {
                self.has_ended = true;
                let piece = Piece::new(bytes, read.err());
                let is_empty = piece.bytes.is_empty() && piece.fault.is_none();
                return (!is_empty).then_some(piece);
            }
            quotes.read(&bytes[followed..]);
            followed = bytes.len();
            let end = quotes.record_end() as usize;
            if quotes.has_fault() || (end == 0 && bytes.len() as u64 > 2 * MOST_RECORD_BYTES) {
                // Reading this piece finds the fault.
                self.has_ended = true;
                return Some(Piece::new(bytes, None));
            }
            if end > 0 {
                self.rest = bytes.split_off(end);
                return Some(Piece::new(bytes, None));
            }
        }
    }
}

/// Appends so many bytes, or all there are.
fn fill(from: &mut impl Read, bytes: &mut Vec<u8>, add: usize) -> io::Result<()> {
    // One byte more: without it, the end of the bytes is looked for in a larger room.
    bytes.reserve_exact(add + 1);
    from.by_ref().take(add as u64).read_to_end(bytes).map(drop)
}

/// A task of a thread.
enum Job<'a, R, T> {
    /// Reads the next pieces.
    Read(&'a mut FilePieces<R>, &'a mut Vec<Piece>),
    /// Runs on one.
    Run(Piece, &'a mut Option<T>),
}

/// Runs `work` on the other pieces, several at once, and hands the results on in their order; `work`
/// sees the state after some of the pieces before its own.
///
/// # Errors
/// Those of `take`.
pub(super) fn for_each_piece<R: Read + Send, S: Sync, T: Send, E>(
    mut pieces: FilePieces<R>,
    state: &mut S,
    work: impl Fn(&S, Piece) -> T + Sync,
    mut take: impl FnMut(&mut S, Vec<T>) -> Result<(), E>,
) -> Result<(), E> {
    let mut threads = vec![(); pool_threads()];
    let most = AT_ONCE * threads.len();
    let mut read: Vec<Piece> = Vec::new();
    loop {
        let mut next = Vec::with_capacity(most);
        let mut results: Vec<Option<T>> = read.iter().map(|_| None).collect();
        let runs = read.into_iter().zip(&mut results);
        let runs = runs.map(|(piece, result)| Job::Run(piece, result));
        let jobs: Vec<_> = [Job::Read(&mut pieces, &mut next)].into_iter().chain(runs).collect();
        let before = &*state;
        over(jobs, &mut threads, |_, job, ()| match job {
            Job::Read(pieces, next) => {
                next.extend(std::iter::from_fn(|| pieces.next(PIECE_BYTES)).take(most));
            }
            Job::Run(piece, result) => *result = Some(work(before, piece)),
        });
        take(state, results.into_iter().flatten().collect())?;
        if next.is_empty() {
            return Ok(());
        }
        read = next;
    }
}
