//! Asking for memory before it is read.

use updraft_simd::CACHE_LINE_BYTES;

/// How much of a sample is asked for: after that the processor has seen where it leads.
const MOST_BYTES: usize = 2048;

/// Asks for the beginning of `values`; nothing waits for it.
pub(crate) fn prefetch<T>(values: &[T]) {
    let line = (CACHE_LINE_BYTES / size_of::<T>().max(1)).max(1);
    for value in values.iter().step_by(line).take(MOST_BYTES / CACHE_LINE_BYTES) {
        updraft_simd::prefetch(value);
    }
}
