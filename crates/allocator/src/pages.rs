//! Memory of the operating system, by pages.
#![expect(unsafe_code, reason = "calls of the C library")]

use std::ptr;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};

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

/// Returns pages to the system; none are allowed.
///
/// # Safety
/// All of them come from [`map`] or [`grow`], and are not used any more.
pub(crate) unsafe fn unmap(start: *mut u8, bytes: usize) {
    if bytes == 0 {
        return;
    }
    // SAFETY: the caller promises that nothing uses the pages.
    if unsafe { libc::munmap(start.cast(), bytes) } != 0 {
        // The process has too many mappings: the addresses stay taken, the memory goes back.
        // SAFETY: as above.
        let _ = unsafe { libc::madvise(start.cast(), bytes, libc::MADV_DONTNEED) };
    }
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

/// Moves pages to the place of others, which are dropped, without copying; false if the system cannot:
/// which pages are where is then unknown, and [`can_move`] is false from then on.
///
/// # Safety
/// As [`unmap`] for the pages at `to`; those at `from` are used at `to` only, and neither after a
/// failure.
pub(crate) unsafe fn replace(from: *mut u8, to: *mut u8, bytes: usize) -> bool {
    // SAFETY: as the caller promises.
    let is_moved = unsafe { moved(from, to, bytes) };
    if !is_moved {
        MOVES.store(NO, Ordering::Relaxed);
    }
    is_moved
}

/// Whether this system moves pages from several mappings at once: Linux since 6.17.
///
/// A range of free memory consists of pieces that were mapped at different times. Earlier systems
/// refuse to move it when they have dropped the pages in its place already.
pub(crate) fn can_move() -> bool {
    match MOVES.load(Ordering::Relaxed) {
        UNKNOWN => {
            let answer = if moves_two_mappings() { YES } else { NO };
            MOVES.store(answer, Ordering::Relaxed);
            answer == YES
        }
        answer => answer == YES,
    }
}

/// An answer of [`can_move`].
static MOVES: AtomicU8 = AtomicU8::new(UNKNOWN);
const UNKNOWN: u8 = 0;
const YES: u8 = 1;
const NO: u8 = 2;

/// Moves two pages, of which the second is mapped anew, to the place of two others.
fn moves_two_mappings() -> bool {
    let bytes = page();
    let (from, to) = (map(2 * bytes), map(2 * bytes));
    if from.is_null() || to.is_null() {
        return false;
    }
    let access = libc::PROT_READ | libc::PROT_WRITE;
    let kind = libc::MAP_SHARED | libc::MAP_ANON | libc::MAP_FIXED;
    // SAFETY: the second page was mapped above, and nothing uses it; being shared, it is not joined
    // with the first.
    let second =
        or_null(unsafe { libc::mmap(from.wrapping_add(bytes).cast(), bytes, access, kind, -1, 0) });
    if second.is_null() {
        return false;
    }
    // SAFETY: nothing uses either.
    let is_moved = unsafe { moved(from, to, 2 * bytes) };
    if is_moved {
        // SAFETY: nothing uses them at their new place.
        unsafe { unmap(to, 2 * bytes) };
    }
    // After a failure the four pages are left alone, because other threads may have their addresses.
    is_moved
}

/// # Safety
/// As [`replace`].
unsafe fn moved(from: *mut u8, to: *mut u8, bytes: usize) -> bool {
    #[cfg(target_os = "linux")]
    {
        let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
        // SAFETY: as the caller promises.
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
