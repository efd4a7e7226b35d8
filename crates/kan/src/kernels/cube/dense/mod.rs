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
use crate::kernels::cube_cost::dense::{MOST_ROWS, SHARED_BYTES};

/// Four neighbouring numbers, which a unit reads at once.
pub(super) type Four = Vector<f32, Const<4>>;

/// Whether a device runs these kernels for a layer: its cubes have the shared memory, the bases have
/// a closed form, and a unit of the input gradient has registers for the sums of all rows of an input.
pub(super) fn is_for(client: &Client, layer: CubeLayer) -> bool {
    let hardware = &client.properties().hardware;
    hardware.max_shared_memory_size >= SHARED_BYTES
        && layer.is_closed()
        && layer.rows() <= MOST_ROWS
}
