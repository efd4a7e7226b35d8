//! The allocator that keeps large blocks.
#![expect(
    unsafe_code,
    reason = "the trait of allocators is unsafe, and its blocks are the system's"
)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::fmt;
use std::ptr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::pages::{can_move, grow, map, page, replace, unmap};
use crate::ranges::{Range, Ranges};

/// The smallest block that is kept, in bytes: the system's allocators keep smaller ones themselves.
const LEAST: usize = 1 << 16;

/// An allocator that keeps the memory of large blocks that were freed for later ones.
///
/// Every training step allocates tensors of the same sizes. The system's allocator returns large
/// blocks to the operating system, which clears each page when it is used again: for convolutions of
/// volumes that took as long as the convolution.
///
/// Blocks of 64 KiB and more are cut from free memory, and are joined with free memory next to them
/// when they are freed. Used blocks and free memory together are never more than used blocks alone have
/// been; memory that was allocated and never touched counts as used. Free memory that no request takes
/// for a long time goes back to the system. Smaller blocks are the system's.
///
/// # Example
/// ```
/// use updraft_allocator::ReuseBlocks;
///
/// #[global_allocator]
/// static MEMORY: ReuseBlocks = ReuseBlocks::new();
///
/// let first = vec![1.0_f32; 1 << 20];
/// let start = first.as_ptr();
/// drop(first);
/// assert_eq!(MEMORY.kept_bytes(), 4 << 20);
/// assert_eq!(vec![2.0_f32; 1 << 20].as_ptr(), start);
/// MEMORY.release();
/// assert_eq!(MEMORY.kept_bytes(), 0);
/// ```
pub struct ReuseBlocks {
    ranges: Mutex<Ranges>,
}

impl ReuseBlocks {
    /// An allocator that keeps nothing yet.
    #[must_use]
    pub const fn new() -> Self {
        Self { ranges: Mutex::new(Ranges::new()) }
    }

    /// Bytes of freed blocks that are kept.
    #[must_use]
    pub fn kept_bytes(&self) -> usize {
        self.locked().free_bytes()
    }

    /// Returns all kept memory to the system.
    pub fn release(&self) {
        self.return_while(Ranges::any);
    }

    /// The list, which is whole after a panic of another thread, too.
    fn locked(&self) -> MutexGuard<'_, Ranges> {
        self.ranges.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns memory to the system until there is none to return; the list is not locked meanwhile.
    fn return_while(&self, next: impl Fn(&mut Ranges) -> Option<Range>) {
        loop {
            let Some(range) = next(&mut self.locked()) else { return };
            // SAFETY: free memory comes from `map` or `grow`, and a range is in one list only.
            unsafe { unmap(ptr::with_exposed_provenance_mut(range.start), range.bytes) };
        }
    }

    /// A block of whole pages, and how many of its first bytes have unspecified contents; the others
    /// are zeros.
    fn take(&self, bytes: usize) -> (usize, *mut u8) {
        let kept = self.locked().take(bytes);
        if let Some(start) = kept {
            return (bytes, ptr::with_exposed_provenance_mut(start));
        }
        let mut start = map(bytes);
        if start.is_null() {
            self.release();
            start = map(bytes);
        }
        if start.is_null() {
            return (0, start);
        }
        let filled = self.fill(start, bytes);
        if filled.is_none() {
            start = map(bytes);
        }
        if !start.is_null() {
            self.locked().count_used(bytes);
        }
        (filled.unwrap_or(0), start)
    }

    /// Moves memory that has to go back to the system into a new block instead, whose first pages need
    /// not be cleared then; returns how many bytes. `None` if that failed, and there is no block.
    fn fill(&self, block: *mut u8, bytes: usize) -> Option<usize> {
        let mut filled = 0;
        loop {
            let surplus = self.locked().surplus(bytes);
            let Some(range) = surplus else { return Some(filled) };
            let start: *mut u8 = ptr::with_exposed_provenance_mut(range.start);
            let fits = if can_move() { range.bytes.min(bytes - filled) } else { 0 };
            if fits < range.bytes {
                // SAFETY: nothing uses the memory of the range.
                unsafe { unmap(start.wrapping_add(fits), range.bytes - fits) };
            }
            if fits == 0 {
                continue;
            }
            // SAFETY: the block has room for it, and nothing uses the memory of either.
            if unsafe { replace(start, block.wrapping_add(filled), fits) } {
                self.locked().count_move();
                filled += fits;
                continue;
            }
            // Other threads may have the addresses of both pieces by now: they are left alone.
            let end = filled + fits;
            // SAFETY: nothing uses the pages before the piece.
            unsafe { unmap(block, filled) };
            // SAFETY: nothing uses those behind it.
            unsafe { unmap(block.wrapping_add(end), bytes - end) };
            return None;
        }
    }

