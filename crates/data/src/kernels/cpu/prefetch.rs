//! Asking for memory before it is read.
#![cfg_attr(
    target_arch = "x86_64",
    expect(unsafe_code, reason = "an instruction without a safe function")
)]

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};

/// How much of a sample is asked for: after that the processor has seen where it leads.
const MOST_BYTES: usize = 2048;

/// The bytes that memory hands over at once.
const LINE_BYTES: usize = 64;

/// Asks for the beginning of `values`; nothing waits for it.
pub(crate) fn prefetch<T>(values: &[T]) {
    let line = (LINE_BYTES / size_of::<T>().max(1)).max(1);
    for value in values.iter().step_by(line).take(MOST_BYTES / LINE_BYTES) {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: SSE is part of x86-64, and the pointer comes of a reference.
        unsafe {
            _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(value).cast());
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = value;
    }
}
