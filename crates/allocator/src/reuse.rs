//! The allocator that keeps large blocks.
#![expect(unsafe_code, reason = "the trait of allocators is unsafe; blocks are the system's")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::ptr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::blocks::{Block, Blocks};
use crate::mapping::map_large_blocks;

/// The smallest block that is kept, in bytes: the system's allocators keep smaller ones themselves.
const LEAST: usize = 1 << 16;

/// Large blocks have a multiple of this size, a page of most systems.
const PAGE: usize = 1 << 12;

/// The system's allocator, which keeps large blocks that were freed for later ones of the same size.
///
/// Every training step allocates tensors of the same sizes. The system's allocator returns large
/// blocks to the operating system, which clears each page when it is used again: for convolutions of
/// volumes that took as long as the convolution.
///
/// Used and kept blocks together are never more than used blocks alone have been; memory that was
/// allocated and never touched counts as used. A block that no request takes for a long time goes back to the system.
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
#[derive(Debug)]
pub struct ReuseBlocks {
    blocks: Mutex<Blocks>,
}

impl ReuseBlocks {
    /// An allocator that keeps nothing yet.
    #[must_use]
    pub const fn new() -> Self {
        Self { blocks: Mutex::new(Blocks::new()) }
    }

    /// Bytes of freed blocks that are kept.
    #[must_use]
    pub fn kept_bytes(&self) -> usize {
        self.locked().kept_bytes()
    }

    /// Returns all kept blocks to the system.
    pub fn release(&self) {
        self.free_while(Blocks::first);
    }

    /// The list, which is whole after a panic of another thread, too.
    fn locked(&self) -> MutexGuard<'_, Blocks> {
        self.blocks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns blocks to the system until there is none to return; the list is not locked meanwhile.
    fn free_while(&self, next: impl Fn(&mut Blocks) -> Option<Block>) {
        loop {
            let Some(block) = next(&mut self.locked()) else { return };
            if let Ok(layout) = Layout::from_size_align(block.bytes, block.align) {
                // SAFETY: a kept block comes from `System` with this layout, and is in no other list.
                unsafe { System.dealloc(ptr::with_exposed_provenance_mut(block.start), layout) };
            }
        }
    }

    /// A block of a large layout, with unspecified contents if the first result is true.
    fn take(&self, layout: Layout, from_system: impl Fn() -> *mut u8) -> (bool, *mut u8) {
        let kept = self.locked().take(layout.size(), layout.align());
        if let Some(start) = kept {
            return (true, ptr::with_exposed_provenance_mut(start));
        }
        self.free_while(Blocks::surplus);
        map_large_blocks();
        let mut start = from_system();
        if start.is_null() {
            self.release();
            start = from_system();
        }
        if start.is_null() {
            self.locked().resize(layout.size(), 0);
        }
        (false, start)
    }
}

impl Default for ReuseBlocks {
    fn default() -> Self {
        Self::new()
    }
}

/// The layout of the block for a large request: whole pages. `None` for a small one.
fn block(layout: Layout) -> Option<Layout> {
    if layout.size() < LEAST {
        return None;
    }
    let bytes = layout.size().checked_next_multiple_of(PAGE)?;
    Layout::from_size_align(bytes, layout.align()).ok()
}

// SAFETY: small requests are the system's. A large one gets a block of the system's of at least its
// size and of its alignment, which is not used elsewhere; it is kept, and later freed, with its own layout.
unsafe impl GlobalAlloc for ReuseBlocks {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let Some(block) = block(layout) else {
            // SAFETY: the caller promises what `System` asks for.
            return unsafe { System.alloc(layout) };
        };
        // SAFETY: a large layout is not of size zero.
        self.take(block, || unsafe { System.alloc(block) }).1
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        let Some(block) = block(layout) else {
            // SAFETY: the caller promises what `System` asks for.
            return unsafe { System.alloc_zeroed(layout) };
        };
        // SAFETY: a large layout is not of size zero.
        let (is_kept, start) = self.take(block, || unsafe { System.alloc_zeroed(block) });
        if is_kept {
            // SAFETY: the block has at least this size.
            unsafe { ptr::write_bytes(start, 0, layout.size()) };
        }
        start
    }

    unsafe fn dealloc(&self, start: *mut u8, layout: Layout) {
        let Some(block) = block(layout) else {
            // SAFETY: a small block comes from `System`, with this layout.
            return unsafe { System.dealloc(start, layout) };
        };
        let is_kept = self.locked().put(start.expose_provenance(), block.size(), block.align());
        if !is_kept {
            // SAFETY: a large block comes from `System` with the layout of its block.
            unsafe { System.dealloc(start, block) };
        }
        self.free_while(Blocks::surplus);
    }

    unsafe fn realloc(&self, start: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        let Ok(wished) = Layout::from_size_align(bytes, layout.align()) else {
            return ptr::null_mut();
        };
        match (block(layout), block(wished)) {
            // SAFETY: a small block comes from `System`, and the caller promises the rest.
            (None, None) => unsafe { System.realloc(start, layout, bytes) },
            (Some(from), Some(to)) if from == to => start,
            (Some(from), Some(to)) => {
                self.locked().resize(from.size(), to.size());
                self.free_while(Blocks::surplus);
                // SAFETY: a large block comes from `System` with the layout of its block.
                let moved = unsafe { System.realloc(start, from, to.size()) };
                if moved.is_null() {
                    self.locked().resize(to.size(), from.size());
                }
                moved
            }
            _ => {
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
    }
}
