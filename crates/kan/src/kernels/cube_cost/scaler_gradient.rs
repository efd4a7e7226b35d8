//! The cost of the gradients of the splines' factors.

use super::tiles::LANES;
use super::{Cubes, KernelCost, Pass};

/// Inputs of a cube, one for each group of `LANES` units.
pub(crate) const INPUTS: u32 = 8;

pub(crate) fn cost(pass: Pass) -> KernelCost {
    let Pass { inputs, outputs, .. } = pass;
    let written = pass.spline_bytes() + pass.edge_bytes();
    KernelCost {
        name: "gradient_of_scaler",
        launches: 1,
        // The coefficients and the factors, and the gradients that are multiplied by factors.
        bytes_read: written + pass.spline_bytes(),
        bytes_written: written,
        flops: 3 * pass.bases() * inputs * outputs,
        cubes: Some(Cubes {
            count: outputs.div_ceil(LANES.into()) * inputs.div_ceil(INPUTS.into()),
            threads_per_cube: LANES * INPUTS,
            shared_bytes: 0,
        }),
    }
}
