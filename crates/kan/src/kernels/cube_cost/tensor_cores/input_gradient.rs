//! The cost of the gradient of the input on tensor cores.

use super::{HALF, TILE, UNITS, chunks, depth, packed_rows};
use crate::kernels::cube_cost::pass::FLOAT;
use crate::kernels::cube_cost::{Cubes, KernelCost, Pass};

/// Outputs at a time.
pub(crate) const OUTPUTS: u32 = 32;
/// From a row of outputs to the next.
pub(crate) const ROW: u32 = OUTPUTS + 8;

pub(crate) fn cost(pass: Pass) -> KernelCost {
    let Pass { layer, batch, inputs, outputs, .. } = pass;
    let [depth, tile, row] = [depth(layer), TILE, ROW].map(u64::from);
    let outputs = outputs.next_multiple_of(OUTPUTS.into());
    let count = chunks(pass) * batch.div_ceil(tile);
    let products = 2 * outputs * tile * depth;
    KernelCost {
        name: "products_of_input",
        launches: 1,
        bytes_read: pass.x_bytes() + pass.y_bytes() + HALF * packed_rows(pass) * outputs,
        bytes_written: pass.x_bytes(),
        flops: count * products + batch * inputs * pass.slope_flops(),
        cubes: Some(Cubes {
            count,
            threads_per_cube: UNITS,
            shared_bytes: HALF * (tile + depth) * row + FLOAT * tile * depth,
        }),
    }
}
