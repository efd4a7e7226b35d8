//! Disturbs runs one after another and compares each finished run with an undisturbed one.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use updraft_data::Random;
use updraft_run::RunFolder;
use updraft_trainer::{check_checkpoint, list_checkpoints};

use super::child::{Ended, start, train, watch};
use super::compare::{Outcome, newest};
use super::noise::{Noise, SEEDS, Scores};
use super::ranks::{ENDS_WITHIN, Left, kill_a_rank, train_on};
use super::run_files::{load_with, made, only, pages, size, unfinished};
use super::scenario::Scenario;
use super::storage::{NOT_DONE, Storage};
use super::table::Endured;
use crate::command::cannot;
use crate::terminal::say;

/// Worker counts of resumed runs, used in turn.
const WORKERS: [i64; 3] = [0, 1, 4];

/// In each cycle of disturbances, one is a full disk, one is read-only storage, and the others are
/// kills.
const CYCLE: u64 = 12;
const FULL_AT: u64 = 4;
const READ_ONLY_AT: u64 = 8;

/// Allowed exit codes of a run whose storage fails: it finishes, or it fails with an error.
const EXPECTED: [i32; 2] = [0, 1];

/// Disturbs the runs of each scenario, `kills` times over all scenarios, and compares each finished
/// run.
pub(crate) fn endure(
    scenarios: &[Scenario],
    (kills, on_ranks): (u64, OnRanks),
    seed: u64,
    dir: &Path,
    storage: Storage,
) -> Result<Vec<Endured>> {
    let mut done = Vec::new();
    let mut left = kills;
    for (at, scenario) in scenarios.iter().enumerate() {
        let share = left / (scenarios.len() - at) as u64;
        left -= share;
        let dir = dir.join(format!("{at}-{}", scenario.task));
        made(&dir)?;
        let dice = Random::for_augment(seed, 0, at);
        let mut trial = Trial::new((scenario, on_ranks), dir, storage, dice)?;
        if let Err(error) = trial.disturb(share, done.len() as u64) {
            trial.row.fault = Some(format!("{error:#}"));
        }
        let is_faulty = trial.row.fault.is_some();
        done.push(trial.row);
        if is_faulty {
            break;
        }
    }
    Ok(done)
}

/// On how many ranks runs begin, and are resumed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OnRanks {
    /// Processes of a run.
    pub(crate) count: usize,
    /// Whether a run continues on one rank fewer after each kill, down to one rank, and is compared
    /// by its test loss and accuracy.
    pub(crate) get_fewer: bool,
}

/// A scenario with the results of its undisturbed run.
struct Trial {
    config: PathBuf,
    dir: PathBuf,
    storage: Storage,
    dice: Random,
    ranks: OnRanks,
    undisturbed: Outcome,
    /// The scores of undisturbed runs with other seeds, for runs that end on fewer ranks.
    noise: Option<Noise>,
    /// Wall time of the fastest run from its start to its end.
    takes: Duration,
    /// Number of disturbances so far; it determines the kind of the next one.
    turn: u64,
    runs: u64,
    row: Endured,
}

/// A run that is disturbed.
struct Disturbed {
    /// The folder that contains its run folder.
    runs: PathBuf,
    /// Updates in its newest checkpoint.
    step: u64,
    /// Kills of it since it has a checkpoint.
    kills: usize,
}

