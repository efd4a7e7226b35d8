//! The cost of the dense gradients of coefficients and base weights.

use super::{TILE, UNITS, inputs_within};
use crate::kernels::cube_cost::pass::FLOAT;
use crate::kernels::cube_cost::{CubeLayer, Cubes, KernelCost, Pass};

/// Samples at a time.
pub(crate) const SAMPLES: u32 = 16;
/// From the values of a sample to those of the next: odd, so that samples do not share a bank.
pub(crate) const PITCH: u32 = TILE + 1;

/// Inputs of a cube.
pub(crate) fn slots(layer: CubeLayer) -> u32 {
    inputs_within(TILE, layer)
}

pub(crate) fn cost(pass: Pass) -> KernelCost {
    let Pass { layer, batch, inputs, outputs, .. } = pass;
    let parts = pass.parts_of_sum();
    let [at_once, tile, pitch] = [SAMPLES, TILE, PITCH].map(u64::from);
    let (slots, samples) = (u64::from(slots(layer)), batch.next_multiple_of(at_once));
    let products = 2 * samples * tile * tile;
    let values = samples * slots * pass.value_flops();
    let count = outputs.div_ceil(tile) * inputs.div_ceil(slots);
    KernelCost {
        name: "dense_gradient_of_weights",
        launches: parts,
        bytes_read: pass.x_bytes() + pass.y_bytes(),
        bytes_written: parts * pass.row_bytes(),
        flops: count * (products + values),
        cubes: Some(Cubes {
            count: parts * count,
            threads_per_cube: UNITS,
            shared_bytes: FLOAT * at_once * (pitch + tile),
        }),
    }
}
