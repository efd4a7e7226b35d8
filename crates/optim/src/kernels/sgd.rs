//! A step of stochastic gradient descent on slices.

use updraft_simd::{Cut, Isa, dispatch, over};

use super::numbers::{Momentum, SgdUpdate};
use super::pieces::{PIECE, states};

/// Updates a parameter, on the threads of the pool.
///
/// Every number is computed by itself, in the order of burn's operations, so that neither the
/// instruction set nor the number of threads changes a bit.
///
/// # Panics
/// If the lengths differ.
pub(crate) fn step(update: SgdUpdate, parameter: &mut [f32], gradient: &[f32]) {
    let len = gradient.len();
    assert_eq!(parameter.len(), len, "numbers of a parameter");
    let vectors = Isa::detect().vectors();
    over(Cut::new(parameter, PIECE), &mut states(len), |index, parameter, ()| {
        let gradient = &gradient[index * PIECE..][..parameter.len()];
        piece(vectors, update, parameter, gradient);
    });
}

/// Updates a parameter and its velocity, as [`step`].
///
/// # Panics
/// If the lengths differ.
pub(crate) fn step_with_momentum(
    update: SgdUpdate,
    momentum: Momentum,
    parameter: &mut [f32],
    gradient: &[f32],
    velocity: &mut [f32],
) {
    let len = gradient.len();
    assert_eq!([parameter.len(), velocity.len()], [len; 2], "numbers of a parameter");
    let vectors = Isa::detect().vectors();
    let pieces = (Cut::new(parameter, PIECE), Cut::new(velocity, PIECE));
    over(pieces, &mut states(len), |index, (parameter, velocity), ()| {
        let gradient = &gradient[index * PIECE..][..parameter.len()];
        piece_with_momentum(vectors, update, momentum, parameter, gradient, velocity);
    });
}

dispatch! {
    /// Updates neighboring numbers.
    fn piece(_simd, update: SgdUpdate, parameter: &mut [f32], gradient: &[f32]) {
        for (p, &g) in parameter.iter_mut().zip(gradient) {
            *p -= penalized(update, *p, g) * update.rate;
        }
    }

    /// Updates neighboring numbers and their velocities.
    fn piece_with_momentum(_simd, update: SgdUpdate,
        momentum: Momentum,
        parameter: &mut [f32],
        gradient: &[f32],
        velocity: &mut [f32],
    ) {
        let Momentum { is_first, factor, is_nesterov } = momentum;
        for ((p, &g), v) in parameter.iter_mut().zip(gradient).zip(velocity) {
            let g = penalized(update, *p, g);
            *v = if is_first { g } else { g + *v * factor };
            let direction = if is_nesterov { *v * factor + g } else { *v };
            *p -= direction * update.rate;
        }
    }
}

#[inline(always)]
fn penalized(update: SgdUpdate, parameter: f32, gradient: f32) -> f32 {
    update.penalty.map_or(gradient, |penalty| parameter * penalty + gradient)
}
