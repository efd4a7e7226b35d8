//! A step of `AdamW` on slices.

use updraft_simd::{Cut, Isa, dispatch, over};

use super::numbers::AdamWUpdate;
use super::pieces::{PIECE, states};

/// Updates a parameter and both moments, on the threads of the pool.
///
/// Every number is computed by itself, in the order of burn's operations, so that neither the
/// instruction set nor the number of threads changes a bit.
///
/// # Panics
/// If the lengths differ.
pub(crate) fn step(
    update: AdamWUpdate,
    parameter: &mut [f32],
    gradient: &[f32],
    [first, second]: [&mut [f32]; 2],
) {
    let len = gradient.len();
    assert_eq!([parameter.len(), first.len(), second.len()], [len; 3], "numbers of a parameter");
    let vectors = Isa::detect().vectors();
    let pieces = ((Cut::new(parameter, PIECE), Cut::new(first, PIECE)), Cut::new(second, PIECE));
    over(pieces, &mut states(len), |index, ((parameter, first), second), ()| {
        let gradient = &gradient[index * PIECE..][..parameter.len()];
        piece(vectors, update, parameter, gradient, first, second);
    });
}

dispatch! {
    /// Updates neighboring numbers.
    fn piece(_simd, update: AdamWUpdate,
        parameter: &mut [f32],
        gradient: &[f32],
        first: &mut [f32],
        second: &mut [f32],
    ) {
        let AdamWUpdate { is_first, beta, corrections, epsilon, kept, rate } = update;
        let factors = beta.map(|beta| 1.0 - beta);
        let moments = first.iter_mut().zip(second);
        for ((p, &g), (m, v)) in parameter.iter_mut().zip(gradient).zip(moments) {
            let (new_m, new_v) = (g * factors[0], g * g * factors[1]);
            (*m, *v) = if is_first {
                (new_m, new_v)
            } else {
                (*m * beta[0] + new_m, *v * beta[1] + new_v)
            };
            let direction = *m / corrections[0] / ((*v / corrections[1]).sqrt() + epsilon);
            *p = *p * kept - direction * rate;
        }
    }
}
