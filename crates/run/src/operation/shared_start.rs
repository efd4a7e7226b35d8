//! The start of a run on several ranks: what all of them must have alike.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use burn::tensor::Device;
use toml::Table;
use updraft_data::Digest;
use updraft_device::Backend;
use updraft_distributed::{Collective, CollectiveError, agree, gather};
use updraft_trainer::{BatchStream, StreamError, Task, Tensors, TrainError};

use crate::config::{Edited, Plan};
use crate::error::RunError;
use crate::folder::RunFolder;
use crate::task::{BatchOf, StreamUse, Workload};

/// How long a rank looks for a file of rank 0: network file systems may show it late.
const PATIENCE: Duration = Duration::from_secs(10);

/// Checks that every rank has the same program, configuration and data, before any of them trains.
///
/// The device and keys that change no result may differ.
pub(super) fn agree_on_start<W: Workload>(
    collective: &mut dyn Collective,
    plan: &Plan,
    workload: &W,
    (device, backend): (&Device, Backend),
) -> Result<(), RunError> {
    if collective.size() == 1 {
        return Ok(());
    }
    let failed = |cause: CollectiveError| RunError::from(TrainError::from(cause));
    let version = env!("CARGO_PKG_VERSION");
    agree(collective, "the version of the program", version).map_err(failed)?;
    let plans = gather(collective, plan.to_toml().as_bytes()).map_err(failed)?;
    let tables: Vec<Table> = plans
        .iter()
        .map(|text| toml::from_str(&String::from_utf8_lossy(text)).expect("a rank sends TOML"))
        .collect();
    for (rank, table) in tables.iter().enumerate() {
        let mut differences = plan.differences(&tables[0], table).into_iter();
        if let Some(Edited { key, begun, now, .. }) = differences.find(|it| it.key != "device") {
            let text = |value: Option<String>| value.unwrap_or_else(|| "not given".to_owned());
            let what = format!("`{key}`");
            let (expected, found) = (text(begun), text(now));
            return Err(failed(CollectiveError::Disagreement { what, rank, expected, found }));
        }
    }
    let signature = workload.signature().to_string();
    agree(collective, "the signature of the data, such as its classes,", &signature)
        .map_err(failed)?;
    // Devices of several kinds may round the conversion of a batch differently.
    let own = format!("{} {}", backend.feature(), data_digest(workload, plan, device)?);
    let digests = gather(collective, own.as_bytes()).map_err(failed)?;
    let texts: Vec<_> = digests.iter().map(|bytes| String::from_utf8_lossy(bytes)).collect();
    let parts = |text: &'_ str| {
        let (backend, digest) = text.split_once(' ').expect("a rank sends two words");
        (backend.to_owned(), digest.to_owned())
    };
    let (first_backend, expected) = parts(&texts[0]);
    for (rank, text) in texts.iter().enumerate() {
        let (backend, found) = parts(text);
        if backend == first_backend && found != expected {
            let what = "the digest of the first training and test batches".to_owned();
            return Err(failed(CollectiveError::Disagreement { what, rank, expected, found }));
        }
    }
    Ok(())
}

/// SHA-256 of the first batch of the training data, which a seed draws from all of it, and of the
/// test data.
fn data_digest<W: Workload>(
    workload: &W,
    plan: &Plan,
    device: &Device,
) -> Result<String, RunError> {
    let streams = workload.streams(plan, StreamUse::Reading)?;
    let mut digest = Digest::new("first batches");
    for (split, stream) in [("training", &streams.train), ("test", &streams.test)] {
        let numbers = first_batch(workload, &**stream, device)
            .map_err(|cause| RunError::Stream { split, cause })?;
        let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
        digest = digest.bytes(&bytes);
    }
    Ok(digest.hex())
}

fn first_batch<W: Workload>(
    workload: &W,
    stream: &dyn BatchStream<BatchOf<W>>,
    device: &Device,
) -> Result<Vec<f64>, StreamError> {
    let Some(batch) = stream.epoch(0).next().transpose()? else { return Ok(Vec::new()) };
    let (input, target) = workload.task().place(batch, device)?;
    let mut numbers = input.to_numbers();
    numbers.extend(target.to_numbers());
    Ok(numbers)
}

