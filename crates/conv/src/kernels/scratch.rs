//! Work space that a caller keeps between calls; otherwise a call allocates only its plan and
//! lists of slices.

use updraft_simd::{Aligned, CACHE_LINE_BYTES, grown};

/// Numbers of a cache line.
pub(crate) const CACHE_LINE: usize = CACHE_LINE_BYTES / size_of::<f32>();

/// Work space of the kernels: grows to what a call needs, and is reused by the next.
///
/// Its contents between calls are unspecified; any scratch can be used for any call.
#[derive(Debug, Clone, Default)]
pub struct Scratch {
    shared: Aligned,
    of_threads: Vec<Aligned>,
    shared_pairs: Aligned<u32>,
    pairs_of_threads: Vec<Aligned<u32>>,
    wide: Vec<f64>,
}

/// Parts of a scratch: for all threads and for each, with pairs of numbers in bf16.
pub(crate) struct Split<'a> {
    pub(crate) numbers: &'a mut [f32],
    pub(crate) pairs: &'a mut [u32],
    pub(crate) of_threads: Vec<(&'a mut [f32], &'a mut [u32])>,
}

impl Scratch {
    /// An empty scratch.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            shared: Aligned::new(),
            of_threads: Vec::new(),
            shared_pairs: Aligned::new(),
            pairs_of_threads: Vec::new(),
            wide: Vec::new(),
        }
    }

    /// Bytes held.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let all = std::iter::once(&self.shared).chain(&self.of_threads);
        let pairs = std::iter::once(&self.shared_pairs).chain(&self.pairs_of_threads);
        size_of::<f64>() * self.wide.capacity()
            + all.map(Aligned::bytes).sum::<usize>()
            + pairs.map(Aligned::bytes).sum::<usize>()
    }

    /// `shared` numbers for all threads, and `each` for every one of `threads`, with the contents
    /// of the last call.
    pub(crate) fn split(
        &mut self,
        shared: usize,
        threads: usize,
        each: usize,
    ) -> (&mut [f32], Vec<&mut [f32]>) {
        if self.of_threads.len() < threads {
            self.of_threads.resize_with(threads, Aligned::new);
        }
        let of_threads = self.of_threads[..threads].iter_mut().map(|own| own.grown(each));
        (self.shared.grown(shared), of_threads.collect())
    }

    /// Numbers and pairs of numbers in bf16, for all threads and for each of `threads`, with the
    /// contents of the last call.
    pub(crate) fn split_pairs(
        &mut self,
        [numbers, numbers_each]: [usize; 2],
        [pairs, pairs_each]: [usize; 2],
        threads: usize,
    ) -> Split<'_> {
        if self.of_threads.len() < threads {
            self.of_threads.resize_with(threads, Aligned::new);
        }
        if self.pairs_of_threads.len() < threads {
            self.pairs_of_threads.resize_with(threads, Aligned::new);
        }
        let of_threads = self.of_threads.iter_mut().zip(&mut self.pairs_of_threads).take(threads);
        Split {
            numbers: self.shared.grown(numbers),
            pairs: self.shared_pairs.grown(pairs),
            of_threads: of_threads
                .map(|(own, pairs)| (own.grown(numbers_each), pairs.grown(pairs_each)))
                .collect(),
        }
    }

    /// `count` numbers in f64, with the contents of the last call.
    pub(crate) fn wide(&mut self, count: usize) -> &mut [f64] {
        grown(&mut self.wide, count)
    }
}
