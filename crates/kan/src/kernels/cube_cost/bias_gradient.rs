//! The cost of the gradient of the bias.

use super::pass::FLOAT;
use super::tiles::LANES;
use super::{Cubes, KernelCost, Pass};

/// Groups of `LANES` units that share the samples.
pub(crate) const GROUPS: u32 = 8;

pub(crate) fn cost(pass: Pass) -> KernelCost {
    let Pass { batch, outputs, .. } = pass;
    let [lanes, groups] = [LANES, GROUPS].map(u64::from);
    let (count, parts) = (outputs.div_ceil(lanes), pass.parts_of_sum());
    KernelCost {
        name: "gradient_of_bias",
        launches: parts,
        bytes_read: pass.y_bytes(),
        bytes_written: parts * FLOAT * outputs,
        flops: count * lanes * batch + parts * outputs * groups,
        cubes: Some(Cubes {
            count: parts * count,
            threads_per_cube: LANES * GROUPS,
            shared_bytes: FLOAT * lanes * groups,
        }),
    }
}
