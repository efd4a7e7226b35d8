//! The forward pass: values of bases, `[batch, inputs · rows]`, times packed weights.
//!
//! A cube computes 128 samples and 128 outputs, a plane 32 and 64 of them.

use cubecl::ir::ElemType;
use cubecl::prelude::*;

use super::Packing;
use crate::grid::Grid;
use crate::kernels::cube::buffers::Sizes;
use crate::kernels::cube::layer::{CubeLayer, knots};
use crate::kernels::cube::position::Knots;
use crate::kernels::cube::tiles::{cube_along, cubes};
use crate::kernels::cube::values::write_values;
use crate::kernels::cube_cost::tensor_cores::{DEPTH, FRAGMENT, PITCH, PLANE, PLANES, TILE, UNITS};

/// Writes the outputs, `[batch, out_features]`, from packed weights.
#[expect(clippy::too_many_arguments, reason = "a kernel's sizes, inputs, outputs and device")]
pub(in super::super) fn forward(
    client: &Client,
    grid: &Grid,
    layer: CubeLayer,
    sizes: Sizes,
    numbers: ElemType,
    x: BufferArg,
    packed: BufferArg,
    bias: BufferArg,
    y: BufferArg,
) {
    let Packing { slots, depth, columns, .. } = Packing::new(layer, sizes);
    products_forward::launch(
        client,
        cubes((columns / TILE) as usize, sizes.batch.div_ceil(TILE) as usize),
        CubeDim::new_2d(PLANE, PLANES),
        sizes.address,
        x,
        packed,
        bias,
        y,
        knots(grid),
        sizes.batch,
        sizes.inputs,
        sizes.outputs,
        layer,
        slots,
        depth,
        numbers,
    );
}
const _: () = assert!(2 * 2 * DEPTH * PITCH + 4 * PLANES * FRAGMENT * FRAGMENT <= 49152);

#[cube(launch, address_type = "dynamic")]
fn products_forward<E: Float>(
    x: &[f32],
    packed: &[E],
    bias: &[f32],
    y: &mut [f32],
    knots: Knots,
    batch: u32,
    in_features: u32,
    outputs: u32,
    #[comptime] layer: CubeLayer,
    #[comptime] slots: u32,
    #[comptime] depth: u32,
    #[define(E)] _numbers: ElemType,
) {
    let rows = comptime!(layer.rows() as u32);
    let plane = UNIT_POS_Y;
    let unit = plane * PLANE + UNIT_POS_X;
    let columns = CUBE_COUNT_X * TILE;
    let first_output = CUBE_POS_X * TILE;
    let first_sample = cube_along() * TILE;
    let plane_sample = plane / 2 * 32;
    let plane_output = plane % 2 * 64;

    let size = comptime!((depth * PITCH) as usize);
    // `[depth, PITCH]`: the samples of a row are neighbours.
    let mut values = Shared::<[E]>::new_aligned_slice(size, 32usize);
    let mut weights = Shared::<[E]>::new_aligned_slice(size, 32usize);
    let block = comptime!((FRAGMENT * FRAGMENT) as usize);
    let mut results =
        Shared::<[f32]>::new_aligned_slice(comptime!(PLANES as usize * block), 32usize);
    // Two by four fragments of sums.
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
    // Rows that no input has stay zero.
    let mut at = unit;
    while at < comptime!(depth * PITCH) {
        values[at as usize] = E::cast_from(0.0f32);
        at += UNITS;
    }
    sync_cube();

    let mut chunk = 0u32.runtime();
    let mut first_input = 0u32.runtime();
    while first_input < in_features {
        let mut pair = unit;
        while pair < comptime!(slots * TILE) {
            let (slot, sample) = (pair / TILE, pair % TILE);
            // Beyond the end the last sample is evaluated, and its sums are not written.
            let row = min(first_sample + sample, batch - 1);
            let input = min(first_input + slot, in_features - 1);
            let number = x[row as usize * in_features as usize + input as usize];
            let is_there = first_input + slot < in_features;
            let at = slot * rows * PITCH + sample;
            write_values::<E>(&mut values, at, PITCH, number, is_there, &knots, layer, false);
            pair += UNITS;
        }
        let mut at = unit;
        while at < comptime!(depth * TILE) {
            let (row, place) = (at / TILE, at % TILE);
            let line = (chunk * depth + row) as usize * columns as usize;
            weights[(row * PITCH + place) as usize] =
                packed[line + (first_output + place) as usize];
            at += UNITS;
        }
        sync_cube();

        #[unroll]
        for step in 0..comptime!(depth / FRAGMENT) {
            let line = comptime!(step * FRAGMENT * PITCH);
            let mut factors = Sequence::<cmma::Matrix<E>>::new();
            #[unroll]
            for half in 0..2u32 {
                let start = (line + plane_sample + comptime!(half * FRAGMENT)) as usize;
                factors.push(cmma::Matrix::<E>::from_slice(
                    cmma::MatrixIdent::A,
                    16usize,
                    16usize,
                    16usize,
                    cmma::MatrixLayout::ColMajor,
                    &values[start..size],
                    PITCH,
                ));
            }
            #[unroll]
            for part in 0..4u32 {
                let start = (line + plane_output + comptime!(part * FRAGMENT)) as usize;
                let of_part = cmma::Matrix::<E>::from_slice(
                    cmma::MatrixIdent::B,
                    16usize,
                    16usize,
                    16usize,
                    cmma::MatrixLayout::RowMajor,
                    &weights[start..size],
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
        chunk += 1u32;
        first_input += slots;
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
            let row = first_sample + plane_sample + comptime!(half * FRAGMENT) + at / FRAGMENT;
            let output = first_output + plane_output + comptime!(part * FRAGMENT) + at % FRAGMENT;
            if row < batch && output < outputs {
                let mut sum = results[own + at as usize];
                if comptime!(layer.has_bias) {
                    sum += bias[output as usize];
                }
                y[row as usize * outputs as usize + output as usize] = sum;
            }
        }
        sync_cube();
    }
}
