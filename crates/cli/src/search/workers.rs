//! Threads that run the trials of a study until it is over.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, bail};
use updraft_run::{KeepPlan, Registry};
use updraft_tune::{Asked, Study, Trial, TrialState};

use super::outcome::{keep_weights, result_text, value_text};
use super::process::{Ended, run};
use super::trial::Order;
use crate::command::{ConfigArgs, cannot};
use crate::stop;
use crate::terminal::say;
use crate::{Failed, Stopped};

/// The call ends if so many trials fail before any has a result, because the cause is probably the
/// same for all.
const MOST_FAILURES: usize = 5;

/// The interval at which trials of other processes are checked.
const PAUSE: Duration = Duration::from_millis(200);

/// A study with the config of its trials.
pub(crate) struct Search<'a> {
    pub(crate) registry: Registry,
    pub(crate) config: &'a ConfigArgs,
    pub(crate) study: &'a Study,
    pub(crate) keep: KeepPlan,
    pub(crate) workers: usize,
}

/// Seconds of each trial of this call in addition to the wall time of its run: journal, sampler,
/// and the start and exit of the process.
#[derive(Debug, Default)]
pub(crate) struct Overhead(Vec<f64>);

impl Overhead {
    /// Over how many trials.
    pub(crate) fn trials(&self) -> usize {
        self.0.len()
    }

    /// The median in milliseconds, rounded to hundredths; `None` without a trial.
    pub(crate) fn median_ms(&self) -> Option<f64> {
        let mut seconds = self.0.clone();
        seconds.sort_by(f64::total_cmp);
        let middle = [seconds.len().wrapping_sub(1) / 2, seconds.len() / 2];
        let [low, high] = middle.map(|at| seconds.get(at).copied());
        Some(((low? + high?) * 0.5 * 1e5).round() / 100.0)
    }
}

