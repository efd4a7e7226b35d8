//! The gradient of the input.
//!
//! A unit computes one number of it. It keeps one sum for each basis that is not zero at its
//! input, over the outputs, and multiplies them by the slopes at the end. The gradients of the
//! outputs come from shared memory, and so do the weights if they fit there.

use cubecl::prelude::*;

use crate::kernels::cube::buffers::{Inputs, Sizes};
use crate::kernels::cube::function;
use crate::kernels::cube::layer::{CubeLayer, LayerGrid, knots};
use crate::kernels::cube::position::{Kind, Knots};
use crate::kernels::cube::recursion::evaluate;
use crate::kernels::cube::tiles::{cube_along, cubes};
use crate::kernels::cube::weight::weight;
use crate::kernels::cube_cost::sparse::input_gradient::{INPUTS, SAMPLES, UNITS, staged_outputs};

/// Writes the gradient, `[batch, in_features]`, for that of the outputs, `[batch, out_features]`, of
/// at least one sample.
///
/// # Panics
/// If f32 does not resolve positions in equal intervals.
pub(crate) fn input_gradient(
    client: &Client,
    grid: LayerGrid<'_>,
    layer: CubeLayer,
    sizes: Sizes,
    inputs: Inputs,
    dy: BufferArg,
    dx: BufferArg,
) {
    let Sizes { batch, inputs: in_features, outputs, address } = sizes;
    let (is_staged, columns) = staged_outputs(layer);
    gradient_of_input::launch(
        client,
        cubes(in_features.div_ceil(INPUTS) as usize, batch.div_ceil(SAMPLES) as usize),
        CubeDim::new_2d(SAMPLES, INPUTS),
        address,
        inputs.x,
        inputs.spline,
        inputs.base,
        inputs.scaler,
        dy,
        grid.knots,
        dx,
        knots(grid.grid),
        batch,
        in_features,
        outputs,
        layer,
        is_staged,
        columns,
    );
}

#[cube(launch, address_type = "dynamic")]
fn gradient_of_input(
    x: &[f32],
    spline: &[f32],
    base: &[f32],
    scaler: &[f32],
    dy: &[f32],
    list: &[f32],
    dx: &mut [f32],
    knots: Knots,
    batch: u32,
    in_features: u32,
    outputs: u32,
    #[comptime] layer: CubeLayer,
    #[comptime] is_staged: bool,
    #[comptime] columns: u32,
) {
    let taps = comptime!(layer.taps());
    let rows = comptime!(layer.rows() as u32);
    let bases = comptime!(layer.bases() as u32);
    let unit = UNIT_POS_Y * SAMPLES + UNIT_POS_X;
    let first_sample = cube_along() * SAMPLES;
    let first_input = CUBE_POS_X * INPUTS;
    // Beyond the end the last ones are computed, and not written.
    let sample = min(first_sample + UNIT_POS_X, batch - 1);
    let input = min(first_input + UNIT_POS_Y, in_features - 1);
    let at = sample as usize * in_features as usize + input as usize;
    let number = x[at];
    let mut slopes = Array::<f32>::new(taps);
    let found = evaluate(number, input, &knots, list, &mut slopes, layer, Kind::Slope);

    // An odd distance, so that units at the same output of other lines do not share a bank.
    let pitch = comptime!(columns + 1);
    let mut gradients = Shared::<[f32]>::new_slice(comptime!((SAMPLES * pitch) as usize));
    let of_tile = comptime!(if is_staged { INPUTS * rows * pitch } else { 1 });
    let mut weights = Shared::<[f32]>::new_slice(comptime!(of_tile as usize));
    let mut sums = Array::<f32>::new(taps);
    let mut of_base = 0.0f32;

    let mut first_output = 0u32.runtime();
    while first_output < outputs {
        let mut index = unit;
        while index < comptime!(SAMPLES * columns) {
            let row = min(first_sample + index / columns, batch - 1);
            let output = min(first_output + index % columns, outputs - 1);
            gradients[(index / columns * pitch + index % columns) as usize] =
                dy[row as usize * outputs as usize + output as usize];
            index += UNITS;
        }
        if comptime!(is_staged) {
            let mut index = unit;
            while index < comptime!(INPUTS * rows * columns) {
                let line = index / columns;
                let input = min(first_input + line / rows, in_features - 1);
                let output = min(first_output + index % columns, outputs - 1);
                weights[(line * pitch + index % columns) as usize] =
                    weight(spline, base, scaler, input, line % rows, output, outputs, layer);
                index += UNITS;
            }
        }
        sync_cube();

        let count = min(columns, outputs - first_output);
        for column in 0..count {
            let dy = gradients[(UNIT_POS_X * pitch + column) as usize];
            #[unroll]
            for tap in 0..taps {
                let row = found.window + comptime!(tap as u32);
                let factor = if comptime!(is_staged) {
                    weights[((UNIT_POS_Y * rows + row) * pitch + column) as usize]
                } else {
                    let output = first_output + column;
                    weight(spline, base, scaler, input, row, output, outputs, layer)
                };
                sums[tap] += factor * dy;
            }
            if comptime!(layer.activation.is_some()) {
                let factor = if comptime!(is_staged) {
                    weights[((UNIT_POS_Y * rows + bases) * pitch + column) as usize]
                } else {
                    let output = (first_output + column) as usize;
                    base[input as usize * outputs as usize + output]
                };
                of_base += factor * dy;
            }
        }
        sync_cube();
        first_output += columns;
    }

    let mut sum = 0.0f32;
    #[unroll]
    for tap in 0..taps {
        sum += slopes[tap] * sums[tap];
    }
    if comptime!(layer.activation.is_some()) {
        sum += function::slope(number, comptime!(layer.activation.unwrap_or_default())) * of_base;
    }
    if first_sample + UNIT_POS_X < batch && first_input + UNIT_POS_Y < in_features {
        dx[at] = sum;
    }
}
