//! A step of stochastic gradient descent.

use cubecl::prelude::*;

use super::units::{TURNS, UNITS, address, cubes, first_number, length, units};
use crate::kernels::numbers::{Momentum, SgdUpdate};

/// The buffers of a parameter with as many numbers, and of a control.
pub(crate) struct SgdBuffers {
    /// The parameter, which is changed.
    pub(crate) parameter: BufferArg,
    pub(crate) gradient: BufferArg,
    /// One number each: the factor of the gradient, and whether the update is applied. Without a
    /// control any buffers that are only read.
    pub(crate) control: [BufferArg; 2],
    pub(crate) is_controlled: bool,
}

/// Updates a parameter of at least one number.
pub(crate) fn sgd(client: &Client, len: usize, buffers: SgdBuffers, update: SgdUpdate) {
    let SgdBuffers { parameter, gradient, control: [factor, is_applied], is_controlled } = buffers;
    sgd_step::launch(
        client,
        cubes(len),
        units(),
        address(len),
        parameter,
        gradient,
        factor,
        is_applied,
        length(len),
        update.penalty.unwrap_or_default(),
        update.rate,
        update.penalty.is_some(),
        is_controlled,
    );
}

/// Updates a parameter of at least one number and its velocity.
pub(crate) fn sgd_with_momentum(
    client: &Client,
    len: usize,
    buffers: SgdBuffers,
    velocity: BufferArg,
    update: SgdUpdate,
    momentum: Momentum,
) {
    let SgdBuffers { parameter, gradient, control: [factor, is_applied], is_controlled } = buffers;
    momentum_step::launch(
        client,
        cubes(len),
        units(),
        address(len),
        parameter,
        gradient,
        velocity,
        factor,
        is_applied,
        length(len),
        update.penalty.unwrap_or_default(),
        update.rate,
        momentum.factor,
        update.penalty.is_some(),
        momentum.is_nesterov,
        is_controlled,
    );
}

#[cube(launch, address_type = "dynamic")]
fn sgd_step(
    parameter: &mut [f32],
    gradient: &[f32],
    factor: &[f32],
    is_applied: &[f32],
    len: u32,
    penalty: f32,
    rate: f32,
    #[comptime] is_penalized: bool,
    #[comptime] is_controlled: bool,
) {
    let end = numbers_to_change(is_applied, len, is_controlled);
    let start = first_number();
    #[unroll]
    for turn in 0..TURNS {
        let at = start + comptime!(turn * UNITS as usize);
        if at < end as usize {
            let before = parameter[at];
            let mut slope = gradient[at];
            if comptime!(is_controlled) {
                slope *= factor[0usize];
            }
            if comptime!(is_penalized) {
                slope += before * penalty;
            }
            parameter[at] = before - slope * rate;
        }
    }
}

#[cube(launch, address_type = "dynamic")]
fn momentum_step(
    parameter: &mut [f32],
    gradient: &[f32],
    velocity: &mut [f32],
    factor: &[f32],
    is_applied: &[f32],
    len: u32,
    penalty: f32,
    rate: f32,
    momentum: f32,
    #[comptime] is_penalized: bool,
    #[comptime] is_nesterov: bool,
    #[comptime] is_controlled: bool,
) {
    let end = numbers_to_change(is_applied, len, is_controlled);
    let start = first_number();
    #[unroll]
    for turn in 0..TURNS {
        let at = start + comptime!(turn * UNITS as usize);
        if at < end as usize {
            let before = parameter[at];
            let mut slope = gradient[at];
            if comptime!(is_controlled) {
                slope *= factor[0usize];
            }
            if comptime!(is_penalized) {
                slope += before * penalty;
            }
            let speed = slope + velocity[at] * momentum;
            velocity[at] = speed;
            let direction = if comptime!(is_nesterov) { speed * momentum + slope } else { speed };
            parameter[at] = before - direction * rate;
        }
    }
}

/// All numbers, or none if the update is not applied.
#[cube]
fn numbers_to_change(is_applied: &[f32], len: u32, #[comptime] is_controlled: bool) -> u32 {
    if comptime!(is_controlled) { select(is_applied[0usize] > 0.5f32, len, 0u32) } else { len }
}
