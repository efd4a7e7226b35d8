//! The gradients of the splines' factors, and of the coefficients with them.

use cubecl::prelude::*;

use super::buffers::Sizes;
use super::layer::CubeLayer;
use super::tiles::{LANES, cube_along, cubes};
use crate::kernels::cube_cost::scaler_gradient::INPUTS;

/// Writes the gradients of the factors, `[in_features, out_features]`, for those of the
/// coefficients without factors, and multiplies the latter by the factors.
pub(crate) fn scaler_gradient(
    client: &Client,
    layer: CubeLayer,
    sizes: Sizes,
    spline: BufferArg,
    scaler: BufferArg,
    of_spline: BufferArg,
    of_scaler: BufferArg,
) {
    let Sizes { inputs, outputs, address, .. } = sizes;
    gradient_of_scaler::launch(
        client,
        cubes(outputs.div_ceil(LANES) as usize, inputs.div_ceil(INPUTS) as usize),
        CubeDim::new_2d(LANES, INPUTS),
        address,
        spline,
        scaler,
        of_spline,
        of_scaler,
        inputs,
        outputs,
        layer.bases() as u32,
    );
}

#[cube(launch, address_type = "dynamic")]
fn gradient_of_scaler(
    spline: &[f32],
    scaler: &[f32],
    of_spline: &mut [f32],
    of_scaler: &mut [f32],
    in_features: u32,
    outputs: u32,
    bases: u32,
) {
    let input = cube_along() * INPUTS + UNIT_POS_Y;
    let output = CUBE_POS_X * LANES + UNIT_POS_X;
    if input < in_features && output < outputs {
        let edge = input as usize * outputs as usize + output as usize;
        let factor = scaler[edge];
        let mut sum = 0.0f32;
        for basis in 0..bases {
            let row = input as usize * bases as usize + basis as usize;
            let at = row * outputs as usize + output as usize;
            let gradient = of_spline[at];
            sum += spline[at] * gradient;
            of_spline[at] = gradient * factor;
        }
        of_scaler[edge] = sum;
    }
}
