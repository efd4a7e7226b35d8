//! The cache of images between epochs, and the policy for images that cannot be delivered.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use updraft_data::FaultPolicy;

use crate::config::{ConfigError, Edit, Key, Settings};

pub(super) const CACHE: Key<CachePlan> = Key::new(
    "data.cache",
    "the cache of decoded images: all of them before the first batch, or `memory` with `budget_mib` (1024) when first read, `file` with `folder` for later runs, `none`",
)
.depends("`whole`; `memory` where `data.faults` skips or quarantines, or where whole pictures are cropped")
.edit(Edit::Free)
.performance();
pub(super) const FAULTS: Key<FaultsPlan> = Key::new(
    "data.faults",
    "or `skip` with at most `at_most` images per epoch, or `quarantine`, which also records them in `file`; both need `data.cache` `memory` or `none`",
)
.default(r#"{ kind = "raise" }"#).edit(Edit::Reported);

/// The cache of decoded images.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub(super) enum CachePlan {
    // Not unit variants: serde would ignore keys next to their `kind`.
    /// All images, in memory, before the first batch.
    Whole {},
    /// In memory when first read, up to a budget.
    Memory {
        #[serde(default = "default_budget_mib")]
        budget_mib: u64,
    },
    /// All images, in files in this folder that later runs reuse.
    File { folder: PathBuf },
    /// None: each image is read and decoded in every epoch.
    None {},
}

impl CachePlan {
    /// Whether every image is decoded before the first batch, so that each fault is an error.
    const fn decodes_first(&self) -> bool {
        matches!(self, Self::Whole {} | Self::File { .. })
    }
}

/// The policy for an image that cannot be delivered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub(super) enum FaultsPlan {
    /// It ends the run.
    Raise {},
    /// It is skipped, up to a number per epoch.
    Skip { at_most: u64 },
    /// It is also skipped, and training records it.
    Quarantine { at_most: u64, file: PathBuf },
}

impl FaultsPlan {
    /// For training, which records skipped images.
    pub(super) fn of_training(&self) -> FaultPolicy {
        match self {
            Self::Quarantine { at_most, file } => {
                FaultPolicy::Quarantine { at_most: *at_most, file: file.clone() }
            }
            Self::Raise {} | Self::Skip { .. } => self.of_reading(),
        }
    }

    /// For another pass over the same images.
    pub(super) const fn of_reading(&self) -> FaultPolicy {
        match self {
            Self::Raise {} => FaultPolicy::Raise,
            Self::Skip { at_most } | Self::Quarantine { at_most, .. } => {
                FaultPolicy::Skip { at_most: *at_most }
            }
        }
    }
}

/// The default budget of decoded images in MiB.
const BUDGET_MIB: u64 = 1024;

fn default_budget_mib() -> u64 {
    BUDGET_MIB
}

/// The largest budget: no machine has that much memory, and its bytes do not overflow.
const MOST_BUDGET_MIB: u64 = 1 << 24;

/// Reads both keys: a set with faults is not decoded before the first batch, because a fault would
/// end the run there. Neither is one of which random parts of whole pictures are taken, because
/// caches of all images have one size.
pub(super) fn read_cache_and_faults(
    settings: &Settings,
    crops_pictures: bool,
) -> Result<(CachePlan, FaultsPlan), ConfigError> {
    let faults = settings.value(&FAULTS)?;
    let tolerates_faults = faults != FaultsPlan::Raise {};
    let cache = settings.value_or(&CACHE, || match tolerates_faults || crops_pictures {
        true => CachePlan::Memory { budget_mib: BUDGET_MIB },
        false => CachePlan::Whole {},
    })?;
    if tolerates_faults && cache.decodes_first() {
        let expected = "`raise` beside this `data.cache`, which decodes every image at once; \
                        or set `data.cache` to `memory` or `none`";
        return Err(settings.refuse_given("data.faults.kind", expected));
    }
    if crops_pictures && cache.decodes_first() {
        let expected = "`memory` or `none` with `augment.random_resized_crop` of whole pictures, \
                        which have many sizes; or set `data.resize.kind` to `stretch`";
        return Err(settings.refuse_given("data.cache.kind", expected));
    }
    if let FaultsPlan::Skip { at_most: 0 } | FaultsPlan::Quarantine { at_most: 0, .. } = faults {
        return Err(settings.refuse("data.faults.at_most", 0, "at least 1"));
    }
    if let CachePlan::Memory { budget_mib } = cache
        && !(1..=MOST_BUDGET_MIB).contains(&budget_mib)
    {
        let expected = format!("1 to {MOST_BUDGET_MIB}");
        return Err(settings.refuse("data.cache.budget_mib", budget_mib, expected));
    }
    Ok((cache, faults))
}
