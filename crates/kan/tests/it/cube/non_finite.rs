//! NaN and infinity pass the kernels for GPUs as they pass those for CPUs.

use burn::tensor::Device;
use updraft_kan::slices::reference;
use updraft_kan::{Activation, CubeForm, KanLinearConfig, Outside};
use updraft_testing::gpus;

use super::case::{Case, NAMES};

#[test]
fn nan_and_infinity_pass_as_in_the_definition() {
    for device in gpus().into_iter().map(Device::autodiff) {
        for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            for outside in [Outside::Zero, Outside::Clamp, Outside::Extend] {
                if outside == Outside::Extend && bad.is_infinite() {
                    // The reference's zeros are products there, and none is zero.
                    continue;
                }
                for (degree, activation) in
                    [(1, None), (2, Some(Activation::Silu)), (3, Some(Activation::Relu)), (3, None)]
                {
                    let config = KanLinearConfig::new(3, 17).with_degree(degree).with_bias(true);
                    let config = config.with_outside(outside).with_activation(activation);
                    let mut case = Case::new(config, 40);
                    case.x[31] = bad;
                    case.check(&device);
                    if degree == 2 {
                        case.check_expanded(&device);
                    }
                }
                for degree in [0, 4] {
                    let config = KanLinearConfig::new(3, 17).with_degree(degree);
                    let mut case = Case::new(config.with_outside(outside), 40);
                    case.x[31] = bad;
                    case.check(&device);
                    case.uneven(true).check(&device);
                }
            }
        }
    }
}

#[test]
fn extended_polynomials_have_no_value_at_infinity() {
    for device in gpus().into_iter().map(Device::autodiff) {
        for (bad, degree) in [(f32::INFINITY, 1), (f32::NEG_INFINITY, 2), (f32::INFINITY, 3)] {
            let config = KanLinearConfig::new(3, 17).with_degree(degree).with_activation(None);
            let mut case = Case::new(config.with_outside(Outside::Extend), 40);
            case.x[31] = bad;
            let [y, ..] = case.clone().uneven(false).run(&device, CubeForm::Sparse);
            for (at, y) in y.iter().enumerate() {
                assert_eq!(y.is_nan(), at / 17 == 31 / 3, "uneven knots, degree {degree}");
            }
            for &form in case.forms() {
                let [y, ..] = case.run(&device, form);
                for (at, y) in y.iter().enumerate() {
                    assert_eq!(y.is_nan(), at / 17 == 31 / 3, "{form}, degree {degree}");
                }
            }
        }
    }
}

#[test]
fn what_is_not_finite_in_dy_reaches_what_its_sample_sees_and_nothing_else() {
    let [row, output, inputs, outputs] = [31, 11, 3, 17];
    for device in gpus().into_iter().map(Device::autodiff) {
        for degree in 1..=3 {
            let config = KanLinearConfig::new(inputs, outputs).with_intervals(7).with_bias(true);
            let mut case = Case::new(config.with_degree(degree), 300);
            case.x[row * inputs..(row + 1) * inputs].copy_from_slice(&[-0.7, 0.05, 0.8]);
            let with = |dy: f32| {
                let mut case = case.clone();
                case.dy[row * outputs + output] = dy;
                // Zeros of the dense form are multiplied, too.
                case.run(&device, CubeForm::Sparse)
            };
            let finite = with(0.0);
            for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
                let reached = with(bad);
                let grid = case.config.init(&Device::flex()).geometry().grid().clone();
                let is_seen = |which: usize, at: usize| match which {
                    1 => at / inputs == row,
                    2 => {
                        let (input, basis) =
                            (at / outputs / grid.bases(), at / outputs % grid.bases());
                        let x = f64::from(case.x[row * inputs + input]);
                        let values = reference::bases(&grid, input, x);
                        at % outputs == output && values[basis] != 0.0
                    }
                    _ => at % outputs == output,
                };
                for which in 1..6 {
                    for (at, (value, other)) in
                        reached[which].iter().zip(&finite[which]).enumerate()
                    {
                        let is_left = value.to_bits() == other.to_bits();
                        let is_right =
                            if is_seen(which, at) { !value.is_finite() } else { is_left };
                        assert!(is_right, "{} at {at}: {value}, {other}", NAMES[which]);
                    }
                }
            }
        }
    }
}
