//! The record of a trial.

use crate::space::Point;

/// The state of a trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TrialState {
    /// A process is evaluating it.
    Running,
    /// Its process ended without a result; it will be started again.
    Waiting,
    /// It has a value for each objective.
    Finished,
    /// It was stopped because other trials were better.
    Pruned,
    /// It has no result and will not be started again.
    Failed,
}

impl TrialState {
    /// Whether the trial is finished, pruned or failed.
    #[must_use]
    pub fn is_over(self) -> bool {
        !matches!(self, Self::Running | Self::Waiting)
    }
}

/// A trial as recorded in the journal.
#[derive(Debug, Clone, PartialEq)]
pub struct TrialRecord {
    /// Its number, from 0.
    pub number: u64,
    /// How often it was started, at least 1.
    pub attempt: u64,
    /// How many attempts were lost because their process ended.
    pub lost: u64,
    /// Its values.
    pub point: Point,
    /// Its state.
    pub state: TrialState,
    /// Reported values of the first objective, by step.
    pub intermediate: Vec<(u64, f64)>,
    /// A value for each objective of a finished trial.
    pub values: Vec<f64>,
    /// Why it failed.
    pub reason: Option<String>,
    /// A note of the caller, such as a folder.
    pub note: Option<String>,
    /// Duration of its last attempt in seconds.
    pub seconds: f64,
    /// The process that evaluates it, or evaluated it last.
    pub worker: String,
}
