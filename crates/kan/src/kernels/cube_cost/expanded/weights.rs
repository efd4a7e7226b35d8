//! The cost of the weights as a matrix, and of its gradient as those of the parameters.

use super::{Parts, UNITS};
use crate::kernels::cube_cost::{Cubes, KernelCost, Pass};

/// Of writing the matrix, in this many launches.
pub(crate) fn pack_cost(pass: Pass, parts: Parts, launches: u64) -> KernelCost {
    let edges = pass.inputs * pass.outputs;
    KernelCost {
        name: "weights_of_part",
        launches,
        bytes_read: pass.weight_bytes(),
        bytes_written: parts.number_bytes() * pass.rows() * edges,
        flops: pass.factor_flops(pass.bases() * edges),
        cubes: Some(cubes(pass)),
    }
}

/// Of reading its gradient, which is of f32.
pub(crate) fn unpack_cost(pass: Pass, parts: Parts) -> KernelCost {
    KernelCost {
        name: "gradients_of_part",
        launches: parts.count(),
        bytes_read: pass.row_bytes(),
        bytes_written: pass.row_bytes(),
        flops: 0,
        cubes: Some(cubes(pass)),
    }
}

/// A row of outputs for each row of an input.
fn cubes(pass: Pass) -> Cubes {
    Cubes {
        count: pass.outputs.div_ceil(UNITS.into()) * pass.inputs * pass.rows(),
        threads_per_cube: UNITS,
        shared_bytes: 0,
    }
}
