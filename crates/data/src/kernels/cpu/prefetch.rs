//! Prefetching.

use updraft_simd::CACHE_LINE_BYTES;

/// How much of a sample is prefetched: after that the hardware prefetcher takes over.
const MOST_BYTES: usize = 2048;

/// Prefetches the beginning of `values`; does not block.
pub(crate) fn prefetch<T>(values: &[T]) {
    let line = (CACHE_LINE_BYTES / size_of::<T>().max(1)).max(1);
    for value in values.iter().step_by(line).take(MOST_BYTES / CACHE_LINE_BYTES) {
        updraft_simd::prefetch(value);
    }
}
