//! Where a stream of batches is.

use serde::{Deserialize, Serialize};

use crate::stream::{LastBatch, Order};

/// Where a stream of batches is: enough to deliver exactly the rest of it later, and every setting
/// that the stream depends on, so that another one is refused by name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LoaderState {
    /// The epoch.
    pub epoch: u64,
    /// Samples of the epoch that were delivered or left out.
    pub position: u64,
    /// How many of them were left out as faulty.
    pub skipped: u64,
    /// The seed of order and augmentation.
    pub seed: u64,
    /// Samples in a batch.
    pub batch: u64,
    /// The order of the samples.
    pub order: Order,
    /// What becomes of an incomplete last batch.
    pub last: LastBatch,
    /// Samples in the set.
    pub samples: u64,
    /// SHA-256 of the set: [`Collate::fingerprint`](crate::Collate::fingerprint).
    pub source: String,
    /// SHA-256 of what is done to each sample:
    /// [`Collate::settings_fingerprint`](crate::Collate::settings_fingerprint).
    pub settings: String,
}