impl Trial {
    fn new(
        (scenario, ranks): (&Scenario, OnRanks),
        dir: PathBuf,
        storage: Storage,
        dice: Random,
    ) -> Result<Self> {
        let config = dir.join("config.toml");
        fs::write(&config, &scenario.plan).map_err(|cause| cannot("write", &config, cause))?;
        let begun = Instant::now();
        let run = undisturbed((&config, &dir.join("undisturbed")), ranks.count, None)?;
        let takes = begun.elapsed();
        let noise = if ranks.get_fewer {
            let scores_of = |seed| {
                let runs = dir.join(format!("seed-{seed}"));
                Scores::of(&undisturbed((&config, &runs), ranks.count, Some(seed))?)
            };
            let others: Vec<Scores> = SEEDS.into_iter().map(scores_of).collect::<Result<_>>()?;
            Some(Noise::of(Scores::of(&run)?, &others))
        } else {
            None
        };
        let undisturbed = Outcome::of(&run)?;
        let row = Endured::new(scenario.task, scenario.variant, ranks.get_fewer);
        let (turn, runs) = (0, 0);
        Ok(Self { config, dir, storage, dice, ranks, undisturbed, noise, takes, turn, runs, row })
    }

    /// The ranks that a run is started or resumed on.
    fn ranks_of(&self, run: &Disturbed) -> usize {
        let lost = if self.ranks.get_fewer { run.kills } else { 0 };
        self.ranks.count.saturating_sub(lost).max(1)
    }

    /// Disturbs runs one after another, `times` times in total, then lets the last run finish.
    fn disturb(&mut self, times: u64, turn: u64) -> Result<()> {
        // Scenarios begin at different positions in the cycle of disturbances.
        self.turn = turn * 5;
        let mut run = self.fresh()?;
        while self.row.disturbed() < times {
            let is_over = self.once(&mut run)?;
            self.turn += 1;
            if is_over {
                self.compare(&run)?;
                run = self.fresh()?;
            }
        }
        begin_anew(&mut run)?;
        let log = self.log();
        let arguments = self.arguments(&run);
        let mut child = start(&mut train_on(self.ranks_of(&run), &arguments)?, &log)?;
        let ended = watch(&mut child, &log, || false)?.context("it was not killed")?;
        if !ended.status.success() {
            bail!("the last resumption failed: {}", last_line(&ended.said))
        }
        self.compare(&run)
    }

    fn fresh(&mut self) -> Result<Disturbed> {
        self.runs += 1;
        let runs = self.dir.join(format!("run-{}", self.runs));
        made(&runs)?;
        Ok(Disturbed { runs, step: 0, kills: 0 })
    }

    fn log(&self) -> PathBuf {
        self.dir.join("disturbed.log")
    }

    /// Starts or resumes a run and disturbs it; returns whether the run finished first.
    fn once(&mut self, run: &mut Disturbed) -> Result<bool> {
        begin_anew(run)?;
        let folder = resumable(run);
        let kills = self.row.kills;
        if let Some(folder) = &folder {
            let workers = WORKERS[self.turn as usize % WORKERS.len()];
            load_with(folder, workers)?;
        }
        let is_over = match (self.turn % CYCLE, folder) {
            (FULL_AT, Some(folder)) if self.storage != Storage::None => self.fill(&folder)?,
            (READ_ONLY_AT, Some(folder)) if self.storage == Storage::Mounts => {
                self.make_read_only(&folder)?
            }
            // Storage is taken from a run that has something to lose: the next one, then.
            (FULL_AT | READ_ONLY_AT, None) => {
                self.turn -= 1;
                self.kill_at_random(run)?
            }
            // At least a third of all kills must hit a save, even if some attempts miss it.
            _ if 3 * self.row.in_saves <= self.row.kills => self.kill_in_a_save(run)?,
            _ => self.kill_at_random(run)?,
        };
        run.kills += usize::from(self.row.kills > kills);
        self.check_whole(run)?;
        Ok(is_over)
    }

    fn arguments(&self, run: &Disturbed) -> Vec<OsString> {
        match resumable(run) {
            Some(folder) => vec!["--resume".into(), folder.into()],
            None => new_run(&self.config, &run.runs),
        }
    }

