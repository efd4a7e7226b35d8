//! Reading a file within a limit, decompressed if it is gzipped.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek};
use std::path::Path;

use flate2::bufread::MultiGzDecoder;

use crate::error::DataError;
use crate::progress::{Progress, ProgressUnit};
use crate::regular_file::open_regular;
use crate::source::positioned::read_exact_at;

/// The first bytes of every gzip file (RFC 1952, section 2.3.1).
const MAGIC: [u8; 2] = [0x1F, 0x8B];

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

/// Whether a file is gzipped, by its first bytes; rewinds the file.
pub(crate) fn is_gzip(mut file: &File) -> io::Result<bool> {
    let mut start = [0; 2];
    let is_gzip = read_exact_at(file, &mut start, 0).is_ok() && start == MAGIC;
    // On Windows a read at a position also moves the file's cursor.
    file.rewind()?;
    Ok(is_gzip)
}

/// Reads a whole file, decompressed if it is gzipped.
pub(crate) fn read_whole(path: &Path, limit: u64) -> Result<Vec<u8>, DataError> {
    let open = |cause| DataError::Open { path: path.to_owned(), cause };
    let mut file = open_regular(path).map_err(open)?;
    let mut bytes = Vec::new();
    file.by_ref().take(MAGIC.len() as u64).read_to_end(&mut bytes).map_err(open)?;
    if bytes == MAGIC {
        file.rewind().map_err(open)?;
        return inflate(file, path, limit, &mut |_| {});
    }
    file.take(limit).read_to_end(&mut bytes).map_err(open)?;
    if bytes.len() as u64 > limit {
        return Err(DataError::FileLimit { path: path.to_owned(), limit });
    }
    Ok(bytes)
}

/// Inflates a file into memory; the hook receives the compressed bytes.
pub(crate) fn inflate(
    file: File,
    path: &Path,
    limit: u64,
    progress: &mut dyn FnMut(Progress),
) -> Result<Vec<u8>, DataError> {
    let mut inflated = Vec::new();
    inflate_to(file, path, limit, progress, &mut |bytes| {
        inflated.extend_from_slice(bytes);
        Ok(())
    })?;
    Ok(inflated)
}

/// Inflates a file piece by piece; the hook receives the compressed bytes.
pub(crate) fn inflate_to(
    file: File,
    path: &Path,
    limit: u64,
    progress: &mut dyn FnMut(Progress),
    take: &mut dyn FnMut(&[u8]) -> Result<(), DataError>,
) -> Result<(), DataError> {
    let open = |cause| DataError::Open { path: path.to_owned(), cause };
    let total = file.metadata().map_err(open)?.len();
    let reader = BufReader::with_capacity(1 << 16, Counting { inner: file, bytes: 0 });
    let mut decoder = MultiGzDecoder::new(reader);
    let mut piece = Vec::with_capacity(STEP as usize);
    let mut inflated = 0;
    loop {
        piece.clear();
        decoder
            .by_ref()
            .take(STEP)
            .read_to_end(&mut piece)
            .map_err(|cause| DataError::Inflate { path: path.to_owned(), cause })?;
        inflated += piece.len() as u64;
        if inflated > limit {
            return Err(DataError::InflatedTooLarge { path: path.to_owned(), limit });
        }
        take(&piece)?;
        let done = decoder.get_ref().get_ref().bytes;
        progress(Progress { done, total: total.max(done), unit: ProgressUnit::Bytes });
        if piece.is_empty() {
            return Ok(());
        }
    }
}
