//! The gradient of the input: gradients of the outputs times packed weights, transposed, times
//! slopes.
//!
//! A cube computes 128 samples at a chunk of inputs, a plane 16 samples. The sums of all rows come
//! to shared memory, and those of the bases that are not flat are multiplied by their slopes.

use cubecl::ir::ElemType;
use cubecl::prelude::*;

use super::{Packing, SHARED_BYTES};
use crate::grid::Grid;
use crate::kernels::cube::buffers::Sizes;
use crate::kernels::cube::function;
use crate::kernels::cube::layer::{CubeLayer, knots};
use crate::kernels::cube::position::{Kind, Knots, basis, locate};
use crate::kernels::cube::tiles::{cube_along, cubes};
use crate::kernels::cube_cost::tensor_cores::input_gradient::{OUTPUTS, ROW};
use crate::kernels::cube_cost::tensor_cores::{DEPTH, FRAGMENT, PLANE, PLANES, TILE, UNITS};

const _: () = assert!(PLANES * FRAGMENT == TILE);
const _: () = assert!((4 * TILE * DEPTH + 2 * (TILE + DEPTH) * ROW) as usize <= SHARED_BYTES);

/// Writes the gradient, `[batch, in_features]`, from packed weights.
#[expect(clippy::too_many_arguments, reason = "a kernel's sizes, inputs, outputs and device")]
pub(in super::super) fn input_gradient(
    client: &Client,
    grid: &Grid,
    layer: CubeLayer,
    sizes: Sizes,
    numbers: ElemType,
    x: BufferArg,
    packed: BufferArg,
    dy: BufferArg,
    dx: BufferArg,
) {
    let Packing { slots, depth, chunks, columns } = Packing::new(layer, sizes);
    products_of_input::launch(
        client,
        cubes(chunks as usize, sizes.batch.div_ceil(TILE) as usize),
        CubeDim::new_2d(PLANE, PLANES),
        sizes.address,
        x,
        packed,
        dy,
        dx,
        knots(grid),
        sizes.batch,
        sizes.inputs,
        sizes.outputs,
        columns,
        layer,
        slots,
        depth,
        numbers,
    );
}

#[cube(launch, address_type = "dynamic")]
fn products_of_input<E: Float>(
    x: &[f32],
    packed: &[E],
    dy: &[f32],
    dx: &mut [f32],
    knots: Knots,
    batch: u32,
    in_features: u32,
    outputs: u32,
    columns: u32,
    #[comptime] layer: CubeLayer,
    #[comptime] slots: u32,
    #[comptime] depth: u32,
    #[define(E)] _numbers: ElemType,
) {
    let rows = comptime!(layer.rows() as u32);
    let parts = comptime!(depth / FRAGMENT);
    let plane = UNIT_POS_Y;
    let unit = plane * PLANE + UNIT_POS_X;
    let chunk = CUBE_POS_X;
    let first_input = chunk * slots;
    let first_sample = cube_along() * TILE;

    let of_dy = comptime!((TILE * ROW) as usize);
    let mut gradients = Shared::<[E]>::new_aligned_slice(of_dy, 32usize);
    let of_weights = comptime!((depth * ROW) as usize);
    let mut weights = Shared::<[E]>::new_aligned_slice(of_weights, 32usize);
    // `[TILE, depth]`.
    let of_rows = comptime!((TILE * depth) as usize);
    let mut results = Shared::<[f32]>::new_aligned_slice(of_rows, 32usize);
    let mut sums = Sequence::<cmma::Matrix<f32>>::new();
    #[unroll]
    for _ in 0..parts {
        sums.push(cmma::Matrix::<f32>::from_value(
            cmma::MatrixIdent::Accumulator,
            16usize,
            16usize,
            16usize,
            cmma::MatrixLayout::Undefined,
            0.0f32,
        ));
    }

    let mut first_output = 0u32.runtime();
    while first_output < outputs {
        let mut at = unit;
        while at < comptime!(TILE * OUTPUTS) {
            let (sample, place) = (at / OUTPUTS, at % OUTPUTS);
            let row = min(first_sample + sample, batch - 1);
            let mut gradient = 0.0f32;
            if first_output + place < outputs {
                gradient = dy[row as usize * outputs as usize + (first_output + place) as usize];
            }
            gradients[(sample * ROW + place) as usize] = E::cast_from(gradient);
            at += UNITS;
        }
        let mut at = unit;
        while at < comptime!(depth * OUTPUTS) {
            let (row, place) = (at / OUTPUTS, at % OUTPUTS);
            let line = (chunk * depth + row) as usize * columns as usize;
            // Packed weights have whole tiles of outputs.
            weights[(row * ROW + place) as usize] = packed[line + (first_output + place) as usize];
            at += UNITS;
        }
        sync_cube();

        #[unroll]
        for step in 0..comptime!(OUTPUTS / FRAGMENT) {
            let start = plane * comptime!(FRAGMENT * ROW) + comptime!(step * FRAGMENT);
            let of_samples = cmma::Matrix::<E>::from_slice(
                cmma::MatrixIdent::A,
                16usize,
                16usize,
                16usize,
                cmma::MatrixLayout::RowMajor,
                &gradients[start as usize..of_dy],
                ROW,
            );
            #[unroll]
            for part in 0..parts {
                let start = comptime!((part * FRAGMENT * ROW + step * FRAGMENT) as usize);
                let of_part = cmma::Matrix::<E>::from_slice(
                    cmma::MatrixIdent::B,
                    16usize,
                    16usize,
                    16usize,
                    cmma::MatrixLayout::ColMajor,
                    &weights[start..of_weights],
                    ROW,
                );
                let sum = sums.index(comptime!(part as usize));
                cmma::execute(&of_samples, &of_part, sum, sum);
            }
        }
        sync_cube();
        first_output += OUTPUTS;
    }

    #[unroll]
    for part in 0..parts {
        let start = (plane * comptime!(FRAGMENT * depth) + comptime!(part * FRAGMENT)) as usize;
        cmma::store(
            &mut results[start..of_rows],
            sums.index(comptime!(part as usize)),
            depth,
            cmma::MatrixLayout::RowMajor,
        );
    }
    sync_cube();

    let mut pair = unit;
    while pair < comptime!(slots * TILE) {
        let (sample, slot) = (pair / slots, pair % slots);
        let row = first_sample + sample;
        let input = first_input + slot;
        if row < batch && input < in_features {
            let at = row as usize * in_features as usize + input as usize;
            let number = x[at];
            let position = locate(number, &knots, layer);
            let first = sample * depth + slot * rows;
            let mut sum = 0.0f32;
            #[unroll]
            for tap in 0..comptime!(layer.taps()) {
                let of_row = first + position.window + comptime!(tap as u32);
                sum += basis(&position, layer, tap, Kind::Slope) * results[of_row as usize];
            }
            if comptime!(layer.activation.is_some()) {
                let of_base = first + comptime!(layer.bases() as u32);
                let activation = comptime!(layer.activation.unwrap_or_default());
                sum += function::slope(number, activation) * results[of_base as usize];
            }
            dx[at] = sum;
        }
        pair += UNITS;
    }
}
