//! The gradients of input and residual, from the sums over each channel.

use cubecl::ir::ElemType;
use cubecl::prelude::*;

use super::form::Form;
use super::function::pass;
use super::line::{line_at, on_line};
use super::sizes::{Division, Sizes, end_of, index_of};
use super::tiles::{UNITS, cube_index};
use crate::kernels::Activation;

/// Writes the gradients of the input and of the residual, `[batch, channels, pixels]` each, for that
/// of the result; `lines` is what the sums wrote. Without a residual its gradient is any buffer that
/// nothing else has.
#[expect(clippy::too_many_arguments, reason = "a kernel's sizes, inputs, outputs and device")]
pub(crate) fn input_gradient(
    client: &Client,
    sizes: Sizes,
    form: Form,
    x: BufferArg,
    residual: BufferArg,
    dy: BufferArg,
    lines: BufferArg,
    [dx, dresidual]: [BufferArg; 2],
) {
    let parts = sizes.parts_of_numbers();
    gradient_of_input::launch(
        client,
        parts.cubes(),
        CubeDim::new_1d(UNITS),
        sizes.address.max(AddressType::from_len(5 * sizes.channels as usize)),
        x,
        residual,
        dy,
        lines,
        dx,
        dresidual,
        parts.argument(),
        form.activation,
        form.has_residual,
        form.numbers,
    );
}

#[cube(launch, address_type = "dynamic")]
fn gradient_of_input<E: Float>(
    x: &[E],
    residual: &[E],
    dy: &[E],
    lines: &[f32],
    dx: &mut [E],
    dresidual: &mut [E],
    division: Division,
    #[comptime] activation: Activation,
    #[comptime] has_residual: bool,
    #[define(E)] _numbers: ElemType,
) {
    let channel = cube_index() % division.channels;
    let part = cube_index() / division.channels;
    if part < division.parts {
        let channels = division.channels as usize;
        let own = channel as usize;
        let line = line_at(lines, channel, division.channels);
        let first = lines[channels * 3usize + own];
        let second = lines[channels * 4usize + own];
        let end = end_of(part, &division);
        let mut at = part * division.numbers + UNIT_POS_X;
        let mut sample = at / division.pixels;
        let mut pixel = at % division.pixels;
        while at < end {
            let index = index_of(sample, channel, pixel, &division);
            let number = f32::cast_from(x[index]);
            let mut z = on_line(number, &line);
            if comptime!(has_residual) {
                z += f32::cast_from(residual[index]);
            }
            let g = pass(z, f32::cast_from(dy[index]), activation);
            let gradient = line.scale * (g - first - (number - line.mean) * second);
            dx[index] = E::cast_from(gradient);
            if comptime!(has_residual) {
                dresidual[index] = E::cast_from(g);
            }
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
