//! The division of a parameter among threads.

use updraft_simd::pool_threads;

/// Numbers of a piece: four slices of it fit the first-level cache, and a piece takes longer than
/// waking up a thread.
pub(super) const PIECE: usize = 16 << 10;

/// The states of as many threads as there are pieces for.
pub(super) fn states(len: usize) -> Vec<()> {
    vec![(); pool_threads().min(len.div_ceil(PIECE)).max(1)]
}
