//! Values of a plan that are a word or a number.

use serde::{Deserialize, Serialize};
use updraft_device::{Facts, MemoryOwner};
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
word_or_number!(ReadEveryPlan, Auto, "auto");
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
    /// The memory limit of a training step in MiB, of its process or of the GPU; by default,
    /// what the driver or the system reports as free.
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

    /// The budget in bytes: the given one, or the free memory of the device; of a device that
    /// computes in the machine's memory, what is available of the machine or of this process's
    /// control group. Never the machine's for a device with memory of its own.
    ///
    /// # Errors
    /// [`RunError::UnknownMemory`] if it is not known.
    pub fn budget_bytes(&self, device: Option<&Facts>) -> Result<u64, RunError> {
        if let Some(mib) = self.budget_mib {
            return Ok(mib.saturating_mul(1 << 20));
        }
        let of_machine = || updraft_device::memory().available_bytes;
        let free = match device {
            Some(facts) if facts.memory_owner == MemoryOwner::Device => facts.memory_free_bytes,
            Some(facts) => facts.memory_free_bytes.or_else(of_machine),
            None => of_machine(),
        };
        free.ok_or(RunError::UnknownMemory)
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

/// The number of updates that are read from the device together: `auto` or a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadEveryPlan {
    /// Chosen by the device, as [`Plan::read_every`](crate::Plan::read_every).
    Auto,
    /// This many, at least 1.
    Count(usize),
}

impl ReadEveryPlan {
    /// The number, or `standard` for `auto`.
    #[must_use]
    pub const fn updates_or(self, standard: u64) -> u64 {
        match self {
            Self::Auto => standard,
            Self::Count(updates) => updates as u64,
        }
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

#[cfg(test)]
mod tests {
    use updraft_device::{DeviceSpec, probe, select};

    use super::*;

    #[test]
    fn the_budget_is_of_the_memory_that_the_device_computes_in() {
        let auto = AutoBatchPlan::default();
        let processor = select(&DeviceSpec::Cpu, &probe()).expect("tests have flex");
        let machine = processor.facts.expect("a usable device has facts");
        let facts = |owner, free| {
            let mut facts = machine.clone();
            (facts.memory_owner, facts.memory_free_bytes) = (owner, free);
            facts
        };
        for owner in [MemoryOwner::Machine, MemoryOwner::Device] {
            let stated = facts(owner, Some(12_345));
            assert_eq!(auto.budget_bytes(Some(&stated)).expect("known"), 12_345);
        }
        // The machine's memory says nothing about a card's.
        let card = facts(MemoryOwner::Device, None);
        let error = auto.budget_bytes(Some(&card)).expect_err("not known").to_string();
        for key in ["`train.auto_batch.budget_mib`", "`--budget-mib`"] {
            assert!(error.contains(key), "{error}");
        }
        let given = AutoBatchPlan { budget_mib: Some(3), ..auto };
        assert_eq!(given.budget_bytes(Some(&card)).expect("given"), 3 << 20);
        if let Some(available) = updraft_device::memory().available_bytes {
            // Other processes change it between two looks.
            let processor = facts(MemoryOwner::Machine, None);
            let budgets = [auto.budget_bytes(Some(&processor)), auto.budget_bytes(None)];
            for budget in budgets.map(|budget| budget.expect("Linux reports it")) {
                assert!(budget > available / 4 && budget / 4 < available, "{budget}");
            }
        }
    }
}
