//! Without the feature `nvml`, there are no facts.

use super::{CardLoad, NvidiaCard};

pub(crate) fn card(_address: &str) -> Option<NvidiaCard> {
    None
}

pub(super) fn load(_address: &str) -> Option<CardLoad> {
    None
}
