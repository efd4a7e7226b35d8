//! The key `train.distributed`, for runs on several ranks.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use updraft_distributed::{Network, Shared, Wire};
use updraft_trainer::Ranks;

use super::error::ConfigError;
use super::key::{Edit, Key, Keys};
use super::settings::Settings;

const DISTRIBUTED: Key<DistributedPlan> = Key::new(
    "train.distributed",
    "how the ranks of a run exchange numbers; without effect on a single rank",
)
.default(r#"{ wire = "f32", timeout = 1800, batch_norm = "local", added_latency_us = 0 }"#)
.with(&[
    (
        "wire",
        "`\"f32\"`",
        "the format of gradients between ranks, or `\"bf16\"`, which halves the bytes and rounds; sums are computed in f32",
    ),
    (
        "timeout",
        "1800",
        "seconds after which a rank that waits for the others ends the run, at least 1; they also wait while rank 0 fills caches",
    ),
    (
        "batch_norm",
        "`\"local\"`",
        "batch norms normalize by the statistics of each rank's own part of a batch, or, if `\"synchronized\"`, by those of the whole batch, with two exchanges for each layer and on the CPU only",
    ),
    (
        "added_latency_us",
        "0",
        "microseconds that every message between ranks takes longer, at most 1000000, to try a run on a slower network",
    ),
])
.edit(Edit::Reported)
.check("a `timeout` of at least 1 and an `added_latency_us` of at most 1000000", |distributed| {
    distributed.timeout >= 1 && distributed.added_latency_us <= 1_000_000
});

/// The key of the exchange between ranks.
pub(super) const KEYS: Keys = &[&DISTRIBUTED];

/// How the ranks of a run exchange numbers; each field is the key of the same name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[allow(missing_docs, reason = "each field is documented by the key of its name")]
pub struct DistributedPlan {
    pub wire: WirePlan,
    pub timeout: u64,
    pub batch_norm: BatchNormPlan,
    pub added_latency_us: u64,
}

impl Default for DistributedPlan {
    fn default() -> Self {
        let (wire, batch_norm) = (WirePlan::F32, BatchNormPlan::Local);
        Self { wire, timeout: 1800, batch_norm, added_latency_us: 0 }
    }
}

/// The format of gradients between ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WirePlan {
    /// Four bytes a number, exact.
    F32,
    /// Two bytes a number.
    Bf16,
}

/// What batch norms normalize by on several ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BatchNormPlan {
    /// The statistics of a rank's own part of a batch.
    Local,
    /// The statistics of the whole batch.
    Synchronized,
}

impl DistributedPlan {
    pub(super) fn read(settings: &Settings) -> Result<Self, ConfigError> {
        settings.value(&DISTRIBUTED)
    }

    /// How long a rank waits for the others.
    #[must_use]
    pub const fn patience(&self) -> Duration {
        Duration::from_secs(self.timeout)
    }

    /// What is added to every message between ranks; `None` if nothing is.
    #[must_use]
    pub fn added_network(&self) -> Option<Network> {
        let latency_s = 1e-6 * self.added_latency_us as f64;
        (latency_s > 0.0).then_some(Network { latency_s, bytes_per_s: f64::INFINITY })
    }

    /// Whether batch norms exchange numbers within a pass.
    #[must_use]
    pub const fn synchronizes(&self) -> bool {
        matches!(self.batch_norm, BatchNormPlan::Synchronized)
    }

    /// The ranks that an engine connects, which exchange as planned.
    #[must_use]
    pub fn ranks(&self, collective: Shared) -> Ranks {
        let ranks = Ranks::new(collective, self.wire.into());
        match self.batch_norm {
            BatchNormPlan::Local => ranks,
            BatchNormPlan::Synchronized => {
                ranks.with_synchronized_batch_norms(updraft_conv::synchronize_batch_norms)
            }
        }
    }
}

impl From<WirePlan> for Wire {
    fn from(plan: WirePlan) -> Self {
        match plan {
            WirePlan::F32 => Self::F32,
            WirePlan::Bf16 => Self::Bf16,
        }
    }
}
