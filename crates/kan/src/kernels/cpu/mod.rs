//! The inner loops, generic over the vector, and the vectors.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod flush;
mod forward;
mod function;
mod gradient;
mod portable;
mod quantized;
#[cfg(target_arch = "x86_64")]
mod quantized_avx2;
mod run;
mod taps;
mod tiles;
mod vector;
#[cfg(target_arch = "x86_64")]
mod vnni;
mod weights;

pub(crate) use forward::{ForwardJob, PACKED};
pub(crate) use gradient::GradientJob;
pub(crate) use quantized::{QuantizedJob, STEPS_OF_ONE};
pub(crate) use tiles::pack;
pub(crate) use weights::rows_of_weights;

use crate::kernels::path::Path;

/// Inputs whose taps are held at a time; sums start anew with every block of them, so that
/// rounding errors do not grow with the number of inputs.
pub(crate) const INPUTS: usize = 32;

/// Samples of a line: their sums for a tile of outputs stay in the fastest cache.
///
/// Sums over samples start anew with each line, so that rounding errors do not grow with the
/// batch; a constant, so that the number of threads does not change them.
pub(crate) const ROWS: usize = crate::basis::LINE;

/// Samples of a line whose values lie side by side: those of one tap and input fill a cache line.
const GROUP: usize = 16;

/// Lines whose gradients are computed with the same packed weights.
pub(crate) const LINES: usize = 4;

/// Lines whose outputs are computed with the same packed weights: the more of them, the less often
/// all weights come out of memory.
pub(crate) const OUTPUT_LINES: usize = 8;

/// Numbers from one tap's line to the next. Not a power of two: lines of one input would fall
/// into the same places of the cache.
pub(crate) const PITCH: usize = ROWS + 16;

/// Numbers that one vector of a path holds.
pub(crate) const fn lanes(path: Path) -> usize {
    match path {
        Path::Avx512 => 16,
        Path::Avx2 | Path::Portable => 8,
    }
}

/// Outputs that a path computes together.
pub(crate) const fn tile(path: Path) -> usize {
    match path {
        Path::Avx512 => 64,
        Path::Avx2 => 16,
        Path::Portable => 8,
    }
}

/// Outputs that a path computes together in the forward pass.
pub(crate) const fn forward_tile(path: Path) -> usize {
    match path {
        Path::Avx512 => 64,
        Path::Avx2 => 32,
        Path::Portable => 8,
    }
}
