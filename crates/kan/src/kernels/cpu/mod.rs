//! The inner loops, generic over the vector.

use updraft_simd::{Isa, Simd};

mod bspline_uniform;
mod conv_activation;
mod conv_forward;
mod conv_gradient;
mod conv_panel;
mod conv_run;
mod finish;
mod flush;
mod forward;
mod forward_run;
mod function;
mod gradient;
mod pixel_splines;
mod quantized;
mod quantized_inputs;
mod quantized_tile;
mod run;
mod taps;
mod tiles;
mod weights;

pub(crate) use bspline_uniform::Uniform;
pub(crate) use conv_activation::{activate, multiply_by_slope};
pub(crate) use conv_forward::{ConvJob, MOST_PIXELS, conv_tile, numbers_of_conv, pack_conv};
pub(crate) use conv_gradient::{ConvGradientJob, LINE_PITCH, gradient_tile, pixel_values};
pub(crate) use finish::finish_row;
pub(crate) use forward::{ForwardJob, are_few, pack_all, reads_in_place};
pub(crate) use function::{slope, value};
pub(crate) use gradient::GradientJob;
pub(crate) use pixel_splines::PixelSplines;
pub(crate) use quantized::{QUANTIZED_ROWS, QuantizedJob};
pub(crate) use quantized_inputs::{STEPS_OF_ONE, STEPS_OF_WEIGHT};
pub(crate) use tiles::pack;
pub(crate) use weights::{PACKED, numbers_of_all, rows_of_weights};

/// Inputs whose gradients are computed together.
pub(crate) const INPUTS: usize = 32;

/// Number of inputs whose taps the forward pass stores at a time: outputs are read and written once
/// for all of them. Each block starts new sums, so that rounding errors do not grow with the number
/// of inputs.
pub(crate) const FORWARD_INPUTS: usize = 64;

/// Samples per line of the quantized forward pass: their sums for a tile of outputs stay in cache.
pub(crate) const ROWS: usize = 128;

/// Samples whose values are adjacent: the values of one tap and input fill a cache line.
const GROUP: usize = 16;

/// Samples whose gradients are computed with the same packed weights: several [lines](line()).
pub(crate) const GRADIENT_ROWS: usize = 512;

/// Lines whose outputs are computed with the same packed weights: with more lines, the weights are
/// read from memory less often.
pub(crate) const OUTPUT_LINES: usize = 8;

/// The distance from one tap's line to the next, for a number of samples. It is not a power of two,
/// because lines of one input would then map to the same cache sets.
pub(crate) const fn pitch(samples: usize) -> usize {
    samples + GROUP
}

/// Samples per line. In a longer line more samples share an interval, but the outputs or their
/// gradients for a tile, up to 32 KiB, must stay in cache.
///
/// Each line starts new sums over samples, so that rounding errors do not grow with the batch. The
/// length is constant, so that the number of threads does not change the results.
pub(crate) const fn line(isa: Isa) -> usize {
    match isa.base() {
        Isa::Avx2 | Isa::Neon => 256,
        _ => 128,
    }
}

/// Outputs whose gradients are computed together.
pub(crate) const fn tile(isa: Isa) -> usize {
    match isa.base() {
        Isa::Avx512 => 64,
        Isa::Avx2 | Isa::Neon => 32,
        _ => 8,
    }
}

/// Outputs of a layer whose gradients are computed together: two tiles if that leaves no remainder,
/// so that the work per sample is done for more outputs at once.
pub(crate) const fn layer_tile(isa: Isa, outputs: usize) -> usize {
    let tile = tile(isa);
    match isa.base() {
        Isa::Avx512 if outputs.is_multiple_of(2 * tile) => 2 * tile,
        _ => tile,
    }
}

/// Outputs that are computed together in the forward pass: their weights of all taps and the base
/// branch fit into registers.
pub(crate) const fn forward_tile(isa: Isa) -> usize {
    match isa.base() {
        Isa::Avx512 => 64,
        Isa::Avx2 | Isa::Neon => 16,
        _ => 8,
    }
}

/// Outputs of a convolution that are computed together in the forward pass.
pub(crate) const fn conv_forward_tile(isa: Isa) -> usize {
    match isa.base() {
        Isa::Avx512 => 64,
        Isa::Avx2 | Isa::Neon => 48,
        _ => 8,
    }
}

/// Block sizes in vectors of an instruction set.
trait Blocking: Simd {
    /// Vectors of outputs whose gradients are computed together.
    const TILE: usize = tile(Self::ISA) / Self::LANES;

    /// The number of these vectors whose gradients are summed together, so that the sums of all
    /// taps fit into registers.
    const SUMS: usize = match Self::ISA {
        Isa::Avx512 => 4,
        Isa::Avx2 | Isa::Neon => 2,
        _ => 1,
    };

    /// Samples per line.
    const LINE: usize = line(Self::ISA);

    /// The distance from one tap's line to the next.
    const PITCH: usize = pitch(Self::LINE);

    /// Vectors of outputs that the forward pass computes together.
    const OUTPUTS: usize = forward_tile(Self::ISA) / Self::LANES;
}

impl<S: Simd> Blocking for S {}