    /// Kills the run after a random time, during startup, a step, evaluation or exit.
    fn kill_at_random(&mut self, run: &Disturbed) -> Result<bool> {
        let most = u64::try_from(self.takes.as_micros()).unwrap_or(u64::MAX).max(1);
        let after = Duration::from_micros(self.dice.below(most));
        let is_fresh = resumable(run).is_none();
        let begun = Instant::now();
        let is_over = self.kill_when(run, || begun.elapsed() >= after)?;
        if is_over && is_fresh {
            // The undisturbed run can have been slower, beside other programs.
            self.takes = self.takes.min(begun.elapsed());
        }
        Ok(is_over)
    }

    /// Kills the run up to 2.5 ms after the folder of a checkpoint appears.
    fn kill_in_a_save(&mut self, run: &Disturbed) -> Result<bool> {
        let saves = self.dice.below(4);
        let wait = Duration::from_micros(self.dice.below(2500));
        let (mut seen, mut was_there, mut since) = (0, false, None);
        self.kill_when(run, || {
            if let Some(since) = since {
                let since: Instant = since;
                return since.elapsed() >= wait;
            }
            let is_there = is_saving(run);
            if is_there && !was_there {
                seen += 1;
                if seen > saves {
                    since = Some(Instant::now());
                }
            }
            was_there = is_there;
            false
        })
    }

    fn kill_when(&mut self, run: &Disturbed, is_time: impl FnMut() -> bool) -> Result<bool> {
        let (log, arguments) = (self.log(), self.arguments(run));
        let ranks = self.ranks_of(run);
        if ranks > 1 {
            let left = kill_a_rank((ranks, &arguments), &log, &mut self.dice, is_time)?;
            let is_killed = matches!(left, Left::Nothing);
            if let Some(folder) = resumable(run) {
                // `mpirun` may end before the ranks that it kills.
                let is_free = RunFolder::open(&folder)?.wait_until_free(ENDS_WITHIN);
                ensure!(is_free, "a rank did not end within {} s", ENDS_WITHIN.as_secs());
            }
            self.row.kills += u64::from(is_killed);
            self.row.in_saves += u64::from(is_killed && is_saving(run));
            return Ok(!is_killed);
        }
        let mut child = start(&mut train_on(1, &arguments)?, &log)?;
        match watch(&mut child, &log, is_time)? {
            Some(ended) if ended.status.success() => Ok(true),
            Some(ended) => bail!("a run failed before it was killed: {}", last_line(&ended.said)),
            None => {
                self.row.kills += 1;
                self.row.in_saves += u64::from(is_saving(run));
                Ok(false)
            }
        }
    }

    /// Resumes the run with too little storage for a few more checkpoints.
    fn fill(&mut self, folder: &Path) -> Result<bool> {
        let checkpoint = size(&newest(folder)?);
        let room = match self.storage {
            Storage::FileSizes => 512 + self.dice.below(checkpoint.max(1)),
            _ => self.dice.below(4 * checkpoint.max(1)),
        };
        let place = self.dir.join("full");
        made(&place)?;
        // Files in tmpfs take whole pages.
        let used = pages(folder);
        let Some(before) = self.storage.full(folder, used, room, &place) else { return Ok(false) };
        let is_over = self.starved(&before, "a full disk", &["No space left", "too large"])?;
        self.row.full += 1;
        // A failed save must remove its partial files.
        if let Some(left) = unfinished(folder) {
            bail!("with a full disk the run left `{}`", left.display())
        }
        Ok(is_over)
    }

    /// Resumes the run and makes its checkpoint folder read-only after a random time.
    fn make_read_only(&mut self, folder: &Path) -> Result<bool> {
        let after_s = self.takes.as_secs_f64() * self.dice.open_unit() * 0.6;
        let Some(before) = self.storage.read_only(folder, after_s) else { return Ok(false) };
        let is_over = self.starved(&before, "read-only storage", &["Read-only file system"])?;
        self.row.read_only += 1;
        Ok(is_over)
    }

