//! Work space that a caller keeps between calls; beside it a call allocates only its short plan.

/// Work space of the kernels: grows to what a call needs, and is reused by the next.
///
/// What it holds between calls means nothing; any scratch serves any call.
#[derive(Debug, Clone, Default)]
pub struct Scratch {
    shared: Vec<f32>,
    of_threads: Vec<Vec<f32>>,
    wide: Vec<f64>,
}

impl Scratch {
    /// An empty scratch.
    #[must_use]
    pub const fn new() -> Self {
        Self { shared: Vec::new(), of_threads: Vec::new(), wide: Vec::new() }
    }

    /// Bytes held.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let all = std::iter::once(&self.shared).chain(&self.of_threads);
        8 * self.wide.capacity() + all.map(|buffer| 4 * buffer.capacity()).sum::<usize>()
    }

    /// `shared` numbers for all threads, and `each` for every one of `threads`, holding what the
    /// last call left.
    pub(crate) fn split(
        &mut self,
        shared: usize,
        threads: usize,
        each: usize,
    ) -> (&mut [f32], &mut [Vec<f32>]) {
        grow(&mut self.shared, shared);
        if self.of_threads.len() < threads {
            self.of_threads.resize_with(threads, Vec::new);
        }
        for buffer in &mut self.of_threads[..threads] {
            grow(buffer, each);
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

fn grow(buffer: &mut Vec<f32>, numbers: usize) {
    if buffer.len() < numbers {
        buffer.resize(numbers, 0.0);
    }
}
