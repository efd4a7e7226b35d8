//! The gradient of the input from those of all bases.

use cubecl::ir::ElemType;
use cubecl::prelude::*;

use super::{Part, address};
use crate::grid::Grid;
use crate::kernels::cube::buffers::Sizes;
use crate::kernels::cube::function;
use crate::kernels::cube::layer::{CubeLayer, knots};
use crate::kernels::cube::position::{Kind, Knots, basis, locate};
use crate::kernels::cube::tiles::{cube_along, cubes};
use crate::kernels::cube_cost::expanded::{UNITS, pairs_of_cube};

/// Writes a part of the gradient, `[batch, in_features]`, from those of the values,
/// `[part.samples, part.inputs · rows]`.
#[expect(clippy::too_many_arguments, reason = "a kernel's sizes, inputs, outputs and device")]
pub(crate) fn contract(
    client: &Client,
    grid: &Grid,
    layer: CubeLayer,
    sizes: Sizes,
    part: Part,
    numbers: ElemType,
    x: BufferArg,
    of_values: BufferArg,
    dx: BufferArg,
) {
    let pairs = pairs_of_cube(layer, numbers.size());
    times_slopes::launch(
        client,
        cubes(1, part.pairs().div_ceil(pairs) as usize),
        CubeDim::new_1d(UNITS),
        address(sizes, part.pairs() as usize * layer.rows()),
        x,
        of_values,
        dx,
        knots(grid),
        sizes.inputs,
        part.first_sample,
        part.first_input,
        part.inputs,
        part.pairs(),
        layer,
        pairs,
        numbers,
    );
}

#[cube(launch, address_type = "dynamic")]
fn times_slopes<E: Float>(
    x: &[f32],
    of_values: &[E],
    dx: &mut [f32],
    knots: Knots,
    in_features: u32,
    first_sample: u32,
    first_input: u32,
    inputs: u32,
    all: u32,
    #[comptime] layer: CubeLayer,
    #[comptime] pairs: u32,
    #[define(E)] _numbers: ElemType,
) {
    let rows = comptime!(layer.rows() as u32);
    let unit = UNIT_POS_X;
    let first = cube_along() * pairs;
    let mut staged = Shared::<[E]>::new_slice(comptime!((pairs * rows) as usize));
    if first < all {
        let end = min(pairs, all - first) * rows;
        let start = first as usize * comptime!(rows as usize);
        let mut at = unit;
        while at < end {
            staged[at as usize] = of_values[start + at as usize];
            at += UNITS;
        }
    }
    sync_cube();
    if unit < pairs && first + unit < all {
        let pair = first + unit;
        let (sample, input) = (first_sample + pair / inputs, first_input + pair % inputs);
        let at = sample as usize * in_features as usize + input as usize;
        let number = x[at];
        let position = locate(number, &knots, layer);
        let mut sum = 0.0f32;
        #[unroll]
        for tap in 0..comptime!(layer.taps()) {
            let row = unit * rows + position.window + comptime!(tap as u32);
            let of_basis = f32::cast_from(staged[row as usize]);
            sum += basis(&position, layer, tap, Kind::Slope) * of_basis;
        }
        if comptime!(layer.activation.is_some()) {
            let row = unit * rows + comptime!(layer.bases() as u32);
            let activation = comptime!(layer.activation.unwrap_or_default());
            let of_base = f32::cast_from(staged[row as usize]);
            sum += function::slope(number, activation) * of_base;
        }
        dx[at] = sum;
    }
}
