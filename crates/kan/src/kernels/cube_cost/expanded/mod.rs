//! The cost of the expanded forms, and the sizes that their kernels share.

pub(crate) mod bases;
pub(crate) mod bias;
pub(crate) mod contraction;
pub(crate) mod parts;
pub(crate) mod products;
pub(crate) mod weights;

pub(crate) use parts::Parts;

use super::CubeLayer;
use super::tiles::SHARED_BYTES;

/// Units of a cube.
pub(crate) const UNITS: u32 = 256;

/// Pairs of a cube, whose rows fit into shared memory in numbers of this size; 0 if no pair does.
pub(crate) fn pairs_of_cube(layer: CubeLayer, number_bytes: usize) -> u32 {
    let fit = SHARED_BYTES / (layer.rows() * number_bytes);
    UNITS.min(u32::try_from(fit).unwrap_or(UNITS))
}
