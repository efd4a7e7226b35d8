//! The sum of squares of each gradient, from those of its parts.

use cubecl::prelude::*;

use super::total::total;
use super::units::{PARTS, UNITS, address, cube_along, cube_per_gradient, size, units};

/// Adds the parts of at least one gradient, `[gradients, PARTS]`, to `sums`, `[gradients]`.
pub(crate) fn fold(client: &Client, gradients: usize, parts: BufferArg, sums: BufferArg) {
    sums_of_parts::launch(
        client,
        cube_per_gradient(gradients),
        units(),
        address(gradients * PARTS),
        parts,
        sums,
        size(gradients),
    );
}

#[cube(launch, address_type = "dynamic")]
fn sums_of_parts(parts: &[f32], sums: &mut [f32], gradients: u32) {
    let cube = cube_along();
    // Beyond the end the last one is summed, and not written.
    let row = min(cube, gradients - 1);
    let sum = total(parts[row as usize * comptime!(UNITS as usize) + UNIT_POS_X as usize]);
    if UNIT_POS_X == 0 && cube < gradients {
        sums[row as usize] = sum;
    }
}
