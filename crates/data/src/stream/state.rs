//! Where a stream of batches is.

use serde::{Deserialize, Serialize};

/// Where a stream of batches is: enough to deliver exactly the rest of it later.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LoaderState {
    /// The seed of order and augmentation.
    pub seed: u64,
    /// The epoch.
    pub epoch: u64,
    /// Samples of the epoch that were delivered or left out.
    pub position: u64,
    /// How many of them were left out as faulty.
    #[serde(default)]
    pub skipped: u64,
    /// SHA-256 of the source's fingerprint and of every setting that the batches depend on.
    pub config: String,
}
