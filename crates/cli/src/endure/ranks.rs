//! Ranks of a run, of which one is killed.

use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use updraft_data::Random;

use super::child::{start, train, watch};
use super::disturb::last_line;
use crate::ranks::{AS_ROOT, mpirun_arguments};

/// The longest time from the loss of a rank to the end of the others.
pub(super) const ENDS_WITHIN: Duration = Duration::from_secs(60);

/// What a kill left.
pub(super) enum Left {
    /// The run finished before it.
    Finished,
    /// All ranks ended.
    Nothing,
}

/// A command that runs `train` with arguments on so many ranks, or without a launcher on one.
pub(super) fn train_on(ranks: usize, arguments: &[OsString]) -> Result<Command> {
    if ranks == 1 {
        return train::<&str>(&[], arguments);
    }
    let mut before: Vec<OsString> = vec!["mpirun".into()];
    before.extend(mpirun_arguments(ranks));
    let mut command = train(&before, arguments)?;
    command.envs(AS_ROOT).env("RAYON_NUM_THREADS", "1");
    Ok(command)
}

/// Trains on several ranks, and kills a random one as soon as it is time; all have to end.
pub(super) fn kill_a_rank(
    (ranks, arguments): (usize, &[OsString]),
    log: &Path,
    dice: &mut Random,
    mut is_time: impl FnMut() -> bool,
) -> Result<Left> {
    let rank = usize::try_from(dice.below(ranks as u64)).unwrap_or_default();
    let mut mpirun = start(&mut train_on(ranks, arguments)?, log)?;
    let launcher = mpirun.id();
    let mut killed = None;
    let ended = watch(&mut mpirun, log, || {
        // Before it exists and after it has ended, there is nothing to kill.
        if killed.is_none() && is_time() && kill(launcher, rank) {
            killed = Some(Instant::now());
        }
        killed.is_some_and(|killed: Instant| killed.elapsed() > ENDS_WITHIN)
    })?;
    let Some(ended) = ended else {
        bail!(
            "rank {rank} was killed, and the others did not end within {} s",
            ENDS_WITHIN.as_secs()
        )
    };
    match killed {
        _ if ended.status.success() => Ok(Left::Finished),
        Some(_) => Ok(Left::Nothing),
        None => bail!("a run failed before a rank was killed: {}", last_line(&ended.said)),
    }
}

/// Kills a rank of a launcher; false if there is none.
fn kill(launcher: u32, rank: usize) -> bool {
    let Some(process) = process_of(launcher, rank) else { return false };
    let killed = Command::new("kill").args(["-9", &process.to_string()]).status();
    killed.is_ok_and(|status| status.success())
}

/// The process of a rank, a child of its launcher, from the processes that Linux lists.
fn process_of(launcher: u32, rank: usize) -> Option<u32> {
    let variable = format!("OMPI_COMM_WORLD_RANK={rank}");
    let list = format!("/proc/{launcher}/task/{launcher}/children");
    let children = fs::read_to_string(list).ok()?;
    children.split_whitespace().filter_map(|id| id.parse().ok()).find(|id: &u32| {
        let environment = fs::read(format!("/proc/{id}/environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|entry| entry == variable.as_bytes())
    })
}

/// Returns an error where ranks cannot be started or killed.
pub(crate) fn check_ranks(ranks: usize) -> Result<()> {
    if ranks == 1 {
        return Ok(());
    }
    if cfg!(not(feature = "mpi")) {
        bail!("`--ranks` needs a program that was built with the feature `mpi`");
    }
    if cfg!(not(target_os = "linux")) {
        bail!("`--ranks` finds the processes of ranks on Linux only");
    }
    let found = Command::new("mpirun").arg("--version").output();
    found.context("`mpirun` does not start; install Open MPI").map(drop)
}
