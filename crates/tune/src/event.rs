//! The lines of a journal.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::objective::Objective;
use crate::settings::{PrunerSettings, SamplerSettings, StudySettings};

/// The version of the lines that this build writes.
const VERSION: u32 = 1;

/// The first line: the settings that identify the study.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Header {
    pub(crate) version: u32,
    pub(crate) objectives: Vec<Objective>,
    pub(crate) space: Value,
    pub(crate) sampler: SamplerSettings,
    pub(crate) pruner: Option<PrunerSettings>,
    pub(crate) steps: u64,
    pub(crate) seed: u64,
    pub(crate) shared: Value,
    pub(crate) data: String,
}

impl Header {
    /// The first line of a study with these settings.
    pub(crate) fn of(settings: &StudySettings) -> Self {
        let StudySettings { space, objectives, sampler, pruner, steps, seed, shared, data, .. } =
            settings;
        Self {
            version: VERSION,
            objectives: objectives.clone(),
            space: space.description(),
            sampler: *sampler,
            pruner: *pruner,
            steps: *steps,
            seed: *seed,
            shared: shared.clone(),
            data: data.clone(),
        }
    }
}

/// A line after the first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub(crate) enum Event {
    Study(Header),
    Started {
        trial: u64,
        attempt: u64,
        values: Map<String, Value>,
        worker: String,
        at_s: f64,
    },
    Intermediate {
        trial: u64,
        attempt: u64,
        step: u64,
        value: f64,
    },
    Finished {
        trial: u64,
        attempt: u64,
        values: Vec<f64>,
        note: Option<String>,
        seconds: f64,
    },
    Pruned {
        trial: u64,
        attempt: u64,
        note: Option<String>,
        seconds: f64,
    },
    Failed {
        trial: u64,
        attempt: u64,
        reason: String,
        again: Again,
        note: Option<String>,
        seconds: f64,
    },
}

/// Whether a trial that failed is started again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Again {
    /// Not started again: the trial itself failed.
    Never,
    /// Started again up to a limit: its process ended, perhaps because of the trial.
    Counted,
    /// Always started again: the trial was stopped from outside.
    Always,
}
