//! Work space that a caller keeps between calls; beside it a call allocates only its plan and
//! lists of slices.

use std::ops::{Deref, DerefMut};

/// Numbers of a cache line, of 64 bytes on what there are vectors for.
pub(crate) const CACHE_LINE: usize = 16;

/// Work space of the kernels: grows to what a call needs, and is reused by the next.
///
/// What it holds between calls means nothing; any scratch serves any call.
#[derive(Debug, Clone, Default)]
pub struct Scratch {
    shared: Aligned,
    of_threads: Vec<Aligned>,
    wide: Vec<f64>,
}

impl Scratch {
    /// An empty scratch.
    #[must_use]
    pub const fn new() -> Self {
        Self { shared: Aligned::new(), of_threads: Vec::new(), wide: Vec::new() }
    }

    /// Bytes held.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let all = std::iter::once(&self.shared).chain(&self.of_threads);
        8 * self.wide.capacity() + all.map(|buffer| 4 * buffer.numbers.capacity()).sum::<usize>()
    }

    /// `shared` numbers for all threads, and `each` for every one of `threads`, holding what the
    /// last call left.
    pub(crate) fn split(
        &mut self,
        shared: usize,
        threads: usize,
        each: usize,
    ) -> (&mut [f32], &mut [Aligned]) {
        self.shared.grow(shared);
        if self.of_threads.len() < threads {
            self.of_threads.resize_with(threads, Aligned::new);
        }
        for buffer in &mut self.of_threads[..threads] {
            buffer.grow(each);
        }
        (&mut self.shared[..shared], &mut self.of_threads[..threads])
    }

    /// `count` numbers in f64, holding what the last call left.
    pub(crate) fn wide(&mut self, count: usize) -> &mut [f64] {
        if self.wide.len() < count {
            self.wide.resize(count, 0.0);
        }
        &mut self.wide[..count]
    }
}

/// Numbers that start with a cache line: a vector that lies in two of them costs two accesses.
#[derive(Debug, Clone, Default)]
pub(crate) struct Aligned {
    numbers: Vec<f32>,
    start: usize,
}

impl Aligned {
    const fn new() -> Self {
        Self { numbers: Vec::new(), start: 0 }
    }

    /// Makes sure of at least so many numbers.
    fn grow(&mut self, count: usize) {
        if self.len() < count {
            self.numbers.resize(count + CACHE_LINE, 0.0);
            let start = self.numbers.as_ptr().align_offset(CACHE_LINE * size_of::<f32>());
            self.start = start.min(CACHE_LINE);
        }
    }
}

impl Deref for Aligned {
    type Target = [f32];

    fn deref(&self) -> &[f32] {
        &self.numbers[self.start..]
    }
}

impl DerefMut for Aligned {
    fn deref_mut(&mut self) -> &mut [f32] {
        &mut self.numbers[self.start..]
    }
}
