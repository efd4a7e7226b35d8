//! Values of a plan that are a word or a number.

use anyhow::anyhow;
use serde::{Deserialize, Serialize};
use updraft_trainer::BatchSearch;

use super::raw::{RawBatches, RawWorkers};

/// How many batches statistics are computed from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BatchesPlan {
    /// All of an epoch.
    All,
    /// The first so many.
    Count(usize),
}

impl Serialize for BatchesPlan {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match *self {
            Self::All => serializer.serialize_str("all"),
            Self::Count(count) => serializer.serialize_u64(count as u64),
        }
    }
}

impl<'de> Deserialize<'de> for BatchesPlan {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = RawBatches::deserialize(deserializer)?;
        Self::try_from(raw).map_err(|given| {
            serde::de::Error::custom(format!("expected `all` or a number, got `{given}`"))
        })
    }
}

impl TryFrom<RawBatches> for BatchesPlan {
    type Error = String;

    fn try_from(raw: RawBatches) -> Result<Self, String> {
        match raw {
            RawBatches::Count(count) => Ok(Self::Count(count)),
            RawBatches::Named(name) if name == "all" => Ok(Self::All),
            RawBatches::Named(name) => Err(name),
        }
    }
}

/// What a training step does with the activations of its forward pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum RecomputePlan {
    /// It keeps them.
    #[default]
    None,
    /// It computes element-wise operations again in the backward pass: burn's own strategy.
    ElementWise,
    /// It keeps what flows between the network's segments and computes the rest again.
    Segments,
}

/// Where the batch size is looked for, and what it may take.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct AutoBatchPlan {
    pub(crate) least: usize,
    pub(crate) most: usize,
    /// The share of the largest fitting batch that is left free.
    pub(crate) head_room: f64,
    /// What a training step's process may hold in RAM; what is available without it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) budget_mib: Option<u64>,
}

impl Default for AutoBatchPlan {
    fn default() -> Self {
        // Batch norms need two images; beyond some thousands, batches learn nothing more.
        Self { least: 2, most: 4096, head_room: 0.1, budget_mib: None }
    }
}

impl AutoBatchPlan {
    pub(crate) fn search(&self) -> BatchSearch {
        BatchSearch { least: self.least, most: self.most, head_room: self.head_room }
    }

    /// The budget in bytes: as told, else what the machine or this process's control group has
    /// left.
    pub(crate) fn budget_bytes(&self) -> anyhow::Result<u64> {
        let told = self.budget_mib.map(|mib| mib.saturating_mul(1 << 20));
        told.or_else(|| updraft_device::memory().available_bytes).ok_or_else(|| {
            anyhow!("this system does not tell its memory; set `train.auto_batch.budget_mib`")
        })
    }

    /// The error of a search that found nothing.
    pub(crate) fn nothing_fits(&self, budget_bytes: u64) -> anyhow::Error {
        anyhow!(
            "a batch of {} does not fit into {} MiB; lower `train.auto_batch.least`, train a \
             smaller model, or set `train.recompute`",
            self.least,
            budget_bytes >> 20,
        )
    }
}

/// How many threads load data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WorkersPlan {
    /// As many as the measured cost of an item is worth.
    Auto,
    /// Exactly so many; none loads on the training thread.
    Count(usize),
}

impl Serialize for WorkersPlan {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match *self {
            Self::Auto => serializer.serialize_str("auto"),
            Self::Count(count) => serializer.serialize_u64(count as u64),
        }
    }
}

impl<'de> Deserialize<'de> for WorkersPlan {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match RawWorkers::deserialize(deserializer)? {
            RawWorkers::Count(count) => Ok(Self::Count(count)),
            RawWorkers::Named(name) if name == "auto" => Ok(Self::Auto),
            RawWorkers::Named(name) => {
                Err(serde::de::Error::custom(format!("expected `auto` or a number, got `{name}`")))
            }
        }
    }
}
