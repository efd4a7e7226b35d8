//! Every name this crate promises: removing one breaks this file, not a user.

use updraft_precision::{
    Arithmetic, DynamicScale, Islands, LossScale, LossScaleState, LossScaler, Norm, Parity, Policy,
    PrecisionError, Unscaled, attempt, clip_global_norm, first_non_finite, islands, norms,
    square_sums, ssim,
};

#[test]
fn the_promised_names_are_there() {
    let _ = size_of::<(Arithmetic, Islands, Norm, Parity, Policy, PrecisionError)>();
    let _ = size_of::<(DynamicScale, LossScale, LossScaleState, LossScaler, Unscaled)>();
    let _ = clip_global_norm::<burn::nn::Linear>;
    let _ = square_sums::<burn::nn::Linear>;
    let _ = LossScaler::unscale_measured::<burn::nn::Linear>;
    let _ = first_non_finite::<burn::nn::Linear>;
    let _ = (islands::<burn::nn::Linear>, norms::<burn::nn::Linear>);
    let _ = (attempt::<burn::nn::Linear>, ssim);
}
