//! The forward pass: values of bases, `[batch, inputs · rows]`, times weights.
//!
//! A cube computes 128 samples and 128 outputs, a unit 8 of each. For some inputs at a time, each
//! unit evaluates the bases of one sample at one input, and loads weights.

use cubecl::prelude::*;

use super::Four;
use crate::grid::Grid;
use crate::kernels::cube::buffers::{Inputs, Sizes};
use crate::kernels::cube::convolution::{
    ImageSizes, Layout, images_of_group, input_at, output_place, share_of_cube,
};
use crate::kernels::cube::layer::{CubeLayer, knots};
use crate::kernels::cube::position::Knots;
use crate::kernels::cube::tiles::{cube_along, cubes};
use crate::kernels::cube::values::write_values;
use crate::kernels::cube::weight::weight;
use crate::kernels::cube_cost::dense::forward::slots;
use crate::kernels::cube_cost::dense::{EACH, SIDE, TILE, UNITS};

/// Vectors of a row of a tile.
const VECTORS: u32 = TILE / 4;

/// As the forward pass of the kernels that leave out bases.
pub(crate) fn forward(
    client: &Client,
    grid: &Grid,
    layer: CubeLayer,
    sizes: Sizes,
    inputs: Inputs,
    bias: BufferArg,
    y: BufferArg,
) {
    let Sizes { batch, inputs: in_features, outputs, address, .. } = sizes;
    dense_forward::launch(
        client,
        cubes(sizes.across(outputs.div_ceil(TILE)), batch.div_ceil(TILE) as usize),
        CubeDim::new_2d(SIDE, SIDE),
        address,
        inputs.x,
        inputs.spline,
        inputs.base,
        inputs.scaler,
        bias,
        y,
        knots(grid),
        sizes.images(),
        batch,
        in_features,
        outputs,
        layer,
        sizes.layout(),
        slots(layer),
    );
}

#[cube(launch, address_type = "dynamic")]
fn dense_forward(
    x: &[f32],
    spline: &[f32],
    base: &[f32],
    scaler: &[f32],
    bias: &[f32],
    y: &mut [f32],
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
    let depth = comptime!(slots * rows);
    let column = UNIT_POS_X;
    let line = UNIT_POS_Y;
    let unit = line * SIDE + column;
    let share = share_of_cube(&images, layout);
    let images = images_of_group(&images, share.group);
    // Weights and biases of all groups follow each other.
    let inputs_before = share.group * in_features;
    let outputs_before = share.group * outputs;
    let first_output = share.tile * TILE;
    let first_sample = cube_along() * TILE;

    let mut values = Shared::<[f32]>::new_slice(comptime!((depth * TILE) as usize));
    let mut weights = Shared::<[Four]>::new_slice(comptime!((depth * VECTORS) as usize));
    // Of eight samples, and for each of two vectors of outputs.
    let mut sums = Array::<Four>::new(comptime!(2 * EACH as usize));
    #[unroll]
    for at in 0..comptime!(2 * EACH as usize) {
        sums[at] = Four::new(0.0f32);
    }

    let mut first_input = 0u32.runtime();
    while first_input < in_features {
        let mut pair = unit;
        while pair < comptime!(slots * TILE) {
            let (slot, sample) = (pair / TILE, pair % TILE);
            // Beyond the end the last sample is evaluated, and its sums are not written.
            let row = min(first_sample + sample, batch - 1);
            let input = min(first_input + slot, in_features - 1);
            let number = input_at(x, row, input, in_features, &images, layout);
            let is_there = first_input + slot < in_features;
            let at = slot * rows * TILE + sample;
            write_values::<f32>(&mut values, at, TILE, number, is_there, &knots, layer, false);
            pair += UNITS;
        }
        let mut vector = unit;
        while vector < comptime!(depth * VECTORS) {
            let (line, place) = (vector / VECTORS, vector % VECTORS * 4);
            let input = first_input + line / rows;
            let mut four = Four::new(0.0f32);
            if input < in_features {
                #[unroll]
                for at in 0..4usize {
                    // Beyond the end the last weight is read, and its sum is not written.
                    let output = min(first_output + place + comptime!(at as u32), outputs - 1);
                    let (edge, row) = (inputs_before + input, line % rows);
                    four.insert(
                        at,
                        weight(spline, base, scaler, edge, row, output, outputs, layer),
                    );
                }
            }
            weights[vector as usize] = four;
            vector += UNITS;
        }
        sync_cube();

        for row in 0..depth {
            let near = weights[(row * VECTORS + column) as usize];
            let far = weights[(row * VECTORS + SIDE + column) as usize];
            #[unroll]
            for sample in 0..EACH {
                let value = values[(row * TILE + comptime!(sample * SIDE) + line) as usize];
                let value = Four::new(value);
                let at = comptime!(2 * sample as usize);
                sums[at] = fma(value, near, sums[at]);
                sums[comptime!(at + 1)] = fma(value, far, sums[comptime!(at + 1)]);
            }
        }
        sync_cube();
        first_input += slots;
    }

    #[unroll]
    for sample in 0..EACH {
        let row = first_sample + comptime!(sample * SIDE) + line;
        #[unroll]
        for place in 0..8usize {
            let (half, lane) = comptime!((place / 4, place % 4));
            let output = first_output + column * 4 + comptime!((half * 64 + lane) as u32);
            if row < batch && output < outputs {
                let mut sum = sums[comptime!(2 * sample as usize + half)].extract(lane);
                if comptime!(layer.has_bias) {
                    sum += bias[(outputs_before + output) as usize];
                }
                y[output_place(row, output, outputs, &images, layout)] = sum;
            }
        }
    }
}
