//! The cost of the kernels of tensor cores, and the sizes that they share.

pub(crate) mod forward;
pub(crate) mod input_gradient;
pub(crate) mod pack;
pub(crate) mod weight_gradient;

use super::{CubeLayer, Pass};

/// Units of a plane, and planes of a cube.
pub(crate) const PLANE: u32 = 32;
pub(crate) const PLANES: u32 = 8;
pub(crate) const UNITS: u32 = PLANE * PLANES;

/// Rows and columns of a matrix that a plane multiplies in one instruction.
pub(crate) const FRAGMENT: u32 = 16;
/// Samples and outputs of a cube.
pub(crate) const TILE: u32 = 128;
/// From a row of a tile in shared memory to the next: rows begin in other banks.
pub(crate) const PITCH: u32 = TILE + 8;
/// Rows of weights that a chunk has at most.
pub(crate) const DEPTH: u32 = 64;

/// Bytes of a number of bf16 or f16.
const HALF: u64 = 2;

/// Bytes through which each plane writes a fragment of sums.
const RESULT_BYTES: u64 = (PLANES * FRAGMENT * FRAGMENT) as u64 * size_of::<f32>() as u64;

/// Inputs of a chunk of packed weights.
pub(crate) fn slots(layer: CubeLayer) -> u32 {
    DEPTH / layer.rows() as u32
}

/// Rows of a chunk: those of its inputs, to whole fragments.
pub(crate) fn depth(layer: CubeLayer) -> u32 {
    (slots(layer) * layer.rows() as u32).next_multiple_of(FRAGMENT)
}

/// Chunks of the packed weights.
fn chunks(pass: Pass) -> u64 {
    pass.inputs.div_ceil(slots(pass.layer).into())
}

/// Rows of the packed weights.
fn packed_rows(pass: Pass) -> u64 {
    chunks(pass) * u64::from(depth(pass.layer))
}

/// Bytes of the packed weights, whose outputs are whole tiles.
fn packed_bytes(pass: Pass) -> u64 {
    HALF * packed_rows(pass) * pass.outputs.next_multiple_of(TILE.into())
}
