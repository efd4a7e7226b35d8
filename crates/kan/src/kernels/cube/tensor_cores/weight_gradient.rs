//! The gradients of the coefficients and of the base weights: values of bases, transposed, times
//! gradients of the outputs.
//!
//! A cube computes all rows of some inputs for 128 outputs, a plane 32 rows and 64 outputs.

use cubecl::ir::ElemType;
use cubecl::prelude::*;

use crate::grid::Grid;
use crate::kernels::cube::buffers::{Sizes, WeightGradients};
use crate::kernels::cube::layer::{CubeLayer, knots};
use crate::kernels::cube::position::Knots;
use crate::kernels::cube::tiles::{cube_along, cubes};
use crate::kernels::cube::values::write_values;
use crate::kernels::cube_cost::tensor_cores::weight_gradient::{ROW, SAMPLES, slots};
use crate::kernels::cube_cost::tensor_cores::{FRAGMENT, PITCH, PLANE, PLANES, TILE, UNITS};

/// Writes the gradients for that of the outputs, `[batch, out_features]`.
#[expect(clippy::too_many_arguments, reason = "a kernel's sizes, inputs, outputs and device")]
pub(in super::super) fn weight_gradient(
    client: &Client,
    grid: &Grid,
    layer: CubeLayer,
    sizes: Sizes,
    numbers: ElemType,
    x: BufferArg,
    dy: BufferArg,
    gradients: WeightGradients,
) {
    let slots = slots(layer);
    products_of_weights::launch(
        client,
        cubes(sizes.outputs.div_ceil(TILE) as usize, sizes.inputs.div_ceil(slots) as usize),
        CubeDim::new_2d(PLANE, PLANES),
        sizes.address,
        x,
        dy,
        gradients.spline,
        gradients.base,
        knots(grid),
        sizes.batch,
        sizes.inputs,
        sizes.outputs,
        layer,
        slots,
        numbers,
    );
}

#[cube(launch, address_type = "dynamic")]
fn products_of_weights<E: Float>(
    x: &[f32],
    dy: &[f32],
    of_spline: &mut [f32],
    of_base: &mut [f32],
    knots: Knots,
    batch: u32,
    in_features: u32,
    outputs: u32,
    #[comptime] layer: CubeLayer,
    #[comptime] slots: u32,
    #[define(E)] _numbers: ElemType,
) {
    let rows = comptime!(layer.rows() as u32);
    let bases = comptime!(layer.bases() as u32);
    let plane = UNIT_POS_Y;
    let unit = plane * PLANE + UNIT_POS_X;
    let first_output = CUBE_POS_X * TILE;
    let first_input = cube_along() * slots;
    let plane_row = plane / 2 * 32;
    let plane_output = plane % 2 * 64;

    // `[TILE, ROW]`: the samples of a row are neighbours.
    let size = comptime!((TILE * ROW) as usize);
    let mut values = Shared::<[E]>::new_aligned_slice(size, 32usize);
    let of_dy = comptime!((SAMPLES * PITCH) as usize);
    let mut gradients = Shared::<[E]>::new_aligned_slice(of_dy, 32usize);
    let block = comptime!((FRAGMENT * FRAGMENT) as usize);
    let mut results =
        Shared::<[f32]>::new_aligned_slice(comptime!(PLANES as usize * block), 32usize);
    let mut sums = Sequence::<cmma::Matrix<f32>>::new();
    #[unroll]
    for _ in 0..8 {
        sums.push(cmma::Matrix::<f32>::from_value(
            cmma::MatrixIdent::Accumulator,
            16usize,
            16usize,
            16usize,
            cmma::MatrixLayout::Undefined,
            0.0f32,
        ));
    }
    // The rows after the last input's stay zero.
    let mut at = unit;
    while at < comptime!(TILE * ROW) {
        values[at as usize] = E::cast_from(0.0f32);
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
            let number = x[row as usize * in_features as usize + input as usize];
            let is_there = first_sample + sample < batch;
            let at = slot * rows * ROW + sample;
            write_values::<E>(&mut values, at, ROW, number, is_there, &knots, layer, true);
            pair += UNITS;
        }
        let mut at = unit;
        while at < comptime!(SAMPLES * TILE) {
            let (sample, place) = (at / TILE, at % TILE);
            let output = first_output + place;
            let mut gradient = 0.0f32;
            if first_sample + sample < batch && output < outputs {
                let row = (first_sample + sample) as usize * outputs as usize;
                gradient = dy[row + output as usize];
            }
            gradients[(sample * PITCH + place) as usize] = E::cast_from(gradient);
            at += UNITS;
        }
        sync_cube();

        #[unroll]
        for step in 0..comptime!(SAMPLES / FRAGMENT) {
            let mut factors = Sequence::<cmma::Matrix<E>>::new();
            #[unroll]
            for half in 0..2u32 {
                let row = plane_row + comptime!(half * FRAGMENT);
                let start = (row * ROW + comptime!(step * FRAGMENT)) as usize;
                factors.push(cmma::Matrix::<E>::from_slice(
                    cmma::MatrixIdent::A,
                    16usize,
                    16usize,
                    16usize,
                    cmma::MatrixLayout::RowMajor,
                    &values[start..size],
                    ROW,
                ));
            }
            #[unroll]
            for part in 0..4u32 {
                let line = comptime!(step * FRAGMENT * PITCH + part * FRAGMENT);
                let of_part = cmma::Matrix::<E>::from_slice(
                    cmma::MatrixIdent::B,
                    16usize,
                    16usize,
                    16usize,
                    cmma::MatrixLayout::RowMajor,
                    &gradients[(plane_output + line) as usize..of_dy],
                    PITCH,
                );
                #[unroll]
                for half in 0..2usize {
                    let sum = sums.index(comptime!(half * 4 + part as usize));
                    cmma::execute(factors.index(half), &of_part, sum, sum);
                }
            }
        }
        sync_cube();
        first_sample += SAMPLES;
    }

    let own = plane as usize * block;
    #[unroll]
    for fragment in 0..8usize {
        let (half, part) = comptime!((fragment as u32 / 4, fragment as u32 % 4));
        cmma::store(
            &mut results[own..own + block],
            sums.index(fragment),
            16u32,
            cmma::MatrixLayout::RowMajor,
        );
        sync_cube();
        #[unroll]
        for turn in 0..8u32 {
            let at = UNIT_POS_X + comptime!(turn * PLANE);
            let place = plane_row + comptime!(half * FRAGMENT) + at / FRAGMENT;
            let output = first_output + plane_output + comptime!(part * FRAGMENT) + at % FRAGMENT;
            let (slot, row) = (place / rows, place % rows);
            let input = first_input + slot;
            if slot < slots && input < in_features && output < outputs {
                let sum = results[own + at as usize];
                let mut is_base = false.runtime();
                if comptime!(layer.activation.is_some()) {
                    is_base = row == bases;
                }
                if is_base {
                    of_base[input as usize * outputs as usize + output as usize] = sum;
                } else {
                    let row = input as usize * bases as usize + row as usize;
                    of_spline[row * outputs as usize + output as usize] = sum;
                }
            }
        }
        sync_cube();
    }
}
