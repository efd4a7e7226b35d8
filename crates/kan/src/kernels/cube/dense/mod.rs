//! The passes of a layer as products of matrices whose basis values are computed into shared memory.
//!
//! All bases take part, also those that are zero: for few intervals the products of units that keep
//! many sums in registers are faster than reading the few weights that count.

mod forward;
#[cfg(feature = "autodiff")]
mod input_gradient;
#[cfg(feature = "autodiff")]
mod weight_gradient;

use cubecl::prelude::*;

pub(super) use forward::forward;
#[cfg(feature = "autodiff")]
pub(super) use input_gradient::input_gradient;
#[cfg(feature = "autodiff")]
pub(super) use weight_gradient::weight_gradient;

use super::layer::CubeLayer;

/// Four neighbouring numbers, which a unit reads at once.
pub(super) type Four = Vector<f32, Const<4>>;

/// Units along an axis of a cube.
const SIDE: u32 = 16;
/// Units of a cube.
const UNITS: u32 = SIDE * SIDE;
/// Sums of a unit along an axis of a tile.
const EACH: u32 = 8;
/// Rows and columns of a tile.
const TILE: u32 = SIDE * EACH;

/// Shared memory that the kernels use at most; the largest number is that of the weight gradient.
const SHARED_BYTES: usize = 32768;

/// Whether a device runs these kernels for a layer: its cubes have the shared memory, and a unit of
/// the input gradient has registers for the sums of all rows of an input.
pub(super) fn is_for(client: &Client, layer: CubeLayer) -> bool {
    let hardware = &client.properties().hardware;
    hardware.max_shared_memory_size >= SHARED_BYTES && layer.rows() <= MOST_ROWS
}

/// Rows of weights of an input, at most.
const MOST_ROWS: usize = 32;

/// Inputs whose rows fit into `rows` rows of a tile.
fn inputs_within(rows: u32, layer: CubeLayer) -> u32 {
    rows / layer.rows() as u32
}
