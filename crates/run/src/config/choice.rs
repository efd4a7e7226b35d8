//! Values of a plan that are a word or a number.

use serde::{Deserialize, Serialize};
use updraft_device::Facts;
use updraft_trainer::BatchSearch;

use crate::error::RunError;

/// A number, or a word.
#[derive(Deserialize)]
#[serde(untagged)]
enum NumberOrWord {
    Number(usize),
    Word(String),
}

/// Serializes an enum as a number for its `Count` variant, or as a word.
macro_rules! word_or_number {
    ($type:ident, $variant:ident, $word:literal) => {
        impl Serialize for $type {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                match *self {
                    Self::$variant => serializer.serialize_str($word),
                    Self::Count(count) => serializer.serialize_u64(count as u64),
                }
            }
        }

        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                match NumberOrWord::deserialize(deserializer)? {
                    NumberOrWord::Number(count) => Ok(Self::Count(count)),
                    NumberOrWord::Word(word) if word == $word => Ok(Self::$variant),
                    NumberOrWord::Word(_) => {
                        let expected = concat!("expected `", $word, "` or a number");
                        Err(serde::de::Error::custom(expected))
                    }
                }
            }
        }
    };
}

word_or_number!(BatchesPlan, All, "all");
word_or_number!(BatchPlan, Auto, "auto");
word_or_number!(WorkersPlan, Auto, "auto");

/// The number of batches of an epoch from which statistics are computed: `all` or a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BatchesPlan {
    /// From all of them.
    All,
    /// From this many batches, the first ones.
    Count(usize),
}

/// How a training step gets the activations of its forward pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RecomputePlan {
    /// It keeps them.
    #[default]
    None,
    /// Element-wise operations are recomputed in the backward pass: burn's own strategy.
    ElementWise,
    /// The inputs of the network's segments are kept, and the rest is recomputed.
    Segments,
}

/// The number of samples of a batch: `auto` or a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BatchPlan {
    /// The largest whose step fits into memory, by an [`AutoBatchPlan`].
    Auto,
    /// This many.
    Count(usize),
}

impl BatchPlan {
    /// The number, if it is one.
    pub(super) const fn count(self) -> Option<usize> {
        match self {
            Self::Auto => None,
            Self::Count(count) => Some(count),
        }
    }
}

/// The search for the largest batch that fits into memory.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AutoBatchPlan {
    /// The smallest batch to try, in samples.
    pub least: usize,
    /// The largest batch to try, in samples.
    pub most: usize,
    /// The fraction of the largest fitting batch that is left free.
    pub head_room: f64,
    /// The memory limit of a training step's process in MiB; by default, the available memory that
    /// the system reports.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub budget_mib: Option<u64>,
}

impl Default for AutoBatchPlan {
    fn default() -> Self {
        // Batch norms need two images; larger batches than a few thousand do not help.
        Self { least: 2, most: 4096, head_room: 0.1, budget_mib: None }
    }
}

impl AutoBatchPlan {
    /// The search that these numbers describe.
    #[must_use]
    pub fn search(&self) -> BatchSearch {
        BatchSearch { least: self.least, most: self.most, head_room: self.head_room }
    }

    /// The budget in bytes: the given one, or the free memory of the device, or, if the device does
    /// not report that, what is available of the machine or of this process's control group.
    ///
    /// # Errors
    /// [`RunError::UnknownMemory`] if none is known.
    pub fn budget_bytes(&self, device: Option<&Facts>) -> Result<u64, RunError> {
        let given = self.budget_mib.map(|mib| mib.saturating_mul(1 << 20));
        given
            .or_else(|| device.and_then(|facts| facts.memory_free_bytes))
            .or_else(|| updraft_device::memory().available_bytes)
            .ok_or(RunError::UnknownMemory)
    }
}

/// Training and test data that stay on the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ResidentPlan {
    /// The most that they may take there, in MiB.
    pub budget_mib: u64,
}

impl Default for ResidentPlan {
    fn default() -> Self {
        Self { budget_mib: 1024 }
    }
}

/// How many threads load data: `auto` or a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorkersPlan {
    /// Chosen by the measured cost of loading a sample.
    Auto,
    /// This many; with 0, data is loaded on the training thread.
    Count(usize),
}

impl From<WorkersPlan> for updraft_data::Workers {
    fn from(plan: WorkersPlan) -> Self {
        match plan {
            WorkersPlan::Auto => Self::Auto,
            WorkersPlan::Count(count) => Self::Count(count),
        }
    }
}