    /// Keeps the memory of a block, or a part of it.
    ///
    /// # Safety
    /// It comes from [`Self::take`] or [`grow`] and is not used any more.
    unsafe fn put(&self, start: *mut u8, bytes: usize) {
        let is_kept = self.locked().put(start.expose_provenance(), bytes);
        if !is_kept {
            // SAFETY: as the caller promises.
            unsafe { unmap(start, bytes) };
        }
        self.return_while(|ranges| ranges.surplus(0));
    }

    /// The same contents in a larger block, without copying; null if that is not possible, with the
    /// block as it was.
    ///
    /// # Safety
    /// As [`Self::put`], but the contents are used through the result.
    unsafe fn grown(&self, start: *mut u8, from: usize, to: usize) -> *mut u8 {
        let address = start.expose_provenance();
        if self.locked().extend(address + from, to - from) {
            return ptr::with_exposed_provenance_mut(address);
        }
        self.return_while(|ranges| ranges.surplus(to - from));
        // SAFETY: as the caller promises.
        let moved = unsafe { grow(start, from, to) };
        if !moved.is_null() {
            self.locked().count_used(to - from);
        }
        moved
    }
}

/// Without the list, which would be printed while it is locked: the text needs memory.
impl fmt::Debug for ReuseBlocks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kept_bytes = self.kept_bytes();
        f.debug_struct("ReuseBlocks").field("kept_bytes", &kept_bytes).finish_non_exhaustive()
    }
}

impl Default for ReuseBlocks {
    fn default() -> Self {
        Self::new()
    }
}

/// The bytes of the block for a large request: whole pages. `None` for a request of the system's.
fn block(layout: Layout) -> Option<usize> {
    if layout.size() < LEAST || layout.align() > page() {
        return None;
    }
    layout.size().checked_next_multiple_of(page())
}

// SAFETY: small requests, and those of a larger alignment than a page, are the system's. Another one gets
// whole pages of at least its size, which no other block has.
unsafe impl GlobalAlloc for ReuseBlocks {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        match block(layout) {
            Some(bytes) => self.take(bytes).1,
            // SAFETY: the caller promises what `System` asks for.
            None => unsafe { System.alloc(layout) },
        }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        let Some(bytes) = block(layout) else {
            // SAFETY: the caller promises what `System` asks for.
            return unsafe { System.alloc_zeroed(layout) };
        };
        let (unspecified, start) = self.take(bytes);
        // SAFETY: the block has at least so many bytes.
        unsafe { ptr::write_bytes(start, 0, unspecified.min(layout.size())) };
        start
    }

    unsafe fn dealloc(&self, start: *mut u8, layout: Layout) {
        match block(layout) {
            // SAFETY: the block comes from `take` or `grown`, and the caller does not use it any more.
            Some(bytes) => unsafe { self.put(start, bytes) },
            // SAFETY: the block comes from `System`, with this layout.
            None => unsafe { System.dealloc(start, layout) },
        }
    }

    unsafe fn realloc(&self, start: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        let Ok(wished) = Layout::from_size_align(bytes, layout.align()) else {
            return ptr::null_mut();
        };
        match (block(layout), block(wished)) {
            // SAFETY: the block comes from `System`, and the caller promises the rest.
            (None, None) => return unsafe { System.realloc(start, layout, bytes) },
            (Some(from), Some(to)) if from == to => return start,
            (Some(from), Some(to)) if from > to => {
                // SAFETY: the block has these pages, and the caller uses the first `to` bytes only.
                unsafe { self.put(start.wrapping_add(to), from - to) };
                return start;
            }
            (Some(from), Some(to)) => {
                // SAFETY: the caller uses the contents through the result.
                let grown = unsafe { self.grown(start, from, to) };
                if !grown.is_null() {
                    return grown;
                }
            }
            _ => {}
        }
        // SAFETY: the caller promises that the size is not zero.
        let moved = unsafe { self.alloc(wished) };
        if !moved.is_null() {
            // SAFETY: both have at least this size, and the new one overlaps no other.
            unsafe { ptr::copy_nonoverlapping(start, moved, layout.size().min(bytes)) };
            // SAFETY: the caller gave the block back with its layout.
            unsafe { self.dealloc(start, layout) };
        }
        moved
    }
}
