//! The cost of the dense forward pass.

use super::{SHARED_BYTES, TILE, UNITS, inputs_within};
use crate::kernels::cube_cost::pass::FLOAT;
use crate::kernels::cube_cost::{CubeLayer, Cubes, KernelCost, Pass};

/// Rows of values and weights in shared memory, at most.
const ROWS: u32 = (SHARED_BYTES / (2 * TILE as usize * size_of::<f32>())) as u32;

/// Inputs at a time: as many as there are units for their samples.
pub(crate) fn slots(layer: CubeLayer) -> u32 {
    inputs_within(ROWS, layer).min(UNITS / TILE)
}

pub(crate) fn cost(pass: Pass) -> KernelCost {
    let Pass { layer, batch, inputs, outputs, .. } = pass;
    let (slots, tile) = (u64::from(slots(layer)), u64::from(TILE));
    let (chunks, depth) = (inputs.div_ceil(slots), slots * pass.rows());
    let products = 2 * chunks * depth * tile * tile;
    let values = chunks * slots * tile * pass.value_flops();
    let factors = pass.factor_flops(inputs * pass.bases() * tile);
    let count = outputs.div_ceil(tile) * batch.div_ceil(tile);
    KernelCost {
        name: "dense_forward",
        launches: 1,
        bytes_read: pass.x_bytes() + pass.weight_bytes() + pass.bias_bytes(),
        bytes_written: pass.y_bytes(),
        flops: count * (products + values + factors) + pass.bias_flops(),
        cubes: Some(Cubes {
            count,
            threads_per_cube: UNITS,
            shared_bytes: 2 * FLOAT * depth * tile,
        }),
    }
}
