//! A step of `AdamW` under a control, by burn's operations.

use std::sync::Arc;

use burn::tensor::Tensor;

use crate::adamw::AdamW;
use crate::adamw_state::AdamWState;
use crate::count::{Count, Followed};
use crate::scope::Scope;
use crate::skipped::{spread, unless};

/// Computes the update with the operations of burn's optimizer, in their order, and takes either its
/// results or the numbers before.
pub(crate) fn step<const D: usize>(
    settings: &AdamW,
    scope: &Scope,
    followed: &Arc<Followed>,
    learning_rate: f64,
    parameter: Tensor<D>,
    gradient: Tensor<D>,
    state: Option<AdamWState<D>>,
) -> (Tensor<D>, AdamWState<D>) {
    let AdamW { beta_1, beta_2, epsilon, .. } = *settings;
    let gradient = gradient.clone() * spread(scope.control.factor.clone(), &gradient);
    let mean = gradient.clone().mul_scalar(1.0 - beta_1);
    let square = gradient.clone().square().mul_scalar(1.0 - beta_2);
    let (before, mean, square) = match state {
        Some(before) => {
            let mean = before.moment_1.clone().mul_scalar(beta_1).add(mean);
            let square = before.moment_2.clone().mul_scalar(beta_2).add(square);
            (before, mean, square)
        }
        None => (AdamWState::new(&gradient), mean, square),
    };
    let corrections = scope.corrections(followed, [beta_1, beta_2], || {
        [beta_1, beta_2].map(|beta| {
            let power = power(beta, followed.before().add_scalar(1.0), followed.most + 1);
            power.neg().add_scalar(1.0)
        })
    });
    let [correction_1, correction_2] = corrections.map(|by| spread(by, &gradient));
    let root = square.clone().div(correction_2).sqrt().add_scalar(epsilon);
    let direction = mean.clone().div(correction_1).div(root);
    let kept = settings.kept(learning_rate);
    let decayed = match kept == 1.0 {
        true => parameter.clone(),
        false => parameter.clone().mul_scalar(kept),
    };
    let moved = decayed - direction.mul_scalar(learning_rate);

    let is_skipped = scope.is_skipped();
    let state = AdamWState {
        moment_1: unless(mean, before.moment_1, &is_skipped),
        moment_2: unless(square, before.moment_2, &is_skipped),
        count: Count::OnDevice(Arc::clone(followed)),
    };
    (unless(moved, parameter, &is_skipped), state)
}

/// `of^exponent`, in the bits of `f32::powi`, for whole exponents of at most `most`, `[1]`.
///
/// By repeated squares: the power by logarithms has an error of the size of `1 − β₂` in the first
/// steps.
fn power(of: f32, exponent: Tensor<1>, most: usize) -> Tensor<1> {
    let mut product = exponent.ones_like();
    let (mut left, mut square) = (exponent, of);
    for _ in 0..usize::BITS - most.leading_zeros() {
        let half = left.clone().mul_scalar(0.5).floor();
        let is_odd = (left - half.clone().mul_scalar(2.0)).greater_scalar(0.5);
        product = product.clone().mask_where(is_odd, product.mul_scalar(square));
        (left, square) = (half, square * square);
    }
    product
}

#[cfg(test)]
mod tests {
    use std::hint::black_box;

    use burn::tensor::Device;

    use super::*;

    #[test]
    fn a_power_has_the_bits_of_the_one_on_the_host() {
        for of in [0.0_f32, 0.5, 0.9, 0.95, 0.999, 0.9999] {
            for exponent in [1_usize, 2, 3, 7, 8, 100, 4095, 100_000] {
                let on_device = Tensor::from_floats([exponent as f32], &Device::flex());
                let found = power(of, on_device, exponent + 3).into_scalar::<f32>();
                let exponent = i32::try_from(exponent).expect("small");
                // Not computed by the compiler, which takes another way.
                let expected = black_box(of).powi(black_box(exponent));
                assert_eq!(found.to_bits(), expected.to_bits(), "{of}^{exponent}");
            }
        }
    }
}
