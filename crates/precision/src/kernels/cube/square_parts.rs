//! The sums of squares of the parts of a gradient.

use cubecl::prelude::*;

use super::total::total;
use super::units::{PARTS, UNITS, address, cubes_of_gradient, size, units};

/// Writes the sums of squares of the parts of a gradient of at least one number to a row of
/// `parts`, `[gradients, PARTS]`; parts that it does not need keep their numbers.
pub(crate) fn square_parts(
    client: &Client,
    len: usize,
    gradient: BufferArg,
    parts: BufferArg,
    row: usize,
) {
    squares_of_parts::launch(
        client,
        cubes_of_gradient(len),
        units(),
        address(len.max((row + 1) * PARTS)),
        gradient,
        parts,
        size(len),
        size(row),
    );
}

#[cube(launch, address_type = "dynamic")]
fn squares_of_parts(gradient: &[f32], parts: &mut [f32], len: u32, row: u32) {
    let stride = CUBE_COUNT_X * UNITS;
    let first = CUBE_POS_X * UNITS + UNIT_POS_X;
    let end = len as usize;
    let mut at = first as usize;
    let mut sum = 0.0f32;
    while at < end {
        let slope = gradient[at];
        sum += slope * slope;
        at += stride as usize;
    }
    let of_cube = total(sum);
    if UNIT_POS_X == 0 {
        parts[row as usize * comptime!(PARTS) + CUBE_POS_X as usize] = of_cube;
    }
}
