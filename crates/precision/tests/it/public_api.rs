//! Every name this crate promises: removing one breaks this file, not a user.

use updraft_precision::{
    Islands, Parity, Policy, PrecisionError, clip_global_norm, first_non_finite, islands,
};

#[test]
fn the_promised_names_are_there() {
    let _ = size_of::<(Islands, Parity, Policy, PrecisionError)>();
    let _ = clip_global_norm::<burn::nn::Linear>;
    let _ = first_non_finite::<burn::nn::Linear>;
    let _ = islands::<burn::nn::Linear>;
}
