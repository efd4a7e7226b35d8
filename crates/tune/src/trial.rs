//! What is known of a trial.

use crate::space::Point;

/// How far a trial is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TrialState {
    /// A process works on it.
    Running,
    /// Its process ended without a result; it is to be started again.
    Waiting,
    /// It has a value for each objective.
    Finished,
    /// It was stopped, because others had done better by then.
    Pruned,
    /// It has no result and is not started again.
    Failed,
}

impl TrialState {
    /// Whether nothing more will happen to the trial.
    #[must_use]
    pub fn is_over(self) -> bool {
        !matches!(self, Self::Running | Self::Waiting)
    }
}

/// A trial as the journal has it.
#[derive(Debug, Clone, PartialEq)]
pub struct TrialRecord {
    /// Its number, from 0.
    pub number: u64,
    /// How often it was started, at least 1.
    pub attempt: u64,
    /// How many of those ended with their process.
    pub lost: u64,
    /// Its place in the space.
    pub point: Point,
    /// How far it is.
    pub state: TrialState,
    /// Values of the first objective on the way, by step.
    pub intermediate: Vec<(u64, f64)>,
    /// A value for each objective of a finished trial.
    pub values: Vec<f64>,
    /// Why it failed.
    pub reason: Option<String>,
    /// What the caller noted at its end, such as a folder.
    pub note: Option<String>,
    /// Seconds from its start until its end.
    pub seconds: f64,
    /// The process that works on it, or did last.
    pub worker: String,
}
