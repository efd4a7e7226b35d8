//! A digest of the contents of files.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread;

use crate::digest::{Checksum, Digest};
use crate::error::DataError;
use crate::progress::{Progress, ProgressUnit};
use crate::regular_file::open_regular;

/// SHA-256 of the contents of files in their order, as 64 hexadecimal digits; names and times do not
/// matter.
///
/// Every file is read once, by as many threads as the machine has. `progress` is called on the
/// calling thread with the number of files.
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
    let next = AtomicUsize::new(0);
    let work = |sender: &Sender<(usize, Result<[u8; 32], DataError>)>| loop {
        let at = next.fetch_add(1, Ordering::Relaxed);
        let Some(path) = paths.get(at) else { break };
        if sender.send((at, checksum(path))).is_err() {
            break;
        }
    };
    let mut checksums = vec![[0; 32]; paths.len()];
    let mut fault: Option<(usize, DataError)> = None;
    thread::scope(|scope| {
        let (sender, receiver) = channel();
        let threads = thread::available_parallelism().map_or(1, usize::from).min(paths.len());
        let mut started = 0;
        for _ in 0..threads {
            let (sender, work) = (sender.clone(), &work);
            let builder = thread::Builder::new().name("updraft-digest".to_owned());
            started += usize::from(builder.spawn_scoped(scope, move || work(&sender)).is_ok());
        }
        if started == 0 {
            work(&sender);
        }
        drop(sender);
        for (done, (at, found)) in receiver.into_iter().enumerate() {
            match found {
                Ok(checksum) => checksums[at] = checksum,
                Err(error) => {
                    // No further file is read.
                    next.store(paths.len(), Ordering::Relaxed);
                    if fault.as_ref().is_none_or(|(lowest, _)| at < *lowest) {
                        fault = Some((at, error));
                    }
                }
            }
            let (done, total) = (done as u64 + 1, paths.len() as u64);
            progress(Progress { done, total, unit: ProgressUnit::Samples });
        }
    });
    match fault {
        Some((_, error)) => Err(error),
        None => {
            let digest = Digest::new("updraft contents of files").number(paths.len());
            Ok(checksums.iter().fold(digest, |digest, checksum| digest.bytes(checksum)).hex())
        }
    }
}

fn checksum(path: &Path) -> Result<[u8; 32], DataError> {
    let found = open_regular(path).and_then(Checksum::of);
    let (checksum, _) = found.map_err(|cause| DataError::Open { path: path.to_owned(), cause })?;
    Ok(checksum.raw())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contents_and_their_order_decide_and_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let paths: Vec<PathBuf> = (0..40).map(|at| dir.path().join(at.to_string())).collect();
        for (at, path) in paths.iter().enumerate() {
            std::fs::write(path, vec![at as u8; 1000 * at]).unwrap();
        }
        let digest = |paths: &[PathBuf]| contents_digest(paths, &mut |_| {}).unwrap();
        let before = digest(&paths);
        let mut seen = Vec::new();
        contents_digest(&paths, &mut |progress| seen.push(progress.done)).unwrap();
        assert_eq!(seen, (1..=40).collect::<Vec<u64>>());

        let moved = dir.path().join("moved");
        std::fs::copy(&paths[7], &moved).unwrap();
        let mut others = paths.clone();
        others[7] = moved;
        assert_eq!(digest(&others), before);
        others.swap(7, 8);
        assert_ne!(digest(&others), before);
        assert_ne!(digest(&paths[1..]), before);
        std::fs::write(&paths[39], vec![38; 39_000]).unwrap();
        assert_ne!(digest(&paths), before);
        assert_eq!(digest(&[]).len(), 64);

        std::fs::remove_file(&paths[5]).unwrap();
        let error = contents_digest(&paths, &mut |_| {}).unwrap_err().to_string();
        assert!(error.contains("/5` cannot be opened: "), "{error}");
    }
}
