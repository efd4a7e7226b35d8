//! Memory of the operating system, by pages.
#![expect(unsafe_code, reason = "calls of the C library")]

use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Bytes of a page.
pub(crate) fn page() -> usize {
    static BYTES: AtomicUsize = AtomicUsize::new(0);
    let known = BYTES.load(Ordering::Relaxed);
    if known != 0 {
        return known;
    }
    // SAFETY: it reads a constant of the system.
    let bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    let bytes = usize::try_from(bytes).expect("a system has pages");
    BYTES.store(bytes, Ordering::Relaxed);
    bytes
}

/// New pages of zeros; null if the system has none.
pub(crate) fn map(bytes: usize) -> *mut u8 {
    let (access, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANON);
    // SAFETY: new pages are in no other use.
    or_null(unsafe { libc::mmap(ptr::null_mut(), bytes, access, kind, -1, 0) })
}

/// Returns pages to the system.
///
/// # Safety
/// All of them come from [`map`] or [`grow`], and are not used any more.
pub(crate) unsafe fn unmap(start: *mut u8, bytes: usize) {
    // It fails if the process has too many mappings; the pages are then lost, and nothing else.
    // SAFETY: the caller promises that nothing uses them.
    let _ = unsafe { libc::munmap(start.cast(), bytes) };
}

/// Moves pages to where more pages follow, without copying; null if the system cannot.
///
/// # Safety
/// As [`unmap`], but the pages are used through the result only.
pub(crate) unsafe fn grow(start: *mut u8, from: usize, to: usize) -> *mut u8 {
    #[cfg(target_os = "linux")]
    {
        // SAFETY: the caller promises that the pages are used through the result only.
        or_null(unsafe { libc::mremap(start.cast(), from, to, libc::MREMAP_MAYMOVE) })
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = (start, from, to);
        ptr::null_mut()
    }
}

/// Moves pages to the place of others, which are dropped, without copying; false if the system cannot.
///
/// # Safety
/// As [`unmap`] for the pages at `to`; those at `from` are used at `to` only.
pub(crate) unsafe fn replace(from: *mut u8, to: *mut u8, bytes: usize) -> bool {
    #[cfg(target_os = "linux")]
    {
        let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
        // SAFETY: the caller promises that nothing uses the pages that are replaced.
        !or_null(unsafe { libc::mremap(from.cast(), bytes, bytes, flags, to) }).is_null()
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = (from, to, bytes);
        false
    }
}

fn or_null(result: *mut libc::c_void) -> *mut u8 {
    if result == libc::MAP_FAILED { ptr::null_mut() } else { result.cast() }
}
