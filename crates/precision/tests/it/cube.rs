//! The kernels for GPUs, on every device that is found.

use burn::optim::GradientsParams;
use burn::tensor::{DType, FloatDType};
use updraft_precision::{DynamicScale, device_norm, norm_reason, square_sums};
use updraft_testing::{assert_close, gpus, launches, scattered, tolerance};

use crate::device_loss_scale;
use crate::device_norm::{check_formula, check_overflows, number, pair, read};

#[test]
fn norm_and_factor_follow_their_formulas() {
    for device in gpus() {
        assert_eq!(norm_reason(&device, DType::F32), None);
        // One number, one part, several parts, and all of them.
        for rows in [1, 7, 819, 820, 5000, 300_000] {
            check_formula(&device, FloatDType::F32, rows);
        }
        if device.supports_dtype(DType::F16) {
            check_formula(&device, FloatDType::F16, 900);
        }
    }
}

#[test]
fn a_norm_that_is_not_finite_is_reported_and_the_factor_stays_finite() {
    for device in gpus() {
        check_overflows(&device);
    }
}

#[test]
fn the_sums_of_squares_are_those_of_each_gradient() {
    for device in gpus() {
        let (left, right) = (scattered(1, 45_000), scattered(2, 12));
        let (module, mut gradients) = pair(&left, &right, &device, FloatDType::F32);
        let of = |values: &[f32]| values.iter().map(|&x| f64::from(x).powi(2)).sum::<f64>();
        let expected = [of(&left), of(&right)];
        let sums = square_sums(&gradients, &module).expect("two gradients");
        assert_eq!(sums.dims(), [2]);
        assert_close(&sums, &expected, tolerance::F32);
        // One that is not stored row by row.
        let id = module.left.weight.id;
        let turned = gradients.remove::<2>(id).expect("a gradient").transpose();
        gradients.register(id, turned);
        let sums = square_sums(&gradients, &module).expect("two gradients");
        assert_close(&sums, &expected, tolerance::F32);
    }
}

#[test]
fn an_empty_gradient_adds_nothing() {
    for device in gpus() {
        let (module, gradients) = pair(&[], &[2.0; 12], &device, FloatDType::F32);
        let found = device_norm(&gradients, &module, number(1.0, &device), None);
        let [norm, is_finite, factor] = read(found);
        assert!((norm - 48.0_f64.sqrt()).abs() < 1e-5, "{norm}");
        assert_eq!([is_finite, factor], [1.0, 1.0]);
        let none = device_norm(&GradientsParams::new(), &module, number(2.0, &device), None);
        assert_eq!(read(none), [0.0, 1.0, 0.5]);
    }
}

#[test]
fn the_loss_scale_is_that_of_the_host() {
    for device in gpus() {
        let settings = DynamicScale { interval: 3, ..DynamicScale::default() };
        let steps: Vec<bool> = (0..20).map(|step| step % 7 != 4 && step != 5).collect();
        device_loss_scale::check(&device, settings, &steps);
    }
}

#[test]
fn a_norm_is_one_launch_for_each_gradient_and_one_for_all() {
    for device in gpus() {
        let (module, gradients) = pair(&scattered(1, 45_000), &[1.0; 12], &device, FloatDType::F32);
        let scale = number(2.0, &device);
        // Kernels are compiled in a first run.
        for _ in 0..2 {
            let norm = || device_norm(&gradients, &module, scale.clone(), Some(1.0));
            let (_, launched) = launches(&device, norm);
            let of = |part: &str| launched.iter().filter(|name| name.contains(part)).count();
            let ours = ["::squares_of_parts::", "::norm_of_parts::"].map(of);
            assert_eq!(ours, [2, 1], "{launched:?}");
            // And the zeros of the parts.
            assert!(launched.len() <= 4, "{launched:?}");
        }
    }
}

#[test]
fn two_runs_give_the_same_bits() {
    for device in gpus() {
        let (module, gradients) =
            pair(&scattered(1, 45_000), &scattered(2, 12), &device, FloatDType::F32);
        let run = || {
            let found = device_norm(&gradients, &module, number(3.0, &device), Some(1.0));
            read(found).map(f64::to_bits)
        };
        assert_eq!(run(), run());
    }
}
