//! A digest of the contents of files.

use std::fs::{self, File};
use std::io::{self, Read};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::mpsc::Sender;
use std::thread;

use crate::digest::{Checksum, Digest};
use crate::error::DataError;
use crate::file_threads::on_threads;
use crate::progress::{Progress, ProgressUnit};
use crate::regular_file::open_regular;

/// SHA-256 of the contents of files in their order, as 64 hexadecimal digits; names and times do not
/// matter.
///
/// Every file is read once, by as many threads as the machine has. `progress` is called on the
/// calling thread with the bytes that were read.
///
/// # Errors
/// [`DataError::Open`] for a file that cannot be read.
///
/// # Example
/// ```
/// # let folder = tempfile::tempdir()?;
/// let paths = ["a", "b"].map(|name| folder.path().join(name));
/// std::fs::write(&paths[0], "1")?;
/// std::fs::write(&paths[1], "2")?;
/// let before = updraft_data::contents_digest(&paths, &mut |_| {})?;
/// std::fs::write(&paths[1], "3")?;
/// assert_ne!(updraft_data::contents_digest(&paths, &mut |_| {})?, before);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn contents_digest(
    paths: &[PathBuf],
    progress: &mut dyn FnMut(Progress),
) -> Result<String, DataError> {
    // A file that cannot be read is an error below.
    let length = |path: &PathBuf| fs::metadata(path).map_or(0, |found| found.len());
    let (mut done, total) = (0_u64, paths.iter().map(length).sum::<u64>());
    let work = |at: usize, sender: &Sender<Sent>| {
        let read = &|bytes| {
            // Without a receiver, the result below is not sent either.
            let _ = sender.send(Sent { bytes, ended: None });
        };
        let checksum = checksum(&paths[at], read);
        sender.send(Sent { bytes: 0, ended: Some((at, checksum)) }).is_ok()
    };
    let mut checksums = vec![[0; 32]; paths.len()];
    let mut fault: Option<(usize, DataError)> = None;
    let mut receive = |Sent { bytes, ended }: Sent| {
        if bytes > 0 {
            // A file may have grown.
            done = total.min(done + bytes);
            progress(Progress { done, total, unit: ProgressUnit::Bytes });
        }
        match ended {
            None => {}
            Some((at, Ok(checksum))) => checksums[at] = checksum,
            Some((at, Err(error))) => {
                if fault.as_ref().is_none_or(|(lowest, _)| at < *lowest) {
                    fault = Some((at, error));
                }
                return ControlFlow::Break(());
            }
        }
        ControlFlow::Continue(())
    };
    let threads = thread::available_parallelism().map_or(1, usize::from);
    on_threads("updraft-digest", (paths.len(), threads), &work, &mut receive);
    match fault {
        Some((_, error)) => Err(error),
        None => {
            let digest = Digest::new("updraft contents of files").number(paths.len());
            Ok(checksums.iter().fold(digest, |digest, checksum| digest.bytes(checksum)).hex())
        }
    }
}

/// What a thread has read.
struct Sent {
    bytes: u64,
    /// The number of a file that was read to its end, and its checksum.
    ended: Option<(usize, Result<[u8; 32], DataError>)>,
}

/// The checksum of a file; `read` is called with the number of bytes of each piece.
fn checksum(path: &Path, read: &dyn Fn(u64)) -> Result<[u8; 32], DataError> {
    let found = open_regular(path).and_then(|file| Checksum::of(Counted { file, read }));
    let (checksum, _) = found.map_err(|cause| DataError::Open { path: path.to_owned(), cause })?;
    Ok(checksum.raw())
}

/// A file whose bytes are counted while they are read.
struct Counted<'a> {
    file: File,
    read: &'a dyn Fn(u64),
}

impl Read for Counted<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.file.read(buffer)?;
        (self.read)(count as u64);
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contents_and_their_order_decide_and_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let paths: Vec<PathBuf> = (0..40).map(|at| dir.path().join(at.to_string())).collect();
        for (at, path) in paths.iter().enumerate() {
            fs::write(path, vec![at as u8; 1000 * at]).unwrap();
        }
        let digest = |paths: &[PathBuf]| contents_digest(paths, &mut |_| {}).unwrap();
        let before = digest(&paths);
        let mut seen = Vec::new();
        contents_digest(&paths, &mut |progress| seen.push(progress)).unwrap();
        let total = 1000 * (0..40_u64).sum::<u64>();
        assert!(seen.iter().all(|step| (step.total, step.unit) == (total, ProgressUnit::Bytes)));
        assert!(seen.windows(2).all(|steps| steps[0].done < steps[1].done));
        assert_eq!(seen.last().map(|step| step.done), Some(total));

        let moved = dir.path().join("moved");
        fs::copy(&paths[7], &moved).unwrap();
        let mut others = paths.clone();
        others[7] = moved;
        assert_eq!(digest(&others), before);
        others.swap(7, 8);
        assert_ne!(digest(&others), before);
        assert_ne!(digest(&paths[1..]), before);
        fs::write(&paths[39], vec![38; 39_000]).unwrap();
        assert_ne!(digest(&paths), before);
        assert_eq!(digest(&[]).len(), 64);

        fs::remove_file(&paths[5]).unwrap();
        let error = contents_digest(&paths, &mut |_| {}).unwrap_err().to_string();
        assert!(error.contains("/5` cannot be opened: "), "{error}");
    }
}
