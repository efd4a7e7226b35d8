//! The gradients of the coefficients and of the base weights: values of bases, transposed, times
//! gradients of the outputs.
//!
//! A cube computes all rows of some inputs for 128 outputs, a unit 8 of each.

use cubecl::prelude::*;

use super::Four;
use crate::grid::Grid;
use crate::kernels::cube::buffers::{Sizes, WeightGradients};
use crate::kernels::cube::convolution::{
    ImageSizes, Layout, images_of_group, input_at, output_place, share_of_cube,
};
use crate::kernels::cube::layer::{CubeLayer, knots};
use crate::kernels::cube::position::Knots;
use crate::kernels::cube::tiles::{cube_along, cubes};
use crate::kernels::cube::values::write_values;
use crate::kernels::cube_cost::dense::weight_gradient::{PITCH, SAMPLES, slots};
use crate::kernels::cube_cost::dense::{EACH, SIDE, TILE, UNITS};

/// Vectors of a row of gradients.
const VECTORS: u32 = TILE / 4;

/// As the weight gradient of the kernels that leave out bases.
pub(crate) fn weight_gradient(
    client: &Client,
    grid: &Grid,
    layer: CubeLayer,
    sizes: Sizes,
    x: BufferArg,
    dy: BufferArg,
    gradients: WeightGradients,
) {
    let Sizes { batch, inputs: in_features, outputs, address, .. } = sizes;
    let slots = slots(layer);
    dense_gradient_of_weights::launch(
        client,
        cubes(sizes.across(outputs.div_ceil(TILE)), in_features.div_ceil(slots) as usize),
        CubeDim::new_2d(SIDE, SIDE),
        address,
        x,
        dy,
        gradients.spline,
        gradients.base,
        knots(grid),
        sizes.images(),
        batch,
        in_features,
        outputs,
        layer,
        sizes.layout(),
        slots,
    );
}

#[cube(launch, address_type = "dynamic")]
fn dense_gradient_of_weights(
    x: &[f32],
    dy: &[f32],
    of_spline: &mut [f32],
    of_base: &mut [f32],
    knots: Knots,
    images: ImageSizes,
    batch: u32,
    in_features: u32,
    outputs: u32,
    #[comptime] layer: CubeLayer,
    #[comptime] layout: Layout,
    #[comptime] slots: u32,
) {
    let rows = comptime!(layer.rows() as u32);
    let bases = comptime!(layer.bases() as u32);
    let column = UNIT_POS_X;
    let line = UNIT_POS_Y;
    let unit = line * SIDE + column;
    let share = share_of_cube(&images, layout);
    let images = images_of_group(&images, share.group);
    // Gradients of all groups follow each other.
    let inputs_before = share.group * in_features;
    let first_output = share.tile * TILE;
    let first_input = cube_along() * slots;

    let mut values = Shared::<[f32]>::new_slice(comptime!((SAMPLES * PITCH) as usize));
    let mut gradients = Shared::<[Four]>::new_slice(comptime!((SAMPLES * VECTORS) as usize));
    // Of eight rows, and for each of two vectors of outputs.
    let mut sums = Array::<Four>::new(comptime!(2 * EACH as usize));
    #[unroll]
    for at in 0..comptime!(2 * EACH as usize) {
        sums[at] = Four::new(0.0f32);
    }
    // The rows after the last input's stay zero.
    let mut at = unit;
    while at < comptime!(SAMPLES * PITCH) {
        values[at as usize] = 0.0f32;
        at += UNITS;
    }
    sync_cube();

    let mut first_sample = 0u32.runtime();
    while first_sample < batch {
        let mut pair = unit;
        while pair < comptime!(slots * SAMPLES) {
            let (slot, sample) = (pair / SAMPLES, pair % SAMPLES);
            let row = min(first_sample + sample, batch - 1);
            let input = min(first_input + slot, in_features - 1);
            let number = input_at(x, row, input, in_features, &images, layout);
            let is_there = first_sample + sample < batch;
            let at = sample * PITCH + slot * rows;
            write_values::<f32>(&mut values, at, 1u32, number, is_there, &knots, layer, true);
            pair += UNITS;
        }
        let mut vector = unit;
        while vector < comptime!(SAMPLES * VECTORS) {
            let (sample, place) = (vector / VECTORS, vector % VECTORS * 4);
            let mut four = Four::new(0.0f32);
            if first_sample + sample < batch {
                let row = first_sample + sample;
                #[unroll]
                for at in 0..4usize {
                    // Beyond the end the last one is read, and its sums are not written.
                    let output = min(first_output + place + comptime!(at as u32), outputs - 1);
                    four.insert(at, dy[output_place(row, output, outputs, &images, layout)]);
                }
            }
            gradients[vector as usize] = four;
            vector += UNITS;
        }
        sync_cube();

        for sample in 0..SAMPLES {
            let near = gradients[(sample * VECTORS + column) as usize];
            let far = gradients[(sample * VECTORS + SIDE + column) as usize];
            #[unroll]
            for row in 0..EACH {
                let value = values[(sample * PITCH + comptime!(row * SIDE) + line) as usize];
                let value = Four::new(value);
                let at = comptime!(2 * row as usize);
                sums[at] = fma(value, near, sums[at]);
                sums[comptime!(at + 1)] = fma(value, far, sums[comptime!(at + 1)]);
            }
        }
        sync_cube();
        first_sample += SAMPLES;
    }

    #[unroll]
    for row in 0..EACH {
        let place = comptime!(row * SIDE) + line;
        let (slot, row_of_input) = (place / rows, place % rows);
        let input = first_input + slot;
        let is_row = slot < slots && input < in_features;
        let edge = (inputs_before + input) as usize;
        #[unroll]
        for place in 0..8usize {
            let (half, lane) = comptime!((place / 4, place % 4));
            let output = first_output + column * 4 + comptime!((half * 64 + lane) as u32);
            if is_row && output < outputs {
                let sum = sums[comptime!(2 * row as usize + half)].extract(lane);
                let mut is_base = false.runtime();
                if comptime!(layer.activation.is_some()) {
                    is_base = row_of_input == bases;
                }
                if is_base {
                    of_base[edge * outputs as usize + output as usize] = sum;
                } else {
                    let row = edge * bases as usize + row_of_input as usize;
                    of_spline[row * outputs as usize + output as usize] = sum;
                }
            }
        }
    }
}
