//! The position in a stream of batches.

use serde::{Deserialize, Serialize};

use crate::stream::{LastBatch, Order};

/// The position in a stream of batches, with every setting that the stream depends on: enough to
/// resume exactly, and to refuse another stream with an error that names the difference.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LoaderState {
    /// The epoch.
    pub epoch: u64,
    /// Samples of the epoch that were delivered or skipped.
    pub position: u64,
    /// How many of them were skipped as faulty.
    pub skipped: u64,
    /// The seed of order and augmentation.
    pub seed: u64,
    /// Samples in a batch.
    pub batch: u64,
    /// The order of the samples.
    pub order: Order,
    /// What to do with an incomplete last batch.
    pub last: LastBatch,
    /// Samples in the set.
    pub samples: u64,
    /// SHA-256 of the set: [`Collate::fingerprint`](crate::Collate::fingerprint).
    pub source: String,
    /// SHA-256 of the per-sample settings:
    /// [`Collate::settings_fingerprint`](crate::Collate::settings_fingerprint).
    pub settings: String,
}
