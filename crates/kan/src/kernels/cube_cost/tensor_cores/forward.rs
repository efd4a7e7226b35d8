//! The cost of the forward pass on tensor cores.

use super::{HALF, PITCH, RESULT_BYTES, TILE, UNITS, chunks, depth, packed_bytes, slots};
use crate::kernels::cube_cost::{Cubes, KernelCost, Pass};

pub(crate) fn cost(pass: Pass) -> KernelCost {
    let Pass { layer, batch, outputs, .. } = pass;
    let [slots, depth, tile, pitch] = [slots(layer), depth(layer), TILE, PITCH].map(u64::from);
    let products = 2 * chunks(pass) * depth * tile * tile;
    let values = chunks(pass) * slots * tile * pass.value_flops();
    let count = outputs.div_ceil(tile) * batch.div_ceil(tile);
    KernelCost {
        name: "products_forward",
        launches: 1,
        bytes_read: pass.x_bytes() + packed_bytes(pass) + pass.bias_bytes(),
        bytes_written: pass.y_bytes(),
        flops: count * (products + values) + pass.bias_flops(),
        cubes: Some(Cubes {
            count,
            threads_per_cube: UNITS,
            shared_bytes: 2 * HALF * depth * pitch + RESULT_BYTES,
        }),
    }
}
