//! A study: hands out trials and records their results in a journal that any process can continue.

use std::fs::File;
use std::io::{BufRead, BufReader, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use serde::de::IgnoredAny;

use crate::difference::difference;
use crate::error::{TuneError, of_json};
use crate::event::{Again, Event, Header};
use crate::journal::{Journal, Sync, check_file};
use crate::pruner;
use crate::sampler::Proposer;
use crate::settings::StudySettings;
use crate::space::Point;
use crate::state::State;
use crate::trial::{TrialRecord, TrialState};
use crate::worker::{WORKERS, Worker};

/// The journal in the study's folder.
const JOURNAL: &str = "journal.jsonl";

/// A trial to evaluate.
#[derive(Debug, Clone, PartialEq)]
pub struct Trial {
    /// Its number, from 0.
    pub number: u64,
    /// How often it was started, 1 on the first start.
    pub attempt: u64,
    /// Its values.
    pub point: Point,
    began: Instant,
}

/// The result of [`Study::ask`].
#[derive(Debug, Clone, PartialEq)]
pub enum Asked {
    /// A trial to evaluate.
    Trial(Trial),
    /// No trial now: other processes run the last trials, which may have to be started again.
    Wait,
    /// No more trials: the study is complete.
    Over,
}

/// Whether a trial continues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PruneDecision {
    /// The trial continues.
    Continue,
    /// Other trials were better at this step: stop the trial and call [`Study::prune`].
    Prune,
}

/// A hyperparameter search in a folder that threads, processes and hosts can share.
///
/// # Example
/// ```
/// use updraft_tune::{Asked, Direction, Objective, SamplerSettings, Space, Study, StudySettings};
///
/// let space = toml::from_str("x = { kind = \"float\", low = -5.0, high = 5.0 }")?;
/// let settings = StudySettings {
///     space: Space::read(&space)?,
///     objectives: vec![Objective { name: "y".to_owned(), direction: Direction::Minimize }],
///     sampler: SamplerSettings::Tpe { startup: 10, candidates: 24 },
///     pruner: None,
///     steps: 1,
///     seed: 1,
///     trials: 40,
///     attempts: 3,
///     shared: serde_json::Value::Null,
///     data: String::new(),
/// };
/// # let folder = std::env::temp_dir().join(format!("updraft-study-{}", std::process::id()));
/// let study = Study::open(&folder, settings)?;
/// while let Asked::Trial(trial) = study.ask()? {
///     let x = trial.point[0].expect("it has no condition");
///     study.finish(&trial, &[(x - 2.0).powi(2)], None)?;
/// }
/// let best = study.trials().iter().map(|trial| trial.values[0]).fold(f64::INFINITY, f64::min);
/// assert!(best < 0.1, "{best}");
/// # std::fs::remove_dir_all(folder)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Study {
    folder: PathBuf,
    settings: StudySettings,
    pub(crate) worker: Worker,
    state: Mutex<State>,
}

impl Study {
    /// Creates a study in a folder, or continues the existing one.
    ///
    /// # Errors
    /// [`TuneError::Setting`] for a count of the sampler or the pruner that is out of its range,
    /// [`TuneError::OtherStudy`] for a folder with another study, [`TuneError::NotAStudy`] for one
    /// with other files, [`TuneError::Lost`] for one whose journal has no line and that has other
    /// files, [`TuneError::Damaged`] for a journal that cannot be read, [`TuneError::NoLocks`], and
    /// [`TuneError::Io`].
    pub fn open(folder: &Path, settings: StudySettings) -> Result<Self, TuneError> {
        Self::check(folder, &settings)?;
        std::fs::create_dir_all(folder).map_err(|cause| TuneError::io("create", folder, cause))?;
        let state = State {
            journal: Journal::open(&folder.join(JOURNAL))?,
            proposer: Proposer::new(&settings)?,
            trials: Vec::new(),
            has_header: false,
        };
        // Another process that registers now has created the file of its lock and not locked it yet.
        state.journal.lock()?;
        let worker = Worker::register(folder);
        state.journal.unlock();
        let worker = worker?;
        let study = Self { folder: folder.to_owned(), settings, worker, state: Mutex::new(state) };
        study.locked(|study, state| {
            if state.has_header {
                return Ok(());
            }
            state.write(study, &Event::Study(Header::of(&study.settings)), Sync::Now)
        })?;
        Ok(study)
    }