    /// Resumes the run with a command that restricts its storage; the run must finish or fail with
    /// one of `reasons`.
    fn starved(&mut self, before: &[OsString], what: &str, reasons: &[&str]) -> Result<bool> {
        let log = self.log();
        let mut child = start(&mut train(before, &[])?, &log)?;
        let Ended { status, said } =
            watch(&mut child, &log, || false)?.context("it was not killed")?;
        let code = status.code().unwrap_or(-1);
        if code == NOT_DONE {
            bail!("{what} could not be set up: {}", last_line(&said))
        }
        let is_told = code == 0 || reasons.iter().any(|reason| said.contains(reason));
        if !EXPECTED.contains(&code) || !is_told || said.contains("panicked") {
            bail!("with {what} the run exited with code {code}: {}", last_line(&said))
        }
        Ok(code == 0)
    }

    /// Checks that every listed checkpoint is complete and that the newest one was not lost.
    fn check_whole(&self, run: &mut Disturbed) -> Result<()> {
        let Some(folder) = only(&run.runs) else { return Ok(()) };
        let mut newest = 0;
        for path in list_checkpoints(&folder.join("checkpoints"))? {
            newest = check_checkpoint(&path)?.step;
        }
        if newest < run.step {
            bail!("the checkpoint of step {} is lost; the newest is of step {newest}", run.step)
        }
        run.step = newest;
        Ok(())
    }

    fn compare(&mut self, run: &Disturbed) -> Result<()> {
        let folder = only(&run.runs).context("the run left no folder")?;
        if let Some(noise) = self.noise {
            let distance = noise.distance(Scores::of(&folder)?);
            let distance = distance.with_context(|| format!("see `{}`", folder.display()))?;
            self.row.farthest = self.row.farthest.map(|farthest| farthest.farthest(distance));
        } else if let Some(difference) = Outcome::of(&folder)?.difference(&self.undisturbed) {
            bail!("{difference}; see `{}`", folder.display())
        }
        self.row.ends += 1;
        // Equal runs are deleted, because a thousand of them would take much disk space.
        if let Err(cause) = fs::remove_dir_all(&run.runs) {
            say(&format!("warning: {:#}", cannot("delete", &run.runs, cause)));
        }
        Ok(())
    }
}

/// Trains to the end in a new folder, perhaps with another seed, and returns the run's folder.
fn undisturbed((config, runs): (&Path, &Path), ranks: usize, seed: Option<u64>) -> Result<PathBuf> {
    made(runs)?;
    let log = runs.with_extension("log");
    let mut arguments = new_run(config, runs);
    if let Some(seed) = seed {
        arguments.extend(["--set".into(), format!("seed={seed}").into()]);
    }
    let mut child = start(&mut train_on(ranks, &arguments)?, &log)?;
    let ended = watch(&mut child, &log, || false)?.context("it was not killed")?;
    if !ended.status.success() {
        bail!("the undisturbed run failed: {}", last_line(&ended.said))
    }
    only(runs).context("the undisturbed run left no folder")
}

fn new_run(config: &Path, runs: &Path) -> Vec<OsString> {
    vec![config.into(), "--runs".into(), runs.into()]
}

/// Removes the files of a run that was killed before its first checkpoint, so that it starts again.
fn begin_anew(run: &mut Disturbed) -> Result<()> {
    if resumable(run).is_none() {
        run.kills = 0;
        let removed = fs::remove_dir_all(&run.runs);
        removed.map_err(|cause| cannot("delete", &run.runs, cause))?;
        made(&run.runs)?;
    }
    Ok(())
}

/// The run folder, if it has a checkpoint to resume from.
fn resumable(run: &Disturbed) -> Option<PathBuf> {
    only(&run.runs).filter(|folder| newest(folder).is_ok())
}

/// Whether a checkpoint is being written, or was being written when the process ended.
fn is_saving(run: &Disturbed) -> bool {
    let Some(folder) = only(&run.runs) else { return false };
    let entries = fs::read_dir(folder.join("checkpoints")).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name()).any(|name| name.to_string_lossy().ends_with(".partial"))
}

pub(super) fn last_line(said: &str) -> &str {
    said.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("it printed nothing")
}
