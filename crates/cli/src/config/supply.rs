//! How images are kept between epochs, and what becomes of those that cannot be delivered.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use updraft_data::FaultPolicy;

use super::error::ConfigError;
use super::plan::value;

/// What is kept of the images once they are decoded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) enum CachePlan {
    // Not unit variants: serde would pass over keys beside their `kind`.
    /// All of them, in memory, before the first batch.
    Whole {},
    /// In memory as they are first read, while a budget lasts.
    Memory {
        #[serde(default = "default_budget_mib")]
        budget_mib: u64,
    },
    /// All of them, in files of this folder that later runs find again.
    File { folder: PathBuf },
    /// Nothing: each is read and decoded in every epoch.
    None {},
}

impl Default for CachePlan {
    fn default() -> Self {
        Self::Whole {}
    }
}

impl CachePlan {
    /// Whether every image is decoded before the first batch, by whoever raises faults.
    const fn decodes_first(&self) -> bool {
        matches!(self, Self::Whole {} | Self::File { .. })
    }
}

/// What becomes of an image that cannot be delivered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) enum FaultsPlan {
    /// It ends the run.
    Raise {},
    /// It is left out, up to so many in an epoch.
    Skip { at_most: u64 },
    /// It is left out too, and training writes it down.
    Quarantine { at_most: u64, file: PathBuf },
}

impl Default for FaultsPlan {
    fn default() -> Self {
        Self::Raise {}
    }
}

impl FaultsPlan {
    /// For training, which writes down what it left out.
    pub(crate) fn told(&self) -> FaultPolicy {
        match self {
            Self::Quarantine { at_most, file } => {
                FaultPolicy::Quarantine { at_most: *at_most, file: file.clone() }
            }
            Self::Raise {} | Self::Skip { .. } => self.quiet(),
        }
    }

    /// For whoever looks at the same images once more.
    pub(crate) const fn quiet(&self) -> FaultPolicy {
        match self {
            Self::Raise {} => FaultPolicy::Raise,
            Self::Skip { at_most } | Self::Quarantine { at_most, .. } => {
                FaultPolicy::Skip { at_most: *at_most }
            }
        }
    }
}

/// MiB of decoded images that are kept where nobody says how many.
const BUDGET_MIB: u64 = 1024;

fn default_budget_mib() -> u64 {
    BUDGET_MIB
}

/// The largest budget: no machine has that much memory, and its bytes are still counted.
const MOST_BUDGET_MIB: u64 = 1 << 24;

/// Decides both: a set with faults is not decoded before the first batch, because its faults would
/// end the run there.
pub(super) fn decide_supply(
    cache: Option<CachePlan>,
    faults: Option<FaultsPlan>,
) -> Result<(CachePlan, FaultsPlan), ConfigError> {
    let faults = faults.unwrap_or_default();
    let bears_faults = faults != FaultsPlan::Raise {};
    let cache = cache.unwrap_or_else(|| match bears_faults {
        true => CachePlan::Memory { budget_mib: BUDGET_MIB },
        false => CachePlan::default(),
    });
    if bears_faults && cache.decodes_first() {
        let given = "`skip` or `quarantine`".to_owned();
        return value(
            "data.faults",
            given,
            "only with `data.cache` memory or none: the others decode every image at once",
        );
    }
    if let FaultsPlan::Skip { at_most: 0 } | FaultsPlan::Quarantine { at_most: 0, .. } = faults {
        return value("data.faults", "0 for `at_most`".to_owned(), "at least 1, or kind `raise`");
    }
    if let CachePlan::Memory { budget_mib } = cache
        && !(1..=MOST_BUDGET_MIB).contains(&budget_mib)
    {
        let expected = format!("1 to {MOST_BUDGET_MIB}");
        return value("data.cache", format!("{budget_mib} for `budget_mib`"), &expected);
    }
    Ok((cache, faults))
}
