//! The gradient of the input.
//!
//! A unit computes one number of it. It keeps one sum for each basis that is not zero at its
//! input, over the outputs, and multiplies them by the slopes at the end. The gradients of the
//! outputs come from shared memory, and so do the weights if they fit there. In images the numbers
//! are those of pixels, and the sums are also over the taps of all windows that see a pixel.

use cubecl::prelude::*;

use crate::kernels::cube::buffers::{Inputs, Sizes};
use crate::kernels::cube::convolution::{
    ImageSizes, Layout, gradient_at, images_of_group, input_place, share_of_cube,
};
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
    let sizes = sizes.of_input_gradient();
    let Sizes { batch, inputs: in_features, outputs, address, .. } = sizes;
    let (is_staged, columns) = staged_outputs(layer);
    gradient_of_input::launch(
        client,
        cubes(sizes.across(in_features.div_ceil(INPUTS)), batch.div_ceil(SAMPLES) as usize),
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
        sizes.images(),
        batch,
        in_features,
        outputs,
        layer,
        sizes.layout(),
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
    images: ImageSizes,
    batch: u32,
    in_features: u32,
    outputs: u32,
    #[comptime] layer: CubeLayer,
    #[comptime] layout: Layout,
    #[comptime] is_staged: bool,
    #[comptime] columns: u32,
) {
    let taps = comptime!(layer.taps());
    let rows = comptime!(layer.rows() as u32);
    let bases = comptime!(layer.bases() as u32);
    let unit = UNIT_POS_Y * SAMPLES + UNIT_POS_X;
    let first_sample = cube_along() * SAMPLES;
    let share = share_of_cube(&images, layout);
    let images = images_of_group(&images, share.group);
    // Weights of all groups follow each other.
    let inputs_before = share.group * in_features;
    let first_input = share.tile * INPUTS;
    // Beyond the end the last ones are computed, and not written.
    let sample = min(first_sample + UNIT_POS_X, batch - 1);
    let input = min(first_input + UNIT_POS_Y, in_features - 1);
    let at = input_place(sample, input, in_features, &images, layout);
    let number = x[at];
    let mut slopes = Array::<f32>::new(taps);
    let found = evaluate(number, input, &knots, list, &mut slopes, layer, Kind::Slope);

    // An odd distance, so that units at the same output of other lines do not share a bank. In images
    // the number after the gradients of a line is not 0 if there are any at the tap.
    let pitch = comptime!(columns + 1);
    let mut gradients = Shared::<[f32]>::new_slice(comptime!((SAMPLES * pitch) as usize));
    let of_tile = comptime!(if is_staged { INPUTS * rows * pitch } else { 1 });
    let mut weights = Shared::<[f32]>::new_slice(comptime!(of_tile as usize));
    let mut sums = Array::<f32>::new(taps);
    let mut of_base = 0.0f32;
    // Whether a window has the pixel of this unit. Without one its gradient is 0, also where bases
    // have no value.
    let mut is_seen = false.runtime();

    let window_taps = comptime!(layout.taps());
    #[unroll(window_taps == 1)]
    for of_window in 0..window_taps {
        let edges = (inputs_before + input) * window_taps + of_window;
        let mut first_output = 0u32.runtime();
        while first_output < outputs {
            // One or two rounds. Compilers would not find that out in a loop, and keep addresses of
            // four rounds in registers.
            #[unroll]
            for round in 0..comptime!((SAMPLES * columns).div_ceil(UNITS)) {
                let index = unit + comptime!(round * UNITS);
                if index < comptime!(SAMPLES * columns) {
                    let row = min(first_sample + index / columns, batch - 1);
                    let output = min(first_output + index % columns, outputs - 1);
                    let of_tap = gradient_at(dy, row, output, outputs, of_window, &images, layout);
                    gradients[(index / columns * pitch + index % columns) as usize] = of_tap.value;
                    if comptime!(!layout.is_rows()) {
                        let mark = select(of_tap.is_there, 1.0f32, 0.0f32);
                        if index.is_multiple_of(columns) {
                            gradients[(index / columns * pitch + columns) as usize] = mark;
                        }
                    }
                }
            }
            if comptime!(is_staged) {
                let mut index = unit;
                while index < comptime!(INPUTS * rows * columns) {
                    let line = index / columns;
                    let input = min(first_input + line / rows, in_features - 1);
                    let input = (inputs_before + input) * window_taps + of_window;
                    let output = min(first_output + index % columns, outputs - 1);
                    weights[(line * pitch + index % columns) as usize] =
                        weight(spline, base, scaler, input, line % rows, output, outputs, layer);
                    if comptime!(layout.is_rows()) {
                        index += UNITS;
                    } else {
                        // A constant step would make compilers write out four rounds, for which
                        // registers do not suffice beside the indices of pixels.
                        index += UNITS + knots.zero;
                    }
                }
            }
            sync_cube();

            let count = min(columns, outputs - first_output);
            let count = if comptime!(layout.is_rows()) {
                count
            } else {
                let mark = gradients[(UNIT_POS_X * pitch + columns) as usize];
                let is_there = mark > 0.0f32;
                is_seen = is_seen || is_there;
                // Zeros of no window would make NaN of an infinite weight.
                select(is_there, count, 0u32)
            };
            for column in 0..count {
                let dy = gradients[(UNIT_POS_X * pitch + column) as usize];
                #[unroll]
                for tap in 0..taps {
                    let row = found.window + comptime!(tap as u32);
                    let factor = if comptime!(is_staged) {
                        weights[((UNIT_POS_Y * rows + row) * pitch + column) as usize]
                    } else {
                        let output = first_output + column;
                        weight(spline, base, scaler, edges, row, output, outputs, layer)
                    };
                    sums[tap] += factor * dy;
                }
                if comptime!(layer.activation.is_some()) {
                    let factor = if comptime!(is_staged) {
                        weights[((UNIT_POS_Y * rows + bases) * pitch + column) as usize]
                    } else {
                        let output = (first_output + column) as usize;
                        base[edges as usize * outputs as usize + output]
                    };
                    of_base += factor * dy;
                }
            }
            sync_cube();
            first_output += columns;
        }
    }

    let mut sum = 0.0f32;
    #[unroll]
    for tap in 0..taps {
        sum += slopes[tap] * sums[tap];
    }
    if comptime!(layer.activation.is_some()) {
        sum += function::slope(number, comptime!(layer.activation.unwrap_or_default())) * of_base;
    }
    if comptime!(!layout.is_rows()) {
        sum = select(is_seen, sum, 0.0f32);
    }
    if first_sample + UNIT_POS_X < batch && first_input + UNIT_POS_Y < in_features {
        dx[at] = sum;
    }
}
