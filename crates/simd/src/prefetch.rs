//! Prefetching of memory.
#![cfg_attr(
    target_arch = "x86_64",
    expect(unsafe_code, reason = "an instruction without a safe function")
)]

/// Prefetches the cache line of an address, which may be invalid, without waiting.
///
/// Does nothing where Rust has no instruction for it.
#[inline(always)]
pub fn prefetch<T>(place: *const T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: SSE is part of x86-64, and a prefetch of any address only fills a cache.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(place.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = place;
}
