//! A gzip file inflated into memory, within a limit.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::Path;

use flate2::bufread::MultiGzDecoder;

use crate::error::DataError;
use crate::progress::{Progress, ProgressUnit};

/// The first bytes of every gzip file (RFC 1952, section 2.3.1).
pub(crate) const MAGIC: [u8; 2] = [0x1F, 0x8B];

/// How much is inflated between two reports: 1 MiB.
const STEP: u64 = 1 << 20;

/// Counts what passes.
struct Counting<R> {
    inner: R,
    bytes: u64,
}

impl<R: Read> Read for Counting<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.bytes += count as u64;
        Ok(count)
    }
}

/// Inflates a file; the hook hears of compressed bytes.
pub(crate) fn inflate(
    file: File,
    path: &Path,
    limit: u64,
    progress: &mut dyn FnMut(Progress),
) -> Result<Vec<u8>, DataError> {
    let open = |source| DataError::Open { path: path.to_owned(), source };
    let total = file.metadata().map_err(open)?.len();
    let reader = BufReader::with_capacity(1 << 16, Counting { inner: file, bytes: 0 });
    let mut decoder = MultiGzDecoder::new(reader);
    let mut inflated = Vec::new();
    loop {
        let before = inflated.len();
        decoder
            .by_ref()
            .take(STEP)
            .read_to_end(&mut inflated)
            .map_err(|source| DataError::Inflate { path: path.to_owned(), source })?;
        if inflated.len() as u64 > limit {
            return Err(DataError::InflatedTooLarge { path: path.to_owned(), limit });
        }
        let done = decoder.get_ref().get_ref().bytes;
        progress(Progress { done, total: total.max(done), unit: ProgressUnit::Bytes });
        if inflated.len() == before {
            return Ok(inflated);
        }
    }
}
