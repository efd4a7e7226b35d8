//! Without the feature `nvml`, nothing is known.

use crate::nvidia::NvidiaCard;

pub(crate) fn card(_address: &str) -> Option<NvidiaCard> {
    None
}
