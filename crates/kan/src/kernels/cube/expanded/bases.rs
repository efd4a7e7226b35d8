//! The values of all bases.

use cubecl::ir::ElemType;
use cubecl::prelude::*;

use super::{Part, address};
use crate::grid::Grid;
use crate::kernels::cube::buffers::Sizes;
use crate::kernels::cube::layer::{CubeLayer, knots};
use crate::kernels::cube::position::Knots;
use crate::kernels::cube::tiles::{cube_along, cubes};
use crate::kernels::cube::values::write_values;
use crate::kernels::cube_cost::expanded::{UNITS, pairs_of_cube};

/// Writes the values at a part of `x`, `[part.samples, part.inputs · rows]`. An input without a
/// value has NaN in all rows for gradients, else in those of a window.
#[expect(clippy::too_many_arguments, reason = "a kernel's sizes, inputs, outputs and device")]
pub(crate) fn write_bases(
    client: &Client,
    grid: &Grid,
    layer: CubeLayer,
    sizes: Sizes,
    part: Part,
    numbers: ElemType,
    is_for_gradients: bool,
    x: BufferArg,
    values: BufferArg,
) {
    let pairs = pairs_of_cube(layer, numbers.size());
    bases_of_part::launch(
        client,
        cubes(1, part.pairs().div_ceil(pairs) as usize),
        CubeDim::new_1d(UNITS),
        address(sizes, part.pairs() as usize * layer.rows()),
        x,
        values,
        knots(grid),
        sizes.inputs,
        part.first_sample,
        part.first_input,
        part.inputs,
        part.pairs(),
        layer,
        pairs,
        is_for_gradients,
        numbers,
    );
}

#[cube(launch, address_type = "dynamic")]
fn bases_of_part<E: Float>(
    x: &[f32],
    values: &mut [E],
    knots: Knots,
    in_features: u32,
    first_sample: u32,
    first_input: u32,
    inputs: u32,
    all: u32,
    #[comptime] layer: CubeLayer,
    #[comptime] pairs: u32,
    #[comptime] is_for_gradients: bool,
    #[define(E)] _numbers: ElemType,
) {
    let rows = comptime!(layer.rows() as u32);
    let unit = UNIT_POS_X;
    let first = cube_along() * pairs;
    // In memory, the rows of a pair follow those of the one before: units write them in its order.
    let mut staged = Shared::<[E]>::new_slice(comptime!((pairs * rows) as usize));
    if unit < pairs && first + unit < all {
        let pair = first + unit;
        let (sample, input) = (first_sample + pair / inputs, first_input + pair % inputs);
        let number = x[sample as usize * in_features as usize + input as usize];
        let there = true.runtime();
        let at = unit * rows;
        write_values::<E>(&mut staged, at, 1u32, number, there, &knots, layer, is_for_gradients);
    }
    sync_cube();
    if first < all {
        let end = min(pairs, all - first) * rows;
        let start = first as usize * comptime!(rows as usize);
        let mut at = unit;
        while at < end {
            values[start + at as usize] = staged[at as usize];
            at += UNITS;
        }
    }
}
