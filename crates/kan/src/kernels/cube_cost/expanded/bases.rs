//! The cost of writing the values of all bases.

use super::Parts;
use crate::kernels::cube_cost::{KernelCost, Pass};

pub(crate) fn cost(pass: Pass, parts: Parts) -> KernelCost {
    let pairs = pass.batch * pass.inputs;
    KernelCost {
        name: "bases_of_part",
        launches: parts.count(),
        bytes_read: pass.x_bytes(),
        bytes_written: parts.number_bytes() * pairs * pass.rows(),
        flops: pairs * pass.value_flops(),
        cubes: Some(parts.cubes_of_pairs(pass.layer)),
    }
}