impl Search<'_> {
    /// Runs trials until the study is over.
    ///
    /// # Errors
    /// An error of the journal or of the storage, a stop request, or too many failed trials before
    /// the first result.
    pub(crate) fn work(&self) -> Result<Overhead> {
        // A process may have been killed after it recorded a trial.
        let trials = self.study.trials();
        for trial in trials.iter().filter(|trial| trial.state.is_over()) {
            self.remove_earlier(trial.number, trial.attempt)?;
        }
        let (overheads, is_over) = (Mutex::default(), AtomicBool::new(false));
        let failures = Mutex::new(0);
        let worked = std::thread::scope(|scope| {
            let one = || {
                let worked = self.until_over(&overheads, &failures, &is_over);
                // If one thread ends, all end.
                is_over.store(true, Ordering::SeqCst);
                worked
            };
            let workers: Vec<_> = (0..self.workers).map(|_| scope.spawn(one)).collect();
            let ended = workers.into_iter().map(|worker| {
                worker.join().unwrap_or_else(|_| Err(anyhow!("a thread of the search panicked")))
            });
            // Join all threads before the first error is returned.
            ended.collect::<Vec<_>>().into_iter().collect::<Result<Vec<()>>>()
        });
        worked?;
        if stop::requested() {
            let trials = self.study.trials();
            let over = trials.iter().filter(|trial| trial.state.is_over()).count();
            let all = self.study.settings().trials;
            bail!(Stopped(format!(
                "stopped after {over} of {all} trials; run the same command to continue"
            )));
        }
        Ok(overheads.into_inner().unwrap_or_default())
    }

    fn until_over(
        &self,
        overheads: &Mutex<Overhead>,
        failures: &Mutex<usize>,
        is_over: &AtomicBool,
    ) -> Result<()> {
        while !stop::requested() && !is_over.load(Ordering::SeqCst) {
            let began = Instant::now();
            match self.study.ask()? {
                Asked::Over => break,
                Asked::Wait => std::thread::sleep(PAUSE),
                Asked::Trial(trial) => {
                    let ended = self.train(&trial).inspect_err(|_| {
                        // What ends the search is no fault of the trial. If it is not recorded, the
                        // next call counts the trial as lost.
                        let _ = self.study.interrupt(&trial);
                    })?;
                    let seconds = self.record(&trial, ended)?;
                    if let Some(seconds) = seconds {
                        let overhead = began.elapsed().as_secs_f64() - seconds;
                        overheads.lock().unwrap_or_else(|it| it.into_inner()).0.push(overhead);
                    }
                    self.stop_where_all_fail(&trial, failures)?;
                }
            }
        }
        Ok(())
    }

    fn train(&self, trial: &Trial) -> Result<Ended> {
        let mut config = self.config.clone();
        let values = self.study.settings().space.values(&trial.point);
        config.sets.extend(values.iter().map(|(key, value)| format!("{key}={value}")));
        let plan = match config.plan(self.registry) {
            Ok(planned) => planned.plan.to_toml(),
            Err(error) => return Ok(Ended::Failed(error.to_string())),
        };
        let objectives = &self.study.settings().objectives;
        let objectives = objectives.iter().map(|objective| objective.name.clone()).collect();
        let runs = self.folder_of(trial.number, trial.attempt);
        let order = Order { plan, runs, objectives };
        run(self.study, trial, &order, self.threads())
    }

    /// The folder of an attempt; each has its own, because the process of an earlier attempt may
    /// still be running.
    fn folder_of(&self, number: u64, attempt: u64) -> PathBuf {
        let again = if attempt == 1 { String::new() } else { format!("-{attempt}") };
        self.study.folder().join("trials").join(format!("{number:04}{again}"))
    }

    /// Threads of each trial: an equal share of the processor, unless `RAYON_NUM_THREADS` is set.
    fn threads(&self) -> Option<usize> {
        let is_given = std::env::var_os("RAYON_NUM_THREADS").is_some();
        let all = std::thread::available_parallelism().map_or(1, usize::from);
        (self.workers > 1 && !is_given).then(|| (all / self.workers).max(1))
    }

    /// Records and prints the result of a trial, and returns the wall time of its run in seconds.
    fn record(&self, trial: &Trial, ended: Ended) -> Result<Option<f64>> {
        let number = trial.number;
        let study = self.study;
        let (seconds, text) = match ended {
            Ended::Interrupted => {
                study.interrupt(trial)?;
                return Ok(None);
            }
            Ended::StorageFailed(reason) => {
                // The journal may be on the same storage.
                let _ = study.interrupt(trial);
                bail!(Failed(format!(
                    "trial {number} was interrupted: {reason}; the same command continues when \
                     the storage works again"
                )));
            }
            Ended::Failed(reason) => {
                study.fail(trial, &reason, self.left_by(trial))?;
                (None, format!("failed: {reason}"))
            }
            Ended::Over { run, is_pruned, values, seconds } => {
                let note = Some(self.relative(&run));
                if is_pruned {
                    study.prune(trial, note)?;
                } else {
                    let values: Vec<f64> =
                        values.into_iter().map(|value| value.unwrap_or(f64::NAN)).collect();
                    study.finish(trial, &values, note)?;
                }
                let trials = study.trials();
                let text = result_text(&study.settings().objectives, &trials[number as usize]);
                (Some(seconds), format!("{text:32} {seconds:6.1} s{}", self.best_text(&trials)))
            }
        };
        say(&format!("trial {number:<4} {text}"));
        self.remove_earlier(number, trial.attempt)?;
        keep_weights(study, self.keep)?;
        Ok(seconds)
    }

    /// Removes the folders of the attempts of a trial before this one.
    fn remove_earlier(&self, number: u64, attempt: u64) -> Result<()> {
        for earlier in 1..attempt {
            let left = self.folder_of(number, earlier);
            match std::fs::remove_dir_all(&left) {
                // Another process may have removed it already.
                Err(cause) if cause.kind() != ErrorKind::NotFound => {
                    return Err(cannot("remove", &left, cause));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// The path relative to the study, which stays valid if the study is moved or mounted elsewhere.
    fn relative(&self, run: &Path) -> String {
        let run = run.strip_prefix(self.study.folder()).unwrap_or(run);
        run.to_string_lossy().into_owned()
    }

    /// The run folder of a failed trial, if it was created.
    fn left_by(&self, trial: &Trial) -> Option<String> {
        let folder = self.folder_of(trial.number, trial.attempt);
        let mut entries = std::fs::read_dir(folder).ok()?.flatten().map(|entry| entry.path());
        entries.find(|path| path.is_dir()).map(|run| self.relative(&run))
    }

    /// The best trial so far, if there is one objective.
    fn best_text(&self, trials: &[updraft_tune::TrialRecord]) -> String {
        let [objective] = &self.study.settings().objectives[..] else { return String::new() };
        let finished = trials.iter().filter(|trial| trial.state == TrialState::Finished);
        let best = finished.min_by(|a, b| {
            let loss = |values: &[f64]| objective.direction.loss(values[0]);
            loss(&a.values).total_cmp(&loss(&b.values))
        });
        best.map_or_else(String::new, |best| {
            format!("   best {} (trial {})", value_text(best.values[0]), best.number)
        })
    }

    fn stop_where_all_fail(&self, trial: &Trial, failures: &Mutex<usize>) -> Result<()> {
        let trials = self.study.trials();
        let record = &trials[trial.number as usize];
        if record.state != TrialState::Failed {
            return Ok(());
        }
        let mut failures = failures.lock().unwrap_or_else(|it| it.into_inner());
        *failures += 1;
        let has_result = |it: &updraft_tune::TrialRecord| {
            matches!(it.state, TrialState::Finished | TrialState::Pruned)
        };
        if *failures >= MOST_FAILURES && !trials.iter().any(has_result) {
            let reason = record.reason.as_deref().unwrap_or("it has no reason");
            bail!(Failed(format!(
                "the first {failures} trials all failed, the last because {reason}"
            )));
        }
        Ok(())
    }
}
