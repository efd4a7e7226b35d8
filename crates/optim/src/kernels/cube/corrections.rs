//! What the steps of `AdamW` under a control read, once for all parameters with the same history.

use cubecl::prelude::*;

/// Numbers of the result.
pub(crate) const CONTROL: usize = 4;

/// Where the factor of the gradient is.
pub(super) const FACTOR: usize = 0;

/// Where it is whether the update is applied.
pub(super) const IS_APPLIED: usize = 1;

/// Where `1 − β₁ᵗ` is.
pub(super) const CORRECTION_1: usize = 2;

/// Where `1 − β₂ᵗ` is.
pub(super) const CORRECTION_2: usize = 3;

/// The buffers of a control, each with one number.
pub(crate) struct CorrectionBuffers {
    pub(crate) factor: BufferArg,
    pub(crate) is_applied: BufferArg,
    /// Updates that were applied before.
    pub(crate) applied: BufferArg,
    /// Those of them that were none of the parameter.
    pub(crate) missed: BufferArg,
}

/// Writes the [`CONTROL`] numbers of an update.
pub(crate) fn correct(
    client: &Client,
    buffers: CorrectionBuffers,
    [beta_1, beta_2]: [f32; 2],
    control: BufferArg,
) {
    let CorrectionBuffers { factor, is_applied, applied, missed } = buffers;
    corrections::launch(
        client,
        CubeCount::Static(1, 1, 1),
        CubeDim::new_1d(1),
        AddressType::U32,
        factor,
        is_applied,
        applied,
        missed,
        control,
        beta_1,
        beta_2,
    );
}

#[cube(launch, address_type = "dynamic")]
fn corrections(
    factor: &[f32],
    is_applied: &[f32],
    applied: &[f32],
    missed: &[f32],
    control: &mut [f32],
    beta_1: f32,
    beta_2: f32,
) {
    control[comptime!(FACTOR)] = factor[0usize];
    control[comptime!(IS_APPLIED)] = is_applied[0usize];
    let before = applied[0usize] - missed[0usize];
    // Whole numbers; a half more makes the conversion independent of how it rounds.
    let time = u32::cast_from(before + 0.5f32) + 1u32;
    control[comptime!(CORRECTION_1)] = 1.0f32 - power(beta_1, time);
    control[comptime!(CORRECTION_2)] = 1.0f32 - power(beta_2, time);
}

/// A power by repeated squares, as `f32::powi`: the power by logarithms of shaders has an error of
/// the size of `1 − β₂` in the first steps.
#[cube]
fn power(of: f32, exponent: u32) -> f32 {
    let mut product = 1.0f32.runtime();
    let mut square = of;
    let mut left = exponent;
    while left > 0u32 {
        if left % 2u32 == 1u32 {
            product *= square;
        }
        square *= square;
        left /= 2u32;
    }
    product
}
