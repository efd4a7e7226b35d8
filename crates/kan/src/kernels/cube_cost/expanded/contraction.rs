//! The cost of the gradient of the input from those of all bases.

use super::Parts;
use crate::kernels::cube_cost::{KernelCost, Pass};

pub(crate) fn cost(pass: Pass, parts: Parts) -> KernelCost {
    let pairs = pass.batch * pass.inputs;
    KernelCost {
        name: "times_slopes",
        launches: parts.count(),
        bytes_read: pass.x_bytes() + parts.number_bytes() * pairs * pass.rows(),
        bytes_written: pass.x_bytes(),
        flops: pairs * pass.slope_flops(),
        cubes: Some(parts.cubes_of_pairs(pass.layer)),
    }
}
