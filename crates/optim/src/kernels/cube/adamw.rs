//! A step of `AdamW`.

use cubecl::prelude::*;

use super::corrections::{CORRECTION_1, CORRECTION_2, FACTOR, IS_APPLIED};
use super::units::{TURNS, UNITS, address, cubes, first_number, length, units};
use crate::kernels::numbers::AdamWUpdate;

/// The buffers of a parameter, each with as many numbers.
pub(crate) struct AdamWBuffers {
    /// The parameter, which is changed.
    pub(crate) parameter: BufferArg,
    pub(crate) gradient: BufferArg,
    /// The moments, which are changed.
    pub(crate) moments: [BufferArg; 2],
}

/// Updates a parameter of at least one number and both moments.
///
/// With `is_controlled`, `control` has what [`correct`](super::correct) has written, and replaces
/// the corrections of `update`; without, it is any buffer that is only read.
pub(crate) fn adamw(
    client: &Client,
    len: usize,
    buffers: AdamWBuffers,
    control: BufferArg,
    is_controlled: bool,
    update: AdamWUpdate,
) {
    let AdamWBuffers { parameter, gradient, moments: [first, second] } = buffers;
    let AdamWUpdate { beta: [beta_1, beta_2], corrections, epsilon, kept, rate, .. } = update;
    adamw_step::launch(
        client,
        cubes(len),
        units(),
        address(len),
        parameter,
        gradient,
        first,
        second,
        control,
        length(len),
        beta_1,
        beta_2,
        corrections[0],
        corrections[1],
        epsilon,
        kept,
        rate,
        is_controlled,
    );
}

#[cube(launch, address_type = "dynamic")]
fn adamw_step(
    parameter: &mut [f32],
    gradient: &[f32],
    first: &mut [f32],
    second: &mut [f32],
    control: &[f32],
    len: u32,
    beta_1: f32,
    beta_2: f32,
    given_1: f32,
    given_2: f32,
    epsilon: f32,
    kept: f32,
    rate: f32,
    #[comptime] is_controlled: bool,
) {
    let end = if comptime!(is_controlled) {
        select(control[comptime!(IS_APPLIED)] > 0.5f32, len, 0u32)
    } else {
        len
    };
    let factor =
        if comptime!(is_controlled) { control[comptime!(FACTOR)] } else { 1.0f32.runtime() };
    let correction_1 =
        if comptime!(is_controlled) { control[comptime!(CORRECTION_1)] } else { given_1 };
    let correction_2 =
        if comptime!(is_controlled) { control[comptime!(CORRECTION_2)] } else { given_2 };
    let rest_1 = 1.0f32 - beta_1;
    let rest_2 = 1.0f32 - beta_2;
    let start = first_number();
    #[unroll]
    for turn in 0..TURNS {
        let at = start + comptime!(turn * UNITS as usize);
        if at < end as usize {
            let mut slope = gradient[at];
            if comptime!(is_controlled) {
                slope *= factor;
            }
            let mean = first[at] * beta_1 + slope * rest_1;
            let square = second[at] * beta_2 + slope * slope * rest_2;
            first[at] = mean;
            second[at] = square;
            let direction = mean / correction_1 / (f32::sqrt(square / correction_2) + epsilon);
            parameter[at] = parameter[at] * kept - direction * rate;
        }
    }
}
