//! The cost of adding the bias.

use super::UNITS;
use crate::kernels::cube_cost::{Cubes, KernelCost, Pass};

pub(crate) fn cost(pass: Pass) -> KernelCost {
    KernelCost {
        name: "plus_bias",
        launches: 1,
        bytes_read: pass.y_bytes() + pass.bias_bytes(),
        bytes_written: pass.y_bytes(),
        flops: pass.bias_flops(),
        cubes: Some(Cubes {
            count: pass.outputs.div_ceil(UNITS.into()) * pass.batch,
            threads_per_cube: UNITS,
            shared_bytes: 0,
        }),
    }
}
