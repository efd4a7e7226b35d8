//! Work space that is reused between calls.

use updraft_simd::{Aligned, Square, Tile};

/// Work space of the passes.
#[derive(Debug, Clone, Default)]
pub(crate) struct Bf16Scratch {
    /// Tiles that all threads read.
    pub(super) shared: Vec<Tile>,
    pub(super) threads: Vec<OfThread>,
}

/// Work space of a thread.
#[derive(Debug, Clone, Default)]
pub(super) struct OfThread {
    /// Inputs of a chunk, `[rows][inputs]`.
    pub(super) columns: Aligned,
    /// Their terms, `[rows][terms]`, or rows of coefficients.
    pub(super) values: Aligned,
    pub(super) sums: Aligned,
    pub(super) left: Vec<Tile>,
    pub(super) square: Square,
}

impl Bf16Scratch {
    /// The shared tiles and the work space of each thread.
    pub(super) fn split(&mut self, tiles: usize, threads: usize) -> (&mut [Tile], &mut [OfThread]) {
        if self.threads.len() < threads {
            self.threads.resize_with(threads, OfThread::default);
        }
        (updraft_simd::grown(&mut self.shared, tiles), &mut self.threads[..threads])
    }

    /// The allocated memory in bytes.
    pub(crate) fn bytes(&self) -> usize {
        let of_thread = |thread: &OfThread| {
            let OfThread { columns, values, sums, left, .. } = thread;
            [columns, values, sums].map(Aligned::bytes).iter().sum::<usize>()
                + left.capacity() * size_of::<Tile>()
        };
        self.shared.capacity() * size_of::<Tile>()
            + self.threads.capacity() * size_of::<OfThread>()
            + self.threads.iter().map(of_thread).sum::<usize>()
    }
}
