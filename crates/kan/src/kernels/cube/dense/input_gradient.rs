//! The gradient of the input: gradients of the outputs times weights, transposed, times slopes.
//!
//! A unit computes some samples at one input: it keeps a sum over the outputs for each row of the
//! input, and multiplies them by the slopes at the end. In images a sample is a pixel, whose sums are
//! over the taps of all windows that see it.

use cubecl::prelude::*;

use super::Four;
use crate::grid::Grid;
use crate::kernels::cube::buffers::{Inputs, Sizes};
use crate::kernels::cube::convolution::{
    ImageSizes, Layout, gradient_at, images_of_group, input_place, is_seen, share_of_cube,
};
use crate::kernels::cube::function;
use crate::kernels::cube::layer::{CubeLayer, knots};
use crate::kernels::cube::position::{Kind, Knots, basis, locate};
use crate::kernels::cube::tiles::{cube_along, cubes};
use crate::kernels::cube::weight::weight;
use crate::kernels::cube_cost::dense::UNITS;
use crate::kernels::cube_cost::dense::input_gradient::{
    GROUPS, INPUTS, OUTPUTS, samples_of_a_unit,
};

/// As the input gradient of the kernels that leave out bases.
pub(crate) fn input_gradient(
    client: &Client,
    grid: &Grid,
    layer: CubeLayer,
    sizes: Sizes,
    inputs: Inputs,
    dy: BufferArg,
    dx: BufferArg,
) {
    let sizes = sizes.of_input_gradient();
    let Sizes { batch, inputs: in_features, outputs, address, .. } = sizes;
    let samples = samples_of_a_unit(layer);
    let tile = GROUPS * samples;
    dense_gradient_of_input::launch(
        client,
        cubes(sizes.across(in_features.div_ceil(INPUTS)), batch.div_ceil(tile) as usize),
        CubeDim::new_2d(INPUTS, GROUPS),
        address,
        inputs.x,
        inputs.spline,
        inputs.base,
        inputs.scaler,
        dy,
        dx,
        knots(grid),
        sizes.images(),
        batch,
        in_features,
        outputs,
        layer,
        sizes.layout(),
        samples,
    );
}

#[cube(launch, address_type = "dynamic")]
fn dense_gradient_of_input(
    x: &[f32],
    spline: &[f32],
    base: &[f32],
    scaler: &[f32],
    dy: &[f32],
    dx: &mut [f32],
    knots: Knots,
    images: ImageSizes,
    batch: u32,
    in_features: u32,
    outputs: u32,
    #[comptime] layer: CubeLayer,
    #[comptime] layout: Layout,
    #[comptime] samples: u32,
) {
    let rows = comptime!(layer.rows() as u32);
    // Four rows are read at once; those after the last are zero.
    let vectors = comptime!(rows.div_ceil(4));
    let tile = comptime!(GROUPS * samples);
    // Odd, so that the outputs of a sample do not share a bank.
    let pitch = comptime!(tile + 1);
    let slot = UNIT_POS_X;
    let group = UNIT_POS_Y;
    let unit = group * INPUTS + slot;
    let first_sample = cube_along() * tile;
    let share = share_of_cube(&images, layout);
    let images = images_of_group(&images, share.group);
    // Weights of all groups follow each other.
    let inputs_before = share.group * in_features;
    let first_input = share.tile * INPUTS;

    let mut gradients = Shared::<[f32]>::new_slice(comptime!((OUTPUTS * pitch) as usize));
    let of_output = comptime!(INPUTS * vectors);
    let mut weights = Shared::<[Four]>::new_slice(comptime!((OUTPUTS * of_output) as usize));
    let mut sums = Array::<Four>::new(comptime!((samples * vectors) as usize));
    #[unroll]
    for at in 0..comptime!((samples * vectors) as usize) {
        sums[at] = Four::new(0.0f32);
    }

    let window_taps = comptime!(layout.taps());
    #[unroll(window_taps == 1)]
    for of_window in 0..window_taps {
        let mut first_output = 0u32.runtime();
        while first_output < outputs {
            let mut at = unit;
            while at < comptime!(OUTPUTS * tile) {
                let (sample, place) = (at / OUTPUTS, at % OUTPUTS);
                let row = min(first_sample + sample, batch - 1);
                let output = first_output + place;
                let mut gradient = 0.0f32;
                if output < outputs {
                    let of_tap = gradient_at(dy, row, output, outputs, of_window, &images, layout);
                    gradient = of_tap.value;
                }
                gradients[(place * pitch + sample) as usize] = gradient;
                at += UNITS;
            }
            let mut at = unit;
            while at < comptime!(OUTPUTS * of_output) {
                // Neighbouring units read neighbouring outputs.
                let (line, place) = (at / OUTPUTS, at % OUTPUTS);
                let input = min(first_input + line / vectors, in_features - 1);
                let input = (inputs_before + input) * window_taps + of_window;
                let output = first_output + place;
                let mut four = Four::new(0.0f32);
                #[unroll]
                for lane in 0..4usize {
                    let row = line % vectors * 4 + comptime!(lane as u32);
                    if output < outputs && row < rows {
                        let factor =
                            weight(spline, base, scaler, input, row, output, outputs, layer);
                        four.insert(lane, factor);
                    }
                }
                weights[(place * of_output + line) as usize] = four;
                at += UNITS;
            }
            sync_cube();

            for place in 0..OUTPUTS {
                let mut factors = Array::<Four>::new(comptime!(vectors as usize));
                #[unroll]
                for vector in 0..vectors {
                    factors[vector as usize] =
                        weights[(place * of_output + slot * vectors + vector) as usize];
                }
                #[unroll]
                for sample in 0..samples {
                    let at = place * pitch + comptime!(sample * GROUPS) + group;
                    let gradient = Four::new(gradients[at as usize]);
                    #[unroll]
                    for vector in 0..vectors {
                        let at = comptime!((sample * vectors + vector) as usize);
                        sums[at] = fma(gradient, factors[vector as usize], sums[at]);
                    }
                }
            }
            sync_cube();
            first_output += OUTPUTS;
        }
    }

    let input = first_input + slot;
    #[unroll]
    for sample in 0..samples {
        let row = first_sample + comptime!(sample * GROUPS) + group;
        if row < batch && input < in_features {
            let at = input_place(row, input, in_features, &images, layout);
            let number = x[at];
            let position = locate(number, &knots, layer);
            let mut sum = 0.0f32;
            #[unroll]
            for tap in 0..comptime!(layer.taps()) {
                let mut of_tap = 0.0f32;
                #[unroll]
                for row in 0..comptime!(layer.bases()) {
                    let four = sums[comptime!(sample as usize * vectors as usize + row / 4)];
                    let of_row = four.extract(comptime!(row % 4));
                    let is_tap = position.window + comptime!(tap as u32) == comptime!(row as u32);
                    of_tap = select(is_tap, of_row, of_tap);
                }
                sum += basis(&position, layer, tap, Kind::Slope) * of_tap;
            }
            if comptime!(layer.activation.is_some()) {
                let bases = comptime!(layer.bases());
                let four = sums[comptime!(sample as usize * vectors as usize + bases / 4)];
                let of_base = four.extract(comptime!(bases % 4));
                let activation = comptime!(layer.activation.unwrap_or_default());
                sum += function::slope(number, activation) * of_base;
            }
            if comptime!(!layout.is_rows()) {
                sum = select(is_seen(row, &images, layout), sum, 0.0f32);
            }
            dx[at] = sum;
        }
    }
}
