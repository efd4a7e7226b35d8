//! Without the feature `nvml`, there are no facts.

use crate::nvidia::NvidiaCard;

pub(crate) fn card(_address: &str) -> Option<NvidiaCard> {
    None
}
