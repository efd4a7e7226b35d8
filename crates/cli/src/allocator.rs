//! An allocator that ends the program with an error if the system has no memory left.
#![expect(unsafe_code, reason = "the trait of allocators is unsafe; each method is another's")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::io::Write;
use std::sync::RwLock;

/// The allocator of a program: without memory it prints an error with advice and exits.
///
/// By default Rust aborts, which writes a core dump and looks like a bug of the program.
/// `Vec::try_reserve` never returns an error with this allocator: use it in programs, not in
/// libraries.
///
/// # Example
/// ```
/// use updraft::EndWithoutMemory;
/// use updraft_allocator::ReuseBlocks;
///
/// #[global_allocator]
/// static MEMORY: EndWithoutMemory<ReuseBlocks> =
///     EndWithoutMemory::new(ReuseBlocks::new(), "make the batch smaller");
///
/// assert_eq!(vec![1; 100].len(), 100);
/// ```
#[derive(Debug)]
pub struct EndWithoutMemory<A = System> {
    memory: A,
    advice: &'static str,
}

/// The advice of the command that runs, in place of the program's.
static OF_COMMAND: RwLock<Option<&str>> = RwLock::new(None);

/// Sets the advice of the command that runs; `None` for the program's.
pub(crate) fn advise(advice: Option<&'static str>) {
    if let Ok(mut of_command) = OF_COMMAND.write() {
        *of_command = advice;
    }
}

/// The exit code of a run that failed.
const FAILED: i32 = 1;

impl<A> EndWithoutMemory<A> {
    /// An allocator over another, whose error ends with this advice.
    #[must_use]
    pub const fn new(memory: A, advice: &'static str) -> Self {
        Self { memory, advice }
    }

    /// Returns the address, or ends the program if it is null.
    fn checked(&self, start: *mut u8, bytes: usize) -> *mut u8 {
        if start.is_null() && bytes > 0 {
            // Nothing here allocates or waits. An error that cannot be written cannot be reported
            // elsewhere.
            let of_command = OF_COMMAND.try_read().ok().and_then(|advice| *advice);
            let _ = writeln!(
                std::io::stderr(),
                "error: out of memory: {bytes} bytes could not be allocated; {}",
                of_command.unwrap_or(self.advice)
            );
            std::process::exit(FAILED)
        }
        start
    }
}

// SAFETY: every method is that of `memory`, with the arguments that it was called with, and returns
// its result or does not return.
unsafe impl<A: GlobalAlloc> GlobalAlloc for EndWithoutMemory<A> {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller promises what `memory` asks for.
        let start = unsafe { self.memory.alloc(layout) };
        self.checked(start, layout.size())
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller promises what `memory` asks for.
        let start = unsafe { self.memory.alloc_zeroed(layout) };
        self.checked(start, layout.size())
    }

    unsafe fn dealloc(&self, start: *mut u8, layout: Layout) {
        // SAFETY: `start` comes from `memory`, through one of the other methods.
        unsafe { self.memory.dealloc(start, layout) }
    }

    unsafe fn realloc(&self, start: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        // SAFETY: `start` comes from `memory`, and the caller promises the rest.
        let moved = unsafe { self.memory.realloc(start, layout, bytes) };
        self.checked(moved, bytes)
    }
}
