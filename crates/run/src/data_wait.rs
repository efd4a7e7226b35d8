//! The share of the time of updates that waited for data.

use serde_json::{Value, json};
use updraft_trainer::{EpochReport, StepReport};

/// The time that the updates of this process took, and the part that waited for batches.
#[derive(Debug, Default)]
pub(crate) struct DataWait {
    waited_us: u64,
    total_us: u64,
}

impl DataWait {
    pub(crate) fn add(&mut self, report: &StepReport) {
        self.waited_us += report.times.data_wait_us;
        self.total_us += report.times.data_wait_us + report.step_us;
    }

    /// From 0 to 1; `None` without an update.
    pub(crate) fn share(&self) -> Option<f64> {
        (self.total_us > 0).then(|| self.waited_us as f64 / self.total_us as f64)
    }

    /// The field of an epoch.
    pub(crate) fn field(report: &EpochReport) -> (&'static str, Value) {
        let share = report.times.data_wait_us as f64 / report.train_us.max(1) as f64;
        ("data_wait_share", json!(share))
    }
}
