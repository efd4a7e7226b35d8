//! Whether burn's operations update every parameter.

use std::sync::atomic::{AtomicBool, Ordering};

static PREFERS_PLAIN: AtomicBool = AtomicBool::new(false);

/// Lets burn's operations update all parameters in this process, to compare our kernels with them.
pub fn make_plain_default() {
    PREFERS_PLAIN.store(true, Ordering::Relaxed);
}

pub(crate) fn is_default() -> bool {
    PREFERS_PLAIN.load(Ordering::Relaxed)
}
