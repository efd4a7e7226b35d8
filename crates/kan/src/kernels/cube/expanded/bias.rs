//! The bias, which the matrix products do not add.

use cubecl::prelude::*;

use crate::kernels::cube::buffers::Sizes;
use crate::kernels::cube::tiles::{cube_along, cubes};
use crate::kernels::cube_cost::expanded::UNITS;

/// Adds the bias to the outputs, `[batch, out_features]`.
pub(crate) fn add_bias(client: &Client, sizes: Sizes, bias: BufferArg, y: BufferArg) {
    let Sizes { batch, outputs, address, .. } = sizes;
    plus_bias::launch(
        client,
        cubes(outputs.div_ceil(UNITS) as usize, batch as usize),
        CubeDim::new_1d(UNITS),
        address,
        bias,
        y,
        batch,
        outputs,
    );
}

#[cube(launch, address_type = "dynamic")]
fn plus_bias(bias: &[f32], y: &mut [f32], batch: u32, outputs: u32) {
    let sample = cube_along();
    let output = CUBE_POS_X * UNITS + UNIT_POS_X;
    if sample < batch && output < outputs {
        y[sample as usize * outputs as usize + output as usize] += bias[output as usize];
    }
}
