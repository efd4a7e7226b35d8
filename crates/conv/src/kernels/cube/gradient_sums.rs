//! The sums of a gradient over each channel: of its parts, then of all, with what the gradient of the
//! input needs of them.

use cubecl::ir::ElemType;
use cubecl::prelude::*;

use super::form::{Form, Inputs};
use super::function::pass;
use super::line::{line_of, on_line};
use super::sizes::{Division, Sizes, end_of, index_of};
use super::sums::add_up;
use super::tiles::{UNITS, cube_index, cubes};
use crate::kernels::{Activation, StatisticsOf};

/// The results for channels.
pub(crate) struct ChannelGradients {
    /// Of the factors, `[channels]`.
    pub(crate) gamma: BufferArg,
    /// Of the summands, `[channels]`.
    pub(crate) beta: BufferArg,
    /// For the gradient of the input, `[5, channels]`: mean, scale and shift of the normalization, and
    /// what is subtracted from a gradient, of itself and for each unit of the distance from the mean.
    pub(crate) lines: BufferArg,
}

/// Writes the gradients of factors and summands, and what the gradient of the input needs, for the
/// gradient of the result, `[batch, channels, pixels]`; `inputs` and `again` are the same tensors, and
/// `between` is a buffer of [`Sizes::gradient_sums_len`], to write it and to read it.
#[expect(clippy::too_many_arguments, reason = "a kernel's sizes, inputs, outputs and device")]
pub(crate) fn gradient_sums(
    client: &Client,
    sizes: Sizes,
    form: Form,
    of: StatisticsOf,
    [inputs, again]: [Inputs; 2],
    epsilon: f32,
    dy: BufferArg,
    between: [BufferArg; 2],
    gradients: ChannelGradients,
) {
    let parts = sizes.parts_of_sums();
    let [to, from] = between;
    gradient_sums_of_parts::launch(
        client,
        parts.cubes(),
        CubeDim::new_1d(UNITS),
        sizes.address,
        inputs.x,
        inputs.residual,
        dy,
        inputs.gamma,
        inputs.beta,
        inputs.mean,
        inputs.variance,
        to,
        parts.argument(),
        epsilon,
        form.activation,
        form.has_residual,
        form.numbers,
    );
    gradients_of_channels::launch(
        client,
        cubes(sizes.channels.div_ceil(UNITS) as usize),
        CubeDim::new_1d(UNITS),
        AddressType::from_len(sizes.gradient_sums_len().max(5 * sizes.channels as usize)),
        from,
        again.gamma,
        again.beta,
        again.mean,
        again.variance,
        gradients.gamma,
        gradients.beta,
        gradients.lines,
        parts.argument(),
        epsilon,
        of == StatisticsOf::Batch,
    );
}

/// Writes `[2, parts, channels]`: the sums of the gradient `g` that passes the activation, and those
/// of `g·(x − mean)`.
#[cube(launch, address_type = "dynamic")]
fn gradient_sums_of_parts<E: Float>(
    x: &[E],
    residual: &[E],
    dy: &[E],
    gamma: &[f32],
    beta: &[f32],
    mean: &[f32],
    variance: &[f32],
    sums: &mut [f32],
    division: Division,
    epsilon: f32,
    #[comptime] activation: Activation,
    #[comptime] has_residual: bool,
    #[define(E)] _numbers: ElemType,
) {
    let unit = UNIT_POS_X;
    let channel = cube_index() % division.channels;
    // Beyond the end the last part is computed, and not written.
    let is_there = cube_index() / division.channels < division.parts;
    let part = min(cube_index() / division.channels, division.parts - 1u32);
    let mut firsts = Shared::<[f32]>::new_slice(UNITS as usize);
    let mut seconds = Shared::<[f32]>::new_slice(UNITS as usize);

    let line = line_of(channel, gamma, beta, mean, variance, epsilon);
    let end = end_of(part, &division);
    let mut at = part * division.numbers + unit;
    let mut sample = at / division.pixels;
    let mut pixel = at % division.pixels;
    let mut first = 0.0f32;
    let mut second = 0.0f32;
    while at < end {
        let index = index_of(sample, channel, pixel, &division);
        let number = f32::cast_from(x[index]);
        let mut z = on_line(number, &line);
        if comptime!(has_residual) {
            z += f32::cast_from(residual[index]);
        }
        let g = pass(z, f32::cast_from(dy[index]), activation);
        first += g;
        second += g * (number - line.mean);
        at += UNITS;
        sample += division.samples_on;
        pixel += division.pixels_on;
        if pixel >= division.pixels {
            pixel -= division.pixels;
            sample += 1u32;
        }
    }
    firsts[unit as usize] = first;
    seconds[unit as usize] = second;
    add_up(&mut firsts);
    add_up(&mut seconds);
    if unit == 0u32 && is_there {
        let all = division.parts as usize * division.channels as usize;
        let own = part as usize * division.channels as usize + channel as usize;
        sums[own] = firsts[0usize];
        sums[all + own] = seconds[0usize];
    }
}

#[cube(launch, address_type = "dynamic")]
fn gradients_of_channels(
    sums: &[f32],
    gamma: &[f32],
    beta: &[f32],
    mean: &[f32],
    variance: &[f32],
    of_gamma: &mut [f32],
    of_beta: &mut [f32],
    lines: &mut [f32],
    division: Division,
    epsilon: f32,
    #[comptime] is_of_batch: bool,
) {
    let channel = cube_index() * UNITS + UNIT_POS_X;
    if channel < division.channels {
        let all = division.parts as usize * division.channels as usize;
        let mut first = 0.0f32;
        let mut second = 0.0f32;
        for part in 0..division.parts {
            let own = part as usize * division.channels as usize + channel as usize;
            first += sums[own];
            second += sums[all + own];
        }
        let line = line_of(channel, gamma, beta, mean, variance, epsilon);
        let at = channel as usize;
        let widened = variance[at] + epsilon;
        of_gamma[at] = second / f32::sqrt(widened);
        of_beta[at] = first;
        let channels = division.channels as usize;
        lines[at] = line.mean;
        lines[channels + at] = line.scale;
        lines[channels * 2usize + at] = line.shift;
        let mut of_itself = 0.0f32;
        let mut of_distance = 0.0f32;
        if comptime!(is_of_batch) {
            let count = f32::cast_from(division.count);
            of_itself = first / count;
            of_distance = second / widened / count;
        }
        lines[channels * 3usize + at] = of_itself;
        lines[channels * 4usize + at] = of_distance;
    }
}
