//! What a process measures, and what it answers.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use updraft_run::TimedWork;

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Work {
    /// Training steps.
    Training,
    /// Forward passes.
    Inference,
}

impl Work {
    pub(crate) const ALL: [Self; 2] = [Self::Training, Self::Inference];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Training => "training",
            Self::Inference => "inference",
        }
    }

    pub(crate) const fn timed(self) -> TimedWork {
        match self {
            Self::Training => TimedWork::Training,
            Self::Inference => TimedWork::Inference,
        }
    }
}

/// What a row sets beyond its config.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Setting {
    /// Values of keys, as `key=value`; the later of two values of a key counts.
    pub(crate) sets: Vec<String>,
    /// Whether burn's operations compute in place of our kernels.
    pub(crate) plain: bool,
    /// The number of threads; `None` for that of the command.
    pub(crate) threads: Option<usize>,
}

/// What a process measures.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Order {
    /// The plan, as TOML.
    pub(crate) plan: String,
    /// Whether burn's operations compute in place of our kernels.
    pub(crate) plain: bool,
    pub(crate) work: Work,
    /// The number of timed steps.
    pub(crate) steps: usize,
    /// What the process computes for the comparison, after everything was timed.
    pub(crate) compared: Option<ComparedOrder>,
    /// The file of the answer.
    pub(crate) answer: PathBuf,
}

/// The outputs or gradients that a process writes.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct ComparedOrder {
    pub(crate) file: PathBuf,
    pub(crate) samples: Samples,
}

/// How many test samples are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Samples {
    /// Some hundreds, a multiple of this number, or all.
    MultipleOf(usize),
    /// As many as the baseline.
    Exactly(usize),
}

/// What a process measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Answer {
    /// The process.
    pub(crate) process: u32,
    /// What was in use.
    pub(crate) in_use: InUse,
    /// Seconds until the data was open.
    pub(crate) open_s: f64,
    /// Seconds of the first step.
    pub(crate) first_s: f64,
    /// The timed steps.
    pub(crate) steps: Vec<Step>,
    /// The largest memory of the process, if known.
    pub(crate) peak_bytes: Option<u64>,
    /// The largest memory of live tensors in the pools of a device, if it has any.
    pub(crate) device_peak_bytes: Option<u64>,
    /// The largest memory that these pools had reserved.
    pub(crate) device_reserved_bytes: Option<u64>,
}

/// What was in use in a process, as it found it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct InUse {
    pub(crate) device: String,
    pub(crate) kernels: bool,
    pub(crate) threads: usize,
    pub(crate) precision: String,
    pub(crate) batch: usize,
}

/// A timed step.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct Step {
    pub(crate) samples: usize,
    pub(crate) seconds: f64,
    /// The part that waited for data.
    pub(crate) data_s: f64,
}
