//! `endure`: kills runs, restricts their storage, resumes them, and compares the results bitwise.

use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::Args;
use serde_json::json;
use updraft_run::{Registry, TaskKind};

use super::cannot;
use super::would::Would;
use crate::Failed;
use crate::endure::{Endured, OnRanks, Scenario, Storage, VARIANTS, check_ranks, endure, soak};
use crate::terminal::say;

/// Kills runs at random moments, resumes them, and compares every bit with an undisturbed run.
///
/// Small runs of every task, in f32 and in mixed precision, are killed while they compute or save,
/// get a full disk or read-only storage, and resume with another number of workers.
/// The command fails unless each run ends with the metrics, model, optimizer and state of an
/// undisturbed run. With several ranks, one is killed at random, all have to end, and the restarted
/// job has to end in the bits of the undisturbed one. With --fewer-ranks, it continues on one rank
/// fewer, and its test loss and accuracy have to be as near to those of the undisturbed run as those
/// of four runs with other seeds.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    updraft endure --kills 1000           a thousand disturbances\n  \
    updraft endure --kills 50 --ranks 2   kills of a rank\n  \
    updraft endure --ranks 3 --fewer-ranks  the same, continued on fewer ranks\n  \
    updraft endure --minutes 60           an hour of training: memory and step times")]
pub(crate) struct EndureArgs {
    /// Number of disturbances over all runs
    #[arg(long, value_name = "N", default_value_t = 20)]
    kills: u64,
    /// Run on N ranks over MPI, and kill a random one of them each time; storage is not disturbed
    #[arg(long, value_name = "N", default_value_t = 1, conflicts_with = "minutes",
          value_parser = clap::value_parser!(u16).range(1..))]
    ranks: u16,
    /// Continue on one rank fewer after each kill, down to one, and compare the test loss and
    /// accuracy, with those of runs with other seeds as the tolerance
    #[arg(long, requires = "ranks")]
    fewer_ranks: bool,
    /// Train for N minutes instead, and report memory, descriptors, threads and step times
    #[arg(long, value_name = "N", conflicts_with = "kills")]
    minutes: Option<f64>,
    /// The task [default: all tasks; with --minutes the first]
    #[arg(long, value_name = "TASK")]
    task: Option<String>,
    /// Seed of the random times
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Keep the runs in this folder [default: a temporary one]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,
}

impl EndureArgs {
    fn tasks(&self, registry: Registry) -> Result<Vec<&'static dyn TaskKind>> {
        let Some(name) = &self.task else { return Ok(registry.to_vec()) };
        let names: Vec<&str> = registry.iter().map(|kind| kind.name()).collect();
        match registry.iter().find(|kind| kind.name() == name) {
            Some(kind) => Ok(vec![*kind]),
            None => bail!("there is no task `{name}`; the tasks are {}", names.join(", ")),
        }
    }

    fn check(&self) -> Result<()> {
        check_ranks(self.ranks.into())?;
        if self.fewer_ranks && self.ranks < 2 {
            bail!("--fewer-ranks needs --ranks of at least 2")
        }
        if !(1..=1_000_000).contains(&self.kills) {
            bail!("--kills is {}; it must be 1 to 1000000", self.kills)
        }
        match self.minutes {
            Some(minutes) if !(minutes > 0.0 && minutes <= 100_000.0) => {
                bail!("--minutes is {minutes}; it must be above 0 and at most 100000")
            }
            _ => Ok(()),
        }
    }

    /// Every task in each variant, limited to one scenario for every five disturbances.
    fn scenarios(&self, registry: Registry) -> Result<Vec<Scenario>> {
        let tasks = self.tasks(registry)?;
        let all = tasks.len() * VARIANTS.len();
        let most = all.min(usize::try_from(self.kills / 5).unwrap_or(all).max(1));
        let pairs = (0..most).map(|at| pair(at, tasks.len()));
        pairs
            .map(|(task, variant)| {
                Scenario::new(registry, tasks[task], &VARIANTS[variant], self.ranks.into())
            })
            .collect()
    }
}

/// The task and the variant of a scenario: neighbors differ in both, and no pair comes twice before
/// all were there.
fn pair(at: usize, tasks: usize) -> (usize, usize) {
    let (round, task) = (at / tasks, at % tasks);
    (task, (round + task) % VARIANTS.len())
}

/// Prints what would be read and written, and the runs.
pub(crate) fn dry_run(registry: Registry, args: &EndureArgs) -> Result<()> {
    args.check()?;
    let mut runs = Vec::new();
    for scenario in args.scenarios(registry)? {
        runs.push(format!("{} {}", scenario.task, scenario.variant));
    }
    let reads = format!("nothing; it disturbs trials of {}", runs.join(", "));
    match &args.dir {
        Some(dir) => Would::new(reads, dir.display()).print(),
        None => Would::new(reads, "a temporary folder, which is removed at the end").print(),
    }
}

/// Disturbs runs and prints a table of the results; returns an error if a bit differs.
pub(crate) fn run(registry: Registry, args: &EndureArgs) -> Result<()> {
    args.check()?;
    let kept;
    let dir = match &args.dir {
        Some(dir) => {
            std::fs::create_dir_all(dir).map_err(|cause| cannot("create", dir, cause))?;
            kept = None;
            dir.clone()
        }
        None => {
            let name = format!("updraft-endure-{}", std::process::id());
            let dir = std::env::temp_dir().join(name);
            std::fs::create_dir_all(&dir).map_err(|cause| cannot("create", &dir, cause))?;
            kept = Some(Scratch(dir.clone()));
            dir
        }
    };
    let done = match args.minutes {
        Some(minutes) => {
            let kind = args.tasks(registry)?[0];
            soak(kind, minutes, &dir, args.json, kept.is_none())
        }
        None => disturb(registry, args, &dir),
    };
    drop(kept);
    done?;
    // The other of the two tests.
    crate::program::next(match args.minutes {
        Some(_) => "endure --kills 1000",
        None => "endure --minutes 60",
    });
    Ok(())
}

fn disturb(registry: Registry, args: &EndureArgs, dir: &std::path::Path) -> Result<()> {
    let scenarios = args.scenarios(registry)?;
    let storage = match args.ranks {
        1 => Storage::find(dir),
        _ => Storage::None,
    };
    if let (1, Some(missing)) = (args.ranks, storage.missing()) {
        say(&format!("warning: {missing}"));
    }
    let on_ranks = OnRanks { count: args.ranks.into(), get_fewer: args.fewer_ranks };
    let work = (args.kills, on_ranks);
    let endured = endure(&scenarios, work, args.seed, dir, storage)?;
    if args.json {
        let rows: Vec<_> = endured.iter().map(Endured::json).collect();
        crate::print_json(&json!({ "runs": rows }))?;
    } else {
        crate::print(&Endured::table(&endured))?;
    }
    match endured.iter().find_map(|row| row.fault.as_ref().map(|fault| (row, fault))) {
        None => Ok(()),
        Some((row, fault)) => Err(Failed(format!("{}, {}: {fault}", row.task, row.variant)).into()),
    }
}

/// A temporary folder that is deleted with this value.
struct Scratch(PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        // On an error it stays in the system's temporary folder.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn scenarios_are_all_pairs_of_a_task_and_a_variant() {
        for tasks in 1..6 {
            let all = tasks * VARIANTS.len();
            let pairs: BTreeSet<_> = (0..all).map(|at| pair(at, tasks)).collect();
            assert_eq!(pairs.len(), all, "{tasks} tasks");
        }
    }
}
