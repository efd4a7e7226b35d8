//! Values of a plan that are a word or a number.

use serde::{Deserialize, Serialize};

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
