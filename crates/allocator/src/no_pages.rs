//! Systems without `mmap`: every block is the system allocator's.
#![expect(unsafe_code, reason = "the functions of `pages.rs`")]

use std::ptr;

/// No alignment is as small, so that no request gets pages.
pub(crate) fn page() -> usize {
    0
}

pub(crate) fn map(_bytes: usize) -> *mut u8 {
    ptr::null_mut()
}

pub(crate) unsafe fn unmap(_start: *mut u8, _bytes: usize) {}

pub(crate) unsafe fn grow(_start: *mut u8, _from: usize, _to: usize) -> *mut u8 {
    ptr::null_mut()
}

pub(crate) unsafe fn replace(_from: *mut u8, _to: *mut u8, _bytes: usize) -> bool {
    false
}

pub(crate) fn can_move() -> bool {
    false
}
