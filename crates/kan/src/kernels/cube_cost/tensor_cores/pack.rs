//! The cost of laying out the weights for tensor cores.

use super::{TILE, packed_bytes, packed_rows};
use crate::kernels::cube_cost::{Cubes, KernelCost, Pass};

pub(crate) fn cost(pass: Pass) -> KernelCost {
    KernelCost {
        name: "pack_weights",
        launches: 1,
        bytes_read: pass.weight_bytes(),
        bytes_written: packed_bytes(pass),
        flops: pass.factor_flops(pass.bases() * pass.inputs * pass.outputs),
        cubes: Some(Cubes {
            count: pass.outputs.div_ceil(TILE.into()) * packed_rows(pass),
            threads_per_cube: TILE,
            shared_bytes: 0,
        }),
    }
}