    /// Checks the counts of the settings, and that a folder has no other study and no other files,
    /// and writes nothing.
    ///
    /// # Errors
    /// [`TuneError::Setting`] for a count of the sampler or the pruner that is out of its range,
    /// [`TuneError::OtherStudy`] with the difference, [`TuneError::NotAStudy`],
    /// [`TuneError::Lost`], [`TuneError::Damaged`] for a journal whose first line cannot be read,
    /// and [`TuneError::Io`].
    pub fn check(folder: &Path, settings: &StudySettings) -> Result<(), TuneError> {
        settings.check()?;
        refuse_other_files(folder)?;
        let path = folder.join(JOURNAL);
        if !path.exists() {
            return Ok(());
        }
        check_file(&path)?;
        let mut first = Vec::new();
        File::open(&path)
            .and_then(|file| BufReader::new(file).read_until(b'\n', &mut first))
            .map_err(|cause| TuneError::io("read", &path, cause))?;
        // A part of a line was not written to its end, and is written again.
        let is_whole =
            first.ends_with(b"\n") || serde_json::from_slice::<IgnoredAny>(&first).is_ok();
        if !is_whole {
            return refuse_lost_journal(folder, &path);
        }
        let damaged = |cause: String| TuneError::Damaged { path: path.clone(), line: 1, cause };
        match serde_json::from_slice(&first).map_err(|cause| damaged(of_json(&cause)))? {
            Event::Study(header) => match difference(&header, &Header::of(settings)) {
                None => Ok(()),
                Some(difference) => {
                    Err(TuneError::OtherStudy { folder: folder.to_owned(), difference })
                }
            },
            _ => Err(damaged("it precedes the line of the study".to_owned())),
        }
    }

    /// The settings.
    #[must_use]
    pub fn settings(&self) -> &StudySettings {
        &self.settings
    }

    /// The folder.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns the next trial: one whose process ended without a result, otherwise a new one.
    ///
    /// # Errors
    /// [`TuneError::Io`] and [`TuneError::Damaged`].
    pub fn ask(&self) -> Result<Asked, TuneError> {
        self.locked(|study, state| {
            state.mark_stale(study)?;
            let waiting = state.trials.iter().find(|it| it.state == TrialState::Waiting);
            let (number, attempt, point) = match waiting {
                Some(trial) => (trial.number, trial.attempt + 1, trial.point.clone()),
                None => {
                    let number = state.trials.len() as u64;
                    let point = match number < study.settings.trials {
                        true => state.proposer.propose(&study.settings, &state.trials),
                        false => None,
                    };
                    match point {
                        Some(point) => (number, 1, point),
                        None if state.trials.iter().all(|it| it.state.is_over()) => {
                            return Ok(Asked::Over);
                        }
                        None => return Ok(Asked::Wait),
                    }
                }
            };
            let event = Event::Started {
                trial: number,
                attempt,
                values: study.settings.space.to_json(&point),
                worker: study.worker.id().to_owned(),
                at_s: SystemTime::now()
                    .duration_since(UNIX_EPOCH)
                    .map_or(0.0, |since| since.as_millis() as f64 * 1e-3),
            };
            state.write(study, &event, Sync::Later)?;
            let trial = &state.trials[number as usize];
            let point = trial.point.clone();
            Ok(Asked::Trial(Trial { number, attempt, point, began: Instant::now() }))
        })
    }

    /// Records the first objective at a step of a trial and returns whether the trial continues.
    ///
    /// A value that is not finite is not recorded.
    ///
    /// # Errors
    /// As [`ask`](Self::ask).
    pub fn report(&self, trial: &Trial, step: u64, value: f64) -> Result<PruneDecision, TuneError> {
        if !value.is_finite() {
            return Ok(PruneDecision::Continue);
        }
        let Trial { number, attempt, .. } = *trial;
        self.locked(|study, state| {
            let event = Event::Intermediate { trial: number, attempt, step, value };
            state.write(study, &event, Sync::Later)?;
            let Some(settings) = study.settings.pruner else { return Ok(PruneDecision::Continue) };
            let direction = study.settings.objectives[0].direction;
            let record = &state.trials[number as usize];
            let steps = study.settings.steps;
            let is_pruned = pruner::is_pruned(settings, direction, steps, record, &state.trials);
            Ok(if is_pruned { PruneDecision::Prune } else { PruneDecision::Continue })
        })
    }

