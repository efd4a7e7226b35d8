//! Scratch memory that the caller reuses between calls; a call allocates nothing else but its short
//! plan.

pub(crate) use updraft_simd::{Aligned, grown};

use super::bf16::Bf16Scratch;
use super::conv::Pixels;
use super::winograd::Space;

/// Scratch memory of the kernels: it grows to the size that a call needs and is reused by the next.
///
/// Its content does not matter; any scratch can be used for any call.
#[derive(Debug, Clone, Default)]
pub struct Scratch {
    pub(crate) shared: Aligned,
    pub(crate) of_threads: Vec<Workspace>,
    /// For products of bf16.
    pub(crate) bf16: Option<Box<Bf16Scratch>>,
}

/// The scratch memory of one thread.
#[derive(Debug, Clone, Default)]
pub(crate) struct Workspace {
    /// Inputs by feature, and their basis values, line by line.
    pub(crate) taps: Vec<Taps>,
    /// Weights of a tile of outputs.
    pub(crate) packed: Aligned,
    /// Sums of a tile of outputs.
    pub(crate) tile: Aligned,
    /// Gradients of a block of inputs.
    pub(crate) sums: Aligned,
    /// Pixels of a convolution's line.
    pub(crate) pixels: Pixels,
    /// For convolutions by Winograd's algorithm.
    pub(crate) winograd: Space,
}

impl AsMut<Space> for Workspace {
    fn as_mut(&mut self) -> &mut Space {
        &mut self.winograd
    }
}

/// The scratch memory of one thread of a quantized layer.
#[derive(Debug, Clone, Default)]
pub(crate) struct QuantizedSpace {
    /// Inputs by feature, `[inputs][pitch]`.
    pub(crate) columns: Vec<f32>,
    /// Four 8-bit basis values, `[groups of rows][inputs][rows]`.
    pub(crate) quads: Vec<u32>,
    /// The windows of the basis values, in the same order.
    pub(crate) windows: Vec<u32>,
    /// The base branch's function of two inputs, `[groups of rows][pairs of inputs][rows]`.
    pub(crate) pairs: Vec<u32>,
    /// The value of one step of the base branch's function, `[rows]`.
    pub(crate) steps: Vec<f32>,
    /// Sums of the splines, tile by tile.
    pub(crate) integers: Aligned<i32>,
    /// Sums of the base branch, tile by tile.
    pub(crate) floats: Aligned,
}

/// A block of inputs, prepared for the inner loops.
#[derive(Debug, Clone, Default)]
pub(crate) struct Taps {
    /// `[inputs][pitch]`.
    pub(crate) columns: Vec<f32>,
    /// `[inputs][taps][pitch]`.
    pub(crate) values: Vec<f32>,
    /// The same for the derivatives.
    pub(crate) slopes: Vec<f32>,
    /// The first non-zero basis of each sample of one input, `[pitch]`.
    pub(crate) windows: Vec<u32>,
    /// Samples sorted by window, `[inputs][pitch]`.
    pub(crate) order: Vec<u32>,
    /// Offsets of the output gradients of these samples, in bytes of a vector; convolutions only.
    pub(crate) places: Vec<u32>,
    /// The samples of a window are adjacent in the order: one run for each window, input by input.
    pub(crate) runs: Vec<Run>,
    /// The end of each input's runs, `[inputs]`.
    pub(crate) run_ends: Vec<usize>,
    /// The start of each window's samples during the counting sort, `[windows + 1]`.
    pub(crate) starts: Vec<u32>,
    /// Whether any sample of an input is NaN, `[inputs]`.
    pub(crate) has_nan: Vec<bool>,
}

/// Samples of one window.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Run {
    /// The first non-zero basis.
    pub(crate) window: u32,
    /// The start in the order.
    pub(crate) start: u32,
    /// The end in the order.
    pub(crate) end: u32,
}

impl Scratch {
    /// An empty scratch.
    #[must_use]
    pub const fn new() -> Self {
        Self { shared: Aligned::new(), of_threads: Vec::new(), bf16: None }
    }

    /// The allocated memory in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let of_threads = self.of_threads.iter().map(Workspace::bytes).sum::<usize>();
        let of_bf16 = self.bf16.as_ref().map_or(0, |scratch| scratch.bytes());
        self.shared.bytes() + bytes(&self.of_threads) + of_threads + of_bf16
    }

    /// The scratch memory of products of bf16.
    pub(crate) fn of_bf16(&mut self) -> &mut Bf16Scratch {
        self.bf16.get_or_insert_default()
    }

    /// Returns `shared` numbers for all threads, and the memory of each of `threads`, with the
    /// content of the last call.
    pub(crate) fn split(
        &mut self,
        shared: usize,
        threads: usize,
    ) -> (&mut [f32], &mut [Workspace]) {
        if self.of_threads.len() < threads {
            self.of_threads.resize_with(threads, Workspace::default);
        }
        (self.shared.grown(shared), &mut self.of_threads[..threads])
    }
}

impl Workspace {
    fn bytes(&self) -> usize {
        let floats = [&self.packed, &self.tile, &self.sums].map(Aligned::bytes);
        let of_taps = self.taps.iter().map(Taps::bytes).sum::<usize>();
        let Pixels { sources, positions, ends } = &self.pixels;
        let of_pixels = bytes(sources) + bytes(positions) + bytes(ends);
        floats.iter().sum::<usize>()
            + bytes(&self.taps)
            + of_taps
            + of_pixels
            + self.winograd.bytes()
    }
}

impl Taps {
    fn bytes(&self) -> usize {
        let Self { columns, values, slopes, windows, order, places, runs, run_ends, .. } = self;
        let Self { starts, has_nan, .. } = self;
        [columns, values, slopes].map(bytes).iter().sum::<usize>()
            + [windows, order, places, starts].map(bytes).iter().sum::<usize>()
            + bytes(runs)
            + bytes(run_ends)
            + bytes(has_nan)
    }
}

fn bytes<T>(buffer: &Vec<T>) -> usize {
    buffer.capacity() * size_of::<T>()
}
