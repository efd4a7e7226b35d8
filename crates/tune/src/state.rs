//! The trials of a study, replayed from the events of its journal.

use crate::difference::difference;
use crate::error::TuneError;
use crate::event::{Again, Event, Header};
use crate::journal::{Journal, Sync};
use crate::sampler::Proposer;
use crate::study::Study;
use crate::trial::{TrialRecord, TrialState};

/// The state of a study after the events that were read so far.
pub(crate) struct State {
    pub(crate) journal: Journal,
    pub(crate) proposer: Proposer,
    pub(crate) trials: Vec<TrialRecord>,
    pub(crate) has_header: bool,
}

impl State {
    /// Appends an event, then reads it back and applies it as other processes do.
    pub(crate) fn write(
        &mut self,
        study: &Study,
        event: &Event,
        sync: Sync,
    ) -> Result<(), TuneError> {
        self.journal.append(event, sync)?;
        self.read(study)
    }

    pub(crate) fn read(&mut self, study: &Study) -> Result<(), TuneError> {
        for (line, event) in self.journal.read::<Event>()? {
            self.take(study, event).map_err(|error| match error {
                Refused::Study(difference) => {
                    TuneError::OtherStudy { folder: study.folder().to_owned(), difference }
                }
                Refused::Line(cause) => self.journal.damaged(line, cause),
            })?;
        }
        Ok(())
    }

    /// Marks running trials of ended processes as failed, so that they are started again.
    pub(crate) fn mark_stale(&mut self, study: &Study) -> Result<(), TuneError> {
        let running = self.trials.iter().filter(|trial| trial.state == TrialState::Running);
        let stale: Vec<Event> = running
            .filter(|trial| !study.worker.is_alive(&trial.worker))
            .map(|trial| Event::Failed {
                trial: trial.number,
                attempt: trial.attempt,
                reason: format!("its process {} ended", trial.worker),
                again: Again::Counted,
                note: None,
                seconds: 0.0,
            })
            .collect();
        stale.iter().try_for_each(|event| self.write(study, event, Sync::Later))
    }

    fn take(&mut self, study: &Study, event: Event) -> Result<(), Refused> {
        let settings = study.settings();
        match event {
            Event::Study(header) => {
                if self.has_header {
                    return Err(Refused::Line("a second study".to_owned()));
                }
                self.has_header = true;
                return match difference(&header, &Header::of(settings)) {
                    Some(difference) => Err(Refused::Study(difference)),
                    None => Ok(()),
                };
            }
            _ if !self.has_header => {
                return Err(Refused::Line("it precedes the line of the study".to_owned()));
            }
            Event::Started { trial, attempt, values, worker, .. } => {
                let point = settings.space.read_json(&values);
                let point = point
                    .ok_or_else(|| Refused::Line("its values are not in the space".to_owned()))?;
                let next = self.trials.len() as u64;
                match self.trials.get_mut(trial as usize) {
                    Some(known) if known.state == TrialState::Waiting => {
                        known.state = TrialState::Running;
                        (known.attempt, known.worker) = (attempt, worker);
                        known.intermediate.clear();
                        known.reason = None;
                    }
                    None if trial == next => {
                        self.trials.push(TrialRecord {
                            number: trial,
                            attempt,
                            lost: 0,
                            point,
                            state: TrialState::Running,
                            intermediate: Vec::new(),
                            values: Vec::new(),
                            reason: None,
                            note: None,
                            seconds: 0.0,
                            worker,
                        });
                    }
                    _ => {
                        return Err(Refused::Line(format!("trial {trial} cannot start here")));
                    }
                }
            }
            Event::Intermediate { trial, attempt, step, value } => {
                // Values of an earlier attempt are ignored.
                if let Some(known) = self.running(trial, attempt)? {
                    known.intermediate.push((step, value));
                }
            }
            Event::Finished { trial, attempt, values, note, seconds } => {
                if values.len() != settings.objectives.len() {
                    return Err(Refused::Line("wrong number of values".to_owned()));
                }
                if let Some(known) = self.running(trial, attempt)? {
                    known.state = TrialState::Finished;
                    (known.values, known.note, known.seconds) = (values, note, seconds);
                }
            }
            Event::Pruned { trial, attempt, note, seconds } => {
                if let Some(known) = self.running(trial, attempt)? {
                    known.state = TrialState::Pruned;
                    (known.note, known.seconds) = (note, seconds);
                }
            }
            Event::Failed { trial, attempt, reason, again, note, seconds } => {
                if let Some(known) = self.running(trial, attempt)? {
                    known.lost += u64::from(again == Again::Counted);
                    let is_over = match again {
                        Again::Never => true,
                        Again::Counted => known.lost >= settings.attempts,
                        Again::Always => false,
                    };
                    known.state = if is_over { TrialState::Failed } else { TrialState::Waiting };
                    (known.reason, known.note, known.seconds) = (Some(reason), note, seconds);
                }
            }
        }
        Ok(())
    }

    /// The trial, if this attempt of it is running.
    fn running(&mut self, trial: u64, attempt: u64) -> Result<Option<&mut TrialRecord>, Refused> {
        let known = self.trials.get_mut(trial as usize);
        let known = known.ok_or_else(|| Refused::Line(format!("trial {trial} was not started")))?;
        let is_running = known.state == TrialState::Running && known.attempt == attempt;
        Ok(is_running.then_some(known))
    }
}

/// Why an event cannot be applied.
enum Refused {
    /// It belongs to another study; the text names the difference.
    Study(String),
    /// It is invalid; the text is the cause.
    Line(String),
}
