//! The content of `summary.json`.

use std::path::PathBuf;

use serde::Serialize;
use updraft_trainer::Evaluation;

/// A run that was finished or stopped.
#[derive(Serialize)]
pub(super) struct Summary<'a> {
    pub(super) name: &'a str,
    pub(super) task: &'a str,
    pub(super) complete: bool,
    pub(super) steps: u64,
    pub(super) epochs: u64,
    pub(super) parameters: usize,
    pub(super) train_samples: usize,
    pub(super) test_samples: usize,
    pub(super) test: &'a Option<Evaluation>,
    /// Seconds from the start of the command until the first batch.
    pub(super) first_batch_s: Option<f64>,
    /// Updates before the run was resumed; `wall_s` and `cpu_s` are the times since then.
    pub(super) earlier_steps: u64,
    pub(super) wall_s: f64,
    pub(super) cpu_s: Option<f64>,
    /// The share of the time of updates that waited for data, since then; `None` without an update.
    pub(super) data_wait_share: Option<f64>,
    pub(super) peak_resident_bytes: Option<u64>,
    /// Memory of live tensors on the device, since then; `None` if its backend does not report it.
    pub(super) device_peak_in_use_bytes: Option<u64>,
    /// The same with what its allocator has reserved.
    pub(super) device_peak_reserved_bytes: Option<u64>,
    pub(super) checkpoint: PathBuf,
}
