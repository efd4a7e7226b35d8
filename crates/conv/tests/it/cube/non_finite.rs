//! NaN and infinity stay visible, and stay in their channel.

use burn::tensor::Device;
use updraft_conv::Activation;
use updraft_testing::{gpus, relative_error};

use super::case::{ACTIVATIONS, By, Case, NAMES, numbers_of};

const DIMS: [usize; 3] = [4, 3, 90];

/// In the second channel.
const AT: usize = 410;

#[test]
fn a_channel_whose_statistics_are_not_finite_has_no_finite_results() {
    for device in gpus().into_iter().map(Device::autodiff) {
        for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            for activation in ACTIVATIONS {
                let mut case = Case::new(DIMS, By::Batch, activation);
                let finite = case.run(&device, None);
                assert!(numbers_of(1, DIMS).contains(&AT));
                case.x[AT] = bad;
                let actual = case.run(&device, None);
                for which in 0..4 {
                    for (at, (value, other)) in actual[which].iter().zip(&finite[which]).enumerate()
                    {
                        let channel = if which < 2 { at / DIMS[2] % DIMS[1] } else { at };
                        // The sum of gradients does not depend on the statistics themselves.
                        let is_left = which == 3 && channel == 1;
                        let is_right = match channel {
                            1 => is_left || value.is_nan(),
                            _ => value.to_bits() == other.to_bits(),
                        };
                        assert!(
                            is_right,
                            "{} at {at}: {value}, {other}, {activation:?}",
                            NAMES[which]
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn given_statistics_pass_what_is_not_finite_as_in_the_definition() {
    for device in gpus().into_iter().map(Device::autodiff) {
        for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            for activation in ACTIVATIONS {
                // Products of infinity and zero in the definition of both.
                let is_smooth = matches!(activation, Activation::Silu | Activation::Gelu);
                if bad.is_infinite() && is_smooth {
                    continue;
                }
                let mut case = Case::new(DIMS, By::Running, activation);
                case.x[AT] = bad;
                let (actual, expected) = (case.run(&device, None), case.expected());
                let error = relative_error(&actual[0], &expected[0]);
                assert!(error <= 1e-5, "{bad}, {activation:?}: {error:e}");
            }
        }
    }
}

#[test]
fn a_gradient_that_is_not_finite_reaches_what_it_should_and_nothing_else() {
    for device in gpus().into_iter().map(Device::autodiff) {
        for by in [By::Batch, By::Running] {
            let mut case = Case::new(DIMS, by, Activation::Silu).with_residual();
            let finite = case.run(&device, None);
            for bad in [f32::NAN, f32::INFINITY] {
                case.dy[AT] = bad;
                let reached = case.run(&device, None);
                for which in 1..5 {
                    let is_seen = |at: usize| match which {
                        1 if by == By::Batch => at / DIMS[2] % DIMS[1] == 1,
                        1 | 4 => at == AT,
                        _ => at == 1,
                    };
                    for (at, (value, other)) in
                        reached[which].iter().zip(&finite[which]).enumerate()
                    {
                        let is_left = value.to_bits() == other.to_bits();
                        let is_right = if is_seen(at) { !value.is_finite() } else { is_left };
                        assert!(is_right, "{} at {at}: {value}, {other}", NAMES[which]);
                    }
                }
            }
        }
    }
}