/// Checks that every rank sees the folder that rank 0 writes into, and not a folder of the same name.
///
/// # Errors
/// [`RunError::NotShared`] on every rank if one does not see it; if rank 0 cannot write into it, or a
/// rank is lost.
pub fn agree_on_folder(collective: &mut dyn Collective, path: &Path) -> Result<(), RunError> {
    if collective.size() == 1 {
        return Ok(());
    }
    let failed = |cause: CollectiveError| RunError::from(TrainError::from(cause));
    let is_first = collective.rank() == 0;
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let own = format!(".ranks-{}-{}", std::process::id(), since.as_nanos());
    let names = gather(collective, own.as_bytes()).map_err(failed)?;
    let mark = path.join(String::from_utf8_lossy(&names[0]).into_owned());
    let written = if is_first { fs::write(&mark, "") } else { Ok(()) };
    collective.barrier().map_err(failed)?;
    let seen = [u8::from(is_first || appears(&mark))];
    let seen = gather(collective, &seen).map_err(failed)?;
    if is_first && written.is_ok() {
        // Rank 0 wrote it a moment ago.
        let _ = fs::remove_file(&mark);
    }
    written.map_err(|cause| RunError::io("write", &mark, cause))?;
    match seen.iter().position(|seen| *seen != [1]) {
        None => Ok(()),
        Some(rank) => Err(RunError::NotShared { path: path.to_owned(), rank }),
    }
}

fn appears(mark: &Path) -> bool {
    let started = Instant::now();
    while started.elapsed() < PATIENCE {
        if mark.exists() {
            return true;
        }
        thread::sleep(Duration::from_millis(50));
    }
    false
}

/// The path that rank 0 has.
pub(super) fn first_path(collective: &mut dyn Collective, own: &Path) -> Result<PathBuf, RunError> {
    let texts = gather(collective, own.as_os_str().as_encoded_bytes()).map_err(TrainError::from)?;
    Ok(PathBuf::from(String::from_utf8_lossy(&texts[0]).into_owned()))
}

/// The run folder of rank 0, which all ranks read.
pub(super) fn open_shared(
    collective: &mut dyn Collective,
    created: Option<RunFolder>,
    path: &Path,
) -> Result<RunFolder, RunError> {
    if let Err(error) = agree_on_folder(collective, path) {
        if let (Some(folder), RunError::NotShared { .. }) = (&created, &error) {
            // It was created a moment ago, and has nothing to resume from.
            let _ = fs::remove_dir_all(folder.path());
        }
        return Err(error);
    }
    match created {
        Some(folder) => Ok(folder),
        None => RunFolder::open(path),
    }
}

#[cfg(test)]
mod tests {
    use updraft_distributed::Threads;

    use super::*;
    use crate::{Plan, TASKS};

    #[test]
    fn a_folder_that_was_begun_is_removed_if_another_rank_does_not_see_it() {
        let dir = tempfile::tempdir().expect("temporary folder");
        let plan = Plan::read(TASKS, "", Path::new("c.toml"), &[]).expect("the quickstart").plan;
        let begun = RunFolder::create(dir.path(), &plan).expect("created");
        let (path, elsewhere) = (begun.path().to_path_buf(), dir.path().join("elsewhere"));
        fs::create_dir(&elsewhere).expect("created");
        let mut begun = Some(begun);
        let opened: Vec<_> = thread::scope(|scope| {
            let ranks = Threads::group(2, Duration::from_secs(60)).into_iter().map(|mut rank| {
                let (created, seen): (_, &PathBuf) = match rank.rank() {
                    0 => (begun.take(), &path),
                    _ => (None, &elsewhere),
                };
                scope.spawn(move || open_shared(&mut rank, created, seen))
            });
            let ranks: Vec<_> = ranks.collect();
            ranks.into_iter().map(|rank| rank.join().expect("no panic")).collect()
        });
        for opened in opened {
            assert!(matches!(opened, Err(RunError::NotShared { rank: 1, .. })), "{opened:?}");
        }
        assert!(!path.exists() && elsewhere.exists(), "only what was begun is removed");
    }
}
