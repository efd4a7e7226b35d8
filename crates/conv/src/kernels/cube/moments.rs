//! The mean and the variance of each channel: of its parts, then merged.
//!
//! Every unit merges one number after the other into a mean and a sum of squared differences from it,
//! of the differences from a number near the mean. Means far from zero therefore lose no digits,
//! neither in the squares nor in the mean itself.

use cubecl::ir::ElemType;
use cubecl::prelude::*;

use super::sizes::{Division, Sizes, end_of, index_of};
use super::sums::{add_up, merge};
use super::tiles::{UNITS, cube_index, cubes};

/// Writes mean and variance, without Bessel's correction, `[channels]` each, of a tensor
/// `[batch, channels, pixels]` of these numbers; `between` is a buffer of
/// [`Sizes::moments_len`], to write it and to read it.
pub(crate) fn moments(
    client: &Client,
    sizes: Sizes,
    numbers: ElemType,
    x: BufferArg,
    between: [BufferArg; 2],
    statistics: [BufferArg; 2],
) {
    let parts = sizes.parts_of_sums();
    let ([to, from], [mean, variance]) = (between, statistics);
    moments_of_parts::launch(
        client,
        parts.cubes(),
        CubeDim::new_1d(UNITS),
        sizes.address,
        x,
        to,
        parts.argument(),
        numbers,
    );
    moments_of_channels::launch(
        client,
        cubes(sizes.channels.div_ceil(UNITS) as usize),
        CubeDim::new_1d(UNITS),
        AddressType::from_len(sizes.moments_len()),
        from,
        mean,
        variance,
        parts.argument(),
    );
}

/// Writes `[2, parts, channels]`, differences of means from a number near them and sums of squared
/// differences from means, and behind them the numbers near the means, `[channels]`.
#[cube(launch, address_type = "dynamic")]
fn moments_of_parts<E: Float>(
    x: &[E],
    moments: &mut [f32],
    division: Division,
    #[define(E)] _numbers: ElemType,
) {
    let unit = UNIT_POS_X;
    let channel = cube_index() % division.channels;
    // Beyond the end the last part is computed, and not written.
    let is_there = cube_index() / division.channels < division.parts;
    let part = min(cube_index() / division.channels, division.parts - 1u32);
    let mut counts = Shared::<[f32]>::new_slice(UNITS as usize);
    let mut means = Shared::<[f32]>::new_slice(UNITS as usize);
    let mut squares = Shared::<[f32]>::new_slice(UNITS as usize);

    // A number near the mean, which is the same for all parts: the mean of numbers from the whole
    // channel.
    let taken = min(division.count, UNITS);
    let mut one = 0.0f32;
    if unit < taken {
        let at = unit * (division.count / taken);
        let pixel = at % division.pixels;
        one = f32::cast_from(x[index_of(at / division.pixels, channel, pixel, &division)]);
    }
    means[unit as usize] = one;
    add_up(&mut means);
    let near = means[0usize] / f32::cast_from(taken);
    sync_cube();

    let end = end_of(part, &division);
    let mut at = part * division.numbers + unit;
    let mut sample = at / division.pixels;
    let mut pixel = at % division.pixels;
    let mut count = 0.0f32;
    let mut mean = 0.0f32;
    let mut square = 0.0f32;
    while at < end {
        let number = f32::cast_from(x[index_of(sample, channel, pixel, &division)]) - near;
        let difference = number - mean;
        count += 1.0f32;
        mean += difference / count;
        square += difference * (number - mean);
        at += UNITS;
        sample += division.samples_on;
        pixel += division.pixels_on;
        if pixel >= division.pixels {
            pixel -= division.pixels;
            sample += 1u32;
        }
    }
    counts[unit as usize] = count;
    means[unit as usize] = mean;
    squares[unit as usize] = square;
    merge(&mut counts, &mut means, &mut squares);
    if unit == 0u32 && is_there {
        let all = division.parts as usize * division.channels as usize;
        let own = part as usize * division.channels as usize + channel as usize;
        moments[own] = means[0usize];
        moments[all + own] = squares[0usize];
        if part == 0u32 {
            moments[all + all + channel as usize] = near;
        }
    }
}

#[cube(launch, address_type = "dynamic")]
fn moments_of_channels(
    moments: &[f32],
    mean: &mut [f32],
    variance: &mut [f32],
    division: Division,
) {
    let channel = cube_index() * UNITS + UNIT_POS_X;
    if channel < division.channels {
        let all = division.parts as usize * division.channels as usize;
        let mut count = 0.0f32;
        let mut difference_from_near = 0.0f32;
        let mut square = 0.0f32;
        for part in 0..division.parts {
            let own = part as usize * division.channels as usize + channel as usize;
            let more = f32::cast_from(end_of(part, &division) - part * division.numbers);
            let share = more / (count + more);
            let difference = moments[own] - difference_from_near;
            square += moments[all + own] + difference * difference * (count * share);
            difference_from_near += difference * share;
            count += more;
        }
        mean[channel as usize] = moments[all + all + channel as usize] + difference_from_near;
        variance[channel as usize] = square / count;
    }
}
