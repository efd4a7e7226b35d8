//! Normalization by given statistics, with residual and activation.

use cubecl::ir::ElemType;
use cubecl::prelude::*;

use super::form::{Form, Inputs};
use super::function::value;
use super::line::{line_of, on_line};
use super::sizes::{Division, Sizes, end_of, index_of};
use super::tiles::{UNITS, cube_index};
use crate::kernels::Activation;

/// Writes `activation((x − mean)/√(variance + epsilon)·gamma + beta + residual)`,
/// `[batch, channels, pixels]`.
pub(crate) fn apply(
    client: &Client,
    sizes: Sizes,
    form: Form,
    inputs: Inputs,
    epsilon: f32,
    y: BufferArg,
) {
    let Inputs { x, residual, gamma, beta, mean, variance } = inputs;
    let parts = sizes.parts_of_numbers();
    normalize_parts::launch(
        client,
        parts.cubes(),
        CubeDim::new_1d(UNITS),
        sizes.address,
        x,
        residual,
        gamma,
        beta,
        mean,
        variance,
        y,
        parts.argument(),
        epsilon,
        form.activation,
        form.has_residual,
        form.numbers,
    );
}

#[cube(launch, address_type = "dynamic")]
fn normalize_parts<E: Float>(
    x: &[E],
    residual: &[E],
    gamma: &[f32],
    beta: &[f32],
    mean: &[f32],
    variance: &[f32],
    y: &mut [E],
    division: Division,
    epsilon: f32,
    #[comptime] activation: Activation,
    #[comptime] has_residual: bool,
    #[define(E)] _numbers: ElemType,
) {
    let channel = cube_index() % division.channels;
    let part = cube_index() / division.channels;
    if part < division.parts {
        let line = line_of(channel, gamma, beta, mean, variance, epsilon);
        let end = end_of(part, &division);
        let mut at = part * division.numbers + UNIT_POS_X;
        let mut sample = at / division.pixels;
        let mut pixel = at % division.pixels;
        while at < end {
            let index = index_of(sample, channel, pixel, &division);
            let mut z = on_line(f32::cast_from(x[index]), &line);
            if comptime!(has_residual) {
                z += f32::cast_from(residual[index]);
            }
            y[index] = E::cast_from(value(z, activation));
            at += UNITS;
            sample += division.samples_on;
            pixel += division.pixels_on;
            if pixel >= division.pixels {
                pixel -= division.pixels;
                sample += 1u32;
            }
        }
    }
}
