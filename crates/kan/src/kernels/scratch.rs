//! Work space that a caller keeps between calls; beside it a call allocates only its short plan.

/// Work space of the kernels: grows to what a call needs, and is reused by the next.
///
/// What it holds between calls means nothing; any scratch serves any call.
#[derive(Debug, Clone, Default)]
pub struct Scratch {
    pub(crate) shared: Vec<f32>,
    pub(crate) of_threads: Vec<Workspace>,
}

/// What one thread works in.
#[derive(Debug, Clone, Default)]
pub(crate) struct Workspace {
    /// Inputs by feature, and what the splines make of them, line by line.
    pub(crate) taps: Vec<Taps>,
    /// Weights of a tile of outputs.
    pub(crate) packed: Vec<f32>,
    /// Sums of a tile of outputs.
    pub(crate) tile: Vec<f32>,
    /// Gradients of a block of inputs.
    pub(crate) sums: Vec<f32>,
}

/// What one thread of a quantized layer works in.
#[derive(Debug, Clone, Default)]
pub(crate) struct QuantizedSpace {
    /// Four basis values of eight bits, `[rows][inputs of a block]`.
    pub(crate) quads: Vec<u32>,
    /// Where their coefficients begin, `[rows][inputs of a block]`.
    pub(crate) windows: Vec<u32>,
    /// The base branch's function, `[rows][inputs of a block]`.
    pub(crate) activations: Vec<f32>,
    /// Sums of the splines, tile by tile.
    pub(crate) integers: Vec<i32>,
    /// Sums of the base branch, tile by tile.
    pub(crate) floats: Vec<f32>,
}

/// A block of inputs as the inner loops want it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Taps {
    /// `[inputs][PITCH]`.
    pub(crate) columns: Vec<f32>,
    /// `[inputs][taps][PITCH]`.
    pub(crate) values: Vec<f32>,
    /// The same of the derivatives.
    pub(crate) slopes: Vec<f32>,
    /// The first basis that each sample sees, `[PITCH]`, of one input at a time.
    pub(crate) windows: Vec<u32>,
    /// Samples ordered by window, `[inputs][PITCH]`.
    pub(crate) order: Vec<u32>,
    /// The samples of a window lie side by side in the order: one run each, input by input.
    pub(crate) runs: Vec<Run>,
    /// Where each input's runs end, `[inputs]`.
    pub(crate) run_ends: Vec<usize>,
    /// Where each window's samples start, `[windows + 1]`, while they are counted.
    pub(crate) starts: Vec<u32>,
    /// Whether any sample of an input is NaN, `[inputs]`.
    pub(crate) has_nan: Vec<bool>,
}

/// Samples of one window.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Run {
    /// The first basis that they see.
    pub(crate) window: u32,
    /// Where they start in the order.
    pub(crate) start: u32,
    /// Where they end.
    pub(crate) end: u32,
}

impl Scratch {
    /// An empty scratch.
    #[must_use]
    pub const fn new() -> Self {
        Self { shared: Vec::new(), of_threads: Vec::new() }
    }

    /// Bytes held.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let of_threads = self.of_threads.iter().map(Workspace::bytes).sum::<usize>();
        4 * self.shared.capacity() + of_threads
    }

    /// `shared` numbers for all threads, and the space of each of `threads`, holding what the
    /// last call left.
    pub(crate) fn split(
        &mut self,
        shared: usize,
        threads: usize,
    ) -> (&mut [f32], &mut [Workspace]) {
        if self.of_threads.len() < threads {
            self.of_threads.resize_with(threads, Workspace::default);
        }
        (grown(&mut self.shared, shared), &mut self.of_threads[..threads])
    }
}

impl Workspace {
    fn bytes(&self) -> usize {
        let floats = [&self.packed, &self.tile, &self.sums].map(bytes);
        floats.iter().sum::<usize>() + self.taps.iter().map(Taps::bytes).sum::<usize>()
    }
}

impl Taps {
    fn bytes(&self) -> usize {
        let Self { columns, values, slopes, windows, order, runs, run_ends, starts, has_nan } =
            self;
        [columns, values, slopes].map(bytes).iter().sum::<usize>()
            + [windows, order, starts].map(bytes).iter().sum::<usize>()
            + bytes(runs)
            + bytes(run_ends)
            + bytes(has_nan)
    }
}

fn bytes<T>(buffer: &Vec<T>) -> usize {
    buffer.capacity() * size_of::<T>()
}

/// The first `count` entries of a buffer that grows to hold them.
pub(crate) fn grown<T: Copy + Default>(buffer: &mut Vec<T>, count: usize) -> &mut [T] {
    if buffer.len() < count {
        buffer.resize(count, T::default());
    }
    &mut buffer[..count]
}
