//! The norm of all gradients, and what follows from it.

use cubecl::prelude::*;

use super::total::total;
use super::units::{UNITS, address, size, units};

/// The buffers of a norm; all but the first have one number.
pub(crate) struct NormBuffers {
    /// The parts of sums of squares.
    pub(crate) parts: BufferArg,
    /// What the gradients are divided by.
    pub(crate) scale: BufferArg,
    /// The norm of the divided gradients.
    pub(crate) norm: BufferArg,
    /// 1 if it is finite, else 0.
    pub(crate) is_finite: BufferArg,
    /// What the gradients are multiplied by.
    pub(crate) factor: BufferArg,
}

/// Writes norm, finiteness and factor of gradients with `count` parts; those with a norm above
/// `most` are clipped to it.
pub(crate) fn norm(client: &Client, count: usize, buffers: NormBuffers, most: f32) {
    let NormBuffers { parts, scale, norm, is_finite, factor } = buffers;
    norm_of_parts::launch(
        client,
        CubeCount::Static(1, 1, 1),
        units(),
        address(count),
        parts,
        scale,
        norm,
        is_finite,
        factor,
        size(count),
        most,
    );
}

#[cube(launch, address_type = "dynamic")]
fn norm_of_parts(
    parts: &[f32],
    scale: &[f32],
    norm: &mut [f32],
    is_finite: &mut [f32],
    factor: &mut [f32],
    count: u32,
    most: f32,
) {
    let mut sum = 0.0f32;
    let mut at = UNIT_POS_X;
    while at < count {
        sum += parts[at as usize];
        at += UNITS;
    }
    let squares = total(sum);
    if UNIT_POS_X == 0 {
        let divisor = scale[0usize];
        let value = f32::sqrt(squares) / divisor;
        let finite = is_number(squares) && is_number(value);
        norm[0usize] = value;
        is_finite[0usize] = select(finite, 1.0f32, 0.0f32);
        let is_clipped = finite && value > most;
        factor[0usize] = select(is_clipped, most / value, 1.0f32) / divisor;
    }
}

/// Whether a number is finite, by its bits: compilers of shaders assume that all are.
#[cube]
fn is_number(x: f32) -> bool {
    (u32::reinterpret(x) & 0x7F80_0000u32) < 0x7F80_0000u32
}