    /// Records the values of a trial, one for each objective.
    ///
    /// A trial with a value that is not finite is recorded as failed.
    ///
    /// # Errors
    /// [`TuneError::Values`] for another number of values, and as [`ask`](Self::ask).
    pub fn finish(
        &self,
        trial: &Trial,
        values: &[f64],
        note: Option<String>,
    ) -> Result<(), TuneError> {
        let objectives = &self.settings.objectives;
        if values.len() != objectives.len() {
            let (expected, got) = (objectives.len(), values.len());
            return Err(TuneError::Values { trial: trial.number, expected, got });
        }
        if let Some(at) = values.iter().position(|value| !value.is_finite()) {
            let reason = format!("{} is {}", objectives[at].name, values[at]);
            return self.fail(trial, &reason, note);
        }
        let Trial { number, attempt, .. } = *trial;
        let (values, seconds) = (values.to_vec(), seconds(trial));
        self.end(&Event::Finished { trial: number, attempt, values, note, seconds })
    }

    /// Records that a trial was stopped after [`report`](Self::report) returned [`PruneDecision::Prune`].
    ///
    /// # Errors
    /// As [`ask`](Self::ask).
    pub fn prune(&self, trial: &Trial, note: Option<String>) -> Result<(), TuneError> {
        let Trial { number, attempt, .. } = *trial;
        self.end(&Event::Pruned { trial: number, attempt, note, seconds: seconds(trial) })
    }

    /// Records that a trial failed, and why; it is not started again.
    ///
    /// # Errors
    /// As [`ask`](Self::ask).
    pub fn fail(&self, trial: &Trial, reason: &str, note: Option<String>) -> Result<(), TuneError> {
        self.failed(trial, reason, note, Again::Never)
    }

    /// Records that a trial was stopped from outside; it is started again.
    ///
    /// # Errors
    /// As [`ask`](Self::ask).
    pub fn interrupt(&self, trial: &Trial) -> Result<(), TuneError> {
        self.failed(trial, "it was interrupted", None, Again::Always)
    }

    /// All trials in the order of their numbers, as of the last call that read the journal.
    #[must_use]
    pub fn trials(&self) -> Vec<TrialRecord> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).trials.clone()
    }

    /// Reads the events that other processes have written.
    ///
    /// # Errors
    /// As [`ask`](Self::ask).
    pub fn refresh(&self) -> Result<(), TuneError> {
        self.locked(|_, _| Ok(()))
    }

    fn failed(
        &self,
        trial: &Trial,
        reason: &str,
        note: Option<String>,
        again: Again,
    ) -> Result<(), TuneError> {
        let Trial { number, attempt, .. } = *trial;
        let (reason, seconds) = (reason.to_owned(), seconds(trial));
        self.end(&Event::Failed { trial: number, attempt, reason, again, note, seconds })
    }

    fn end(&self, event: &Event) -> Result<(), TuneError> {
        self.locked(|study, state| state.write(study, event, Sync::Now))
    }

    /// Takes the lock, reads the events of other threads, processes and hosts, and runs `work`.
    fn locked<T>(
        &self,
        work: impl FnOnce(&Self, &mut State) -> Result<T, TuneError>,
    ) -> Result<T, TuneError> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.journal.lock()?;
        let done = state.read(self).and_then(|()| work(self, &mut state));
        state.journal.unlock();
        done
    }
}

/// Returns an error for a folder that has files and no journal.
fn refuse_other_files(folder: &Path) -> Result<(), TuneError> {
    let is_empty = match std::fs::read_dir(folder) {
        Ok(mut entries) => entries.next().is_none(),
        Err(cause) if cause.kind() == ErrorKind::NotFound => true,
        Err(cause) => return Err(TuneError::io("read", folder, cause)),
    };
    // A study's first file is its journal, so that one that is created meanwhile is found here.
    match is_empty || folder.join(JOURNAL).exists() {
        true => Ok(()),
        false => Err(TuneError::NotAStudy { folder: folder.to_owned() }),
    }
}

/// Returns an error for a folder that has more than a study without a journal's first line, which is
/// written before the first trial begins.
fn refuse_lost_journal(folder: &Path, path: &Path) -> Result<(), TuneError> {
    let entries =
        std::fs::read_dir(folder).map_err(|cause| TuneError::io("read", folder, cause))?;
    let names = entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
    match names.filter(|name| name != JOURNAL && name != WORKERS).min() {
        None => Ok(()),
        Some(other) => Err(TuneError::Lost { path: path.to_owned(), other }),
    }
}

fn seconds(trial: &Trial) -> f64 {
    // Rounded to microseconds to keep the journal short.
    (trial.began.elapsed().as_secs_f64() * 1e6).round() * 1e-6
}
