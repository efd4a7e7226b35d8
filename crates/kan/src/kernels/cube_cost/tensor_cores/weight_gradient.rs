//! The cost of the gradients of coefficients and base weights on tensor cores.

use super::{HALF, PITCH, RESULT_BYTES, TILE, UNITS};
use crate::kernels::cube_cost::{CubeLayer, Cubes, KernelCost, Pass};

/// Samples at a time.
pub(crate) const SAMPLES: u32 = 32;
/// From the values of a row to those of the next.
pub(crate) const ROW: u32 = SAMPLES + 8;

/// Inputs of a cube.
pub(crate) fn slots(layer: CubeLayer) -> u32 {
    TILE / layer.rows() as u32
}

pub(crate) fn cost(pass: Pass) -> KernelCost {
    let Pass { layer, batch, inputs, outputs, .. } = pass;
    let [slots, at_once, tile] = [slots(layer), SAMPLES, TILE].map(u64::from);
    let [row, pitch] = [ROW, PITCH].map(u64::from);
    let samples = batch.next_multiple_of(at_once);
    let count = outputs.div_ceil(tile) * inputs.div_ceil(slots);
    KernelCost {
        name: "products_of_weights",
        launches: 1,
        bytes_read: pass.x_bytes() + pass.y_bytes(),
        bytes_written: pass.row_bytes(),
        flops: count * samples * (2 * tile * tile + slots * pass.value_flops()),
        cubes: Some(Cubes {
            count,
            threads_per_cube: UNITS,
            shared_bytes: HALF * (tile * row + at_once * pitch) + RESULT_BYTES,
        }),
    }
}
