//! Convolutions of images whose factors are rounded to bf16, as products of tiles.
//!
//! Sums are in f32, in an order that depends on the shape alone. No image is reordered by pixel: a tile
//! of the right factor has pairs of channels of 16 neighboring pixels, which lie in two planes.

mod pack;
mod pass;
#[cfg(test)]
mod tests;
mod weight_gradient;

pub(super) use pass::TilePass;
pub(super) use weight_gradient::weight_gradient;

use updraft_simd::{Bf16Unit, Isa};

/// What multiplies tiles beside an instruction set: the portable one uses no unit, with the same bits.
fn unit(isa: Isa) -> Bf16Unit {
    let unit = Bf16Unit::detect();
    if isa == Isa::Portable { unit.plain() } else { unit }
}

/// Numbers of a plane, so that rows of tiles, a plane apart, lie in different lines of a cache.
const fn plane_len(len: usize, line: usize) -> usize {
    let lines = len.div_ceil(line);
    (lines + 1 - lines % 2) * line
}
