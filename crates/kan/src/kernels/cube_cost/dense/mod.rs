//! The cost of the dense kernels, and the sizes that they share.

pub(crate) mod forward;
pub(crate) mod input_gradient;
pub(crate) mod weight_gradient;

use super::CubeLayer;

/// Units along an axis of a cube.
pub(crate) const SIDE: u32 = 16;
/// Units of a cube.
pub(crate) const UNITS: u32 = SIDE * SIDE;
/// Sums of a unit along an axis of a tile.
pub(crate) const EACH: u32 = 8;
/// Rows and columns of a tile.
pub(crate) const TILE: u32 = SIDE * EACH;

/// Shared memory that the kernels use at most; the largest number is that of the forward pass.
pub(crate) const SHARED_BYTES: usize = 32768;

/// Rows of weights of an input, at most: a unit of the input gradient has registers for the sums of
/// all of them.
pub(crate) const MOST_ROWS: usize = 32;

/// Inputs whose rows fit into `rows` rows of a tile.
fn inputs_within(rows: u32, layer: CubeLayer) -> u32 {
    rows / layer.rows() as u32
}
