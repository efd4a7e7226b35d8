//! Work space that a caller keeps between calls, so that no later call allocates.

use updraft_simd::{Aligned, grown};

use super::cpu::WinogradSpace;

/// Work space of the kernels: grows to what a call needs, and is reused by the next.
///
/// Its contents between calls are unspecified; any scratch can be used for any call.
#[derive(Debug, Clone, Default)]
pub struct Scratch {
    shared: Aligned<u8>,
    of_threads: Vec<Own>,
}

/// The work space of one thread.
#[derive(Debug, Clone, Default)]
pub(crate) struct Own {
    pub(crate) bytes: Aligned<u8>,
    pub(crate) sums: Vec<i32>,
    pub(crate) winograd: WinogradSpace,
}

impl Scratch {
    /// An empty scratch.
    #[must_use]
    pub const fn new() -> Self {
        Self { shared: Aligned::new(), of_threads: Vec::new() }
    }

    /// Bytes held.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let own = self
            .of_threads
            .iter()
            .map(|own| own.bytes.bytes() + 4 * own.sums.capacity() + own.winograd.bytes());
        self.shared.bytes() + own.sum::<usize>()
    }

    /// `shared` bytes for all threads, and `bytes` and `sums` for every one of `threads`, with
    /// the contents of the last call.
    pub(crate) fn split(
        &mut self,
        shared: usize,
        threads: usize,
        bytes: usize,
        sums: usize,
    ) -> (&mut [u8], &mut [Own]) {
        if self.of_threads.len() < threads {
            self.of_threads.resize_with(threads, Own::default);
        }
        for own in &mut self.of_threads[..threads] {
            own.bytes.grown(bytes);
            grown(&mut own.sums, sums);
        }
        (self.shared.grown(shared), &mut self.of_threads[..threads])
    }
}
