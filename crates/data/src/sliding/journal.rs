//! The journal of an unfinished prediction, to resume it.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::error::DataError;
use crate::regular_file::read_regular;
use crate::volume::StripPlace;

/// The largest journal that is read; a longer one is not continued.
const MOST_BYTES: u64 = 1 << 30;

/// A JSON-lines file next to the output file: the settings, then the strips that each slab added.
pub(super) struct Journal {
    path: PathBuf,
    file: File,
    /// Strips of each page that are recorded.
    known: Vec<usize>,
}

/// The first line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Begun {
    /// A SHA-256 of everything that the result depends on.
    pub(super) settings: String,
    /// Channels of the model.
    pub(super) channels: usize,
    pub(super) pages: usize,
}

/// One line after a slab.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Slab {
    /// Rows written so far, over all slices and frames.
    rows: usize,
    /// The end of the last strip.
    end: u64,
    /// Page, offset and size of each new strip.
    strips: Vec<(usize, u64, u64)>,
}

/// What was written according to a journal.
pub(super) struct Left {
    pub(super) begun: Begun,
    pub(super) strips: Vec<Vec<StripPlace>>,
    pub(super) end: u64,
    pub(super) rows: usize,
}

impl Journal {
    pub(super) fn path_of(output: &Path) -> PathBuf {
        let name = output.file_name().unwrap_or_default().to_string_lossy();
        output.with_file_name(format!(".{name}.partial.journal"))
    }

    /// The journal of an earlier prediction with these settings; `None` if there is none.
    pub(super) fn read(output: &Path, settings: &str) -> Option<Left> {
        let text = read_regular(Self::path_of(output), MOST_BYTES).ok()?;
        let partial_bytes = |name: &str| fs::metadata(output.with_file_name(name)).map(|m| m.len());
        let name = output.file_name().unwrap_or_default().to_string_lossy();
        let file_bytes = partial_bytes(&format!(".{name}.partial")).ok()?;
        // A line without a line break was truncated when the program ended.
        let mut lines = text.split_inclusive(|&byte| byte == b'\n').filter(|l| l.ends_with(b"\n"));
        let begun: Begun = serde_json::from_slice(lines.next()?).ok()?;
        if begun.settings != settings || begun.pages > text.len() + (1 << 24) {
            return None;
        }
        let strips = vec![Vec::new(); begun.pages];
        let mut left = Left { begun, strips, end: 0, rows: 0 };
        for line in lines {
            let Ok(slab) = serde_json::from_slice::<Slab>(line) else { break };
            let is_known = |&(page, start, bytes): &(usize, u64, u64)| {
                page < left.begun.pages
                    && start.checked_add(bytes).is_some_and(|end| end <= slab.end)
            };
            if slab.end > file_bytes || !slab.strips.iter().all(is_known) {
                break;
            }
            for (page, start, bytes) in slab.strips {
                left.strips[page].push((start, bytes));
            }
            (left.end, left.rows) = (slab.end, slab.rows);
        }
        (left.rows > 0).then_some(left)
    }

    /// Starts a journal, or continues one that was read.
    pub(super) fn open(
        output: &Path,
        begun: &Begun,
        left: Option<&Left>,
    ) -> Result<Self, DataError> {
        let path = Self::path_of(output);
        let failed = |cause| DataError::Write { path: path.clone(), cause };
        let file = OpenOptions::new().create(true).write(true).truncate(true).open(&path);
        let mut journal = Self { file: file.map_err(failed)?, path, known: vec![0; begun.pages] };
        journal.line(begun)?;
        if let Some(left) = left {
            journal.add(left.rows, left.end, &left.strips)?;
        }
        Ok(journal)
    }

    /// Records what a slab added, after it is on disk.
    pub(super) fn add(
        &mut self,
        rows: usize,
        end: u64,
        strips: &[Vec<StripPlace>],
    ) -> Result<(), DataError> {
        let mut slab = Slab { rows, end, strips: Vec::new() };
        for (page, (strips, known)) in strips.iter().zip(&mut self.known).enumerate() {
            let new = strips[*known..].iter();
            slab.strips.extend(new.map(|&(start, bytes)| (page, start, bytes)));
            *known = strips.len();
        }
        self.line(&slab)
    }

    /// Deletes the journal of a complete file.
    pub(super) fn remove(self) {
        // A journal that remains does not match any partial file and is not read.
        let _ = fs::remove_file(&self.path);
    }

    fn line(&mut self, entry: &impl Serialize) -> Result<(), DataError> {
        let mut line = serde_json::to_vec(entry).expect("numbers and strings are always JSON");
        line.push(b'\n');
        let written: io::Result<()> =
            self.file.write_all(&line).and_then(|()| self.file.sync_data());
        written.map_err(|cause| DataError::Write { path: self.path.clone(), cause })
    }
}
