//! The keys of `log`: what a run records in addition to its metrics.

use super::error::ConfigError;
use super::key::{Edit, Key, Keys};
use super::settings::Settings;

const CSV: Key<bool> = Key::new("log.csv", "also writes `steps.csv` and `epochs.csv`")
    .default("false")
    .edit(Edit::Free);
const TENSORBOARD: Key<bool> =
    Key::new("log.tensorboard", "also writes an event file for `tensorboard --logdir RUN`")
        .default("false")
        .edit(Edit::Free);
const UTILIZATION: Key<bool> = Key::new(
    "log.utilization",
    "measures the device's peak first, as is always done with a narrow `precision`, and reports the model's GFLOP/s and their fraction of the peak with every step",
)
.default("false").edit(Edit::Free);
/// The keys of `log`.
pub(super) const KEYS: Keys = &[&CSV, &TENSORBOARD, &UTILIZATION];

/// What a run records in addition to `metrics.jsonl`; each field is the key of the same name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "each field is documented by the key of its name")]
pub struct LogPlan {
    pub csv: bool,
    pub tensorboard: bool,
    pub utilization: bool,
}

impl LogPlan {
    /// Reads every key.
    pub(super) fn read(settings: &Settings) -> Result<Self, ConfigError> {
        Ok(Self {
            csv: settings.value(&CSV)?,
            tensorboard: settings.value(&TENSORBOARD)?,
            utilization: settings.value(&UTILIZATION)?,
        })
    }
}
