//! The content of `summary.json`.

use std::path::PathBuf;

use serde::Serialize;
use updraft_trainer::Evaluation;

use crate::gpu_load::GpuSummary;

/// A run that was finished or stopped.
#[derive(Serialize)]
pub(super) struct Summary<'a> {
    pub(super) name: &'a str,
    pub(super) task: &'a str,
    /// Whether no update is left: all epochs were run, or early stopping ended them.
    pub(super) complete: bool,
    /// Updates, with those before the run was resumed.
    pub(super) steps: u64,
    /// Those of the plan, also of a run that was stopped or ended early.
    pub(super) epochs: u64,
    /// Those with gradients.
    pub(super) parameters: usize,
    pub(super) train_samples: usize,
    pub(super) test_samples: usize,
    /// Of the served model; `None` for a run that was stopped.
    pub(super) test: &'a Option<Evaluation>,
    /// Seconds from the start of the command until the first batch.
    pub(super) first_batch_s: Option<f64>,
    /// Updates before the run was resumed. All times and shares below are of this process, which made
    /// the others.
    pub(super) earlier_steps: u64,
    pub(super) wall_s: f64,
    /// Processor seconds of all threads, if the system reports them.
    pub(super) cpu_s: Option<f64>,
    /// The share of the time of updates that waited for data; `None` without an update.
    pub(super) data_wait_share: Option<f64>,
    /// The peak of this process, if the system reports it.
    pub(super) peak_resident_bytes: Option<u64>,
    /// The peak of live tensors on the device; `None` if its backend does not report it.
    pub(super) device_peak_in_use_bytes: Option<u64>,
    /// The peak of what the device's allocator has reserved, likewise.
    pub(super) device_peak_reserved_bytes: Option<u64>,
    /// The load of an NVIDIA card while the run trained; `None` for other devices, and for a run
    /// that was too short for a sample.
    pub(super) gpu: &'a Option<GpuSummary>,
    /// The served checkpoint, relative to the run's folder.
    pub(super) checkpoint: PathBuf,
}
