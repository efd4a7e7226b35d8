//! The report that a layer is computed by burn's own operations.

use super::reason::PlainReason;

/// Reports why burn's operations compute a layer, once for each reason in this process: a warning
/// with the feature `tracing`.
///
/// What was chosen is not reported, and neither are devices without kernels, of which some compute
/// nothing, such as those that record a network.
pub(super) fn report(reason: PlainReason) {
    #[cfg(feature = "tracing")]
    enabled::report(reason);
    #[cfg(not(feature = "tracing"))]
    let _ = reason;
}

#[cfg(feature = "tracing")]
mod enabled {
    use std::collections::HashSet;
    use std::sync::{LazyLock, Mutex, PoisonError};

    use super::PlainReason;

    /// What was reported.
    static REPORTED: LazyLock<Mutex<HashSet<PlainReason>>> = LazyLock::new(Mutex::default);

    pub(super) fn report(reason: PlainReason) {
        if matches!(reason, PlainReason::Forced | PlainReason::Backend) {
            return;
        }
        let is_new = REPORTED.lock().unwrap_or_else(PoisonError::into_inner).insert(reason);
        if is_new {
            tracing::warn!("burn's operations compute a KAN layer, in more memory: {reason}");
        }
    }
}
