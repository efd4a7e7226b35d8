//! Results and gradients of the kernels for GPUs against the definition in f64.

use burn::tensor::{Device, Tensor, TensorData};
use updraft_conv::{Activation, batch_norm_train};
use updraft_testing::{Numbers, Tolerance, assert_close, gpus, tolerance};

use super::case::{ACTIVATIONS, By, Case, NAMES};

/// Statistics relative to each of them, without an absolute part: sums of f32 in three levels.
const STATISTICS: Tolerance = Tolerance::new(0.0, 1e-5);

/// Means relative to the largest: one rounding to f32, and sums of differences that are smaller.
const MEANS: Tolerance = Tolerance::new(1e-6, 0.0);

#[test]
fn results_and_gradients_are_those_of_the_definition_for_every_activation() {
    for device in gpus().into_iter().map(Device::autodiff) {
        for activation in ACTIVATIONS {
            for by in [By::Batch, By::Running] {
                let case = Case::new([5, 3, 63], by, activation);
                case.check(&device);
                case.with_residual().check(&device);
            }
        }
    }
}

#[test]
fn results_and_gradients_are_those_of_the_definition_for_odd_sizes() {
    for device in gpus().into_iter().map(Device::autodiff) {
        // One of everything; below, at and above the units of a cube; several parts of a channel,
        // whose ends lie inside planes.
        for dims in [
            [1, 1, 1],
            [1, 4, 33],
            [9, 2, 1],
            [300, 7, 1],
            [3, 1, 257],
            [2, 300, 4],
            [2, 2, 4097],
            [1500, 2, 3],
            [70, 2, 77],
        ] {
            for by in [By::Batch, By::Running] {
                Case::new(dims, by, Activation::Silu).with_residual().check(&device);
            }
        }
    }
}

#[test]
fn tensors_of_every_rank_are_normalized_by_their_second_axis() {
    for device in gpus().into_iter().map(Device::autodiff) {
        let case = |dims| Case::new(dims, By::Batch, Activation::Relu).with_residual();
        let flat = case([40, 3, 1]);
        flat.compare(&flat.run_in_shape(&device, [40, 3], None));
        let images = case([2, 3, 6 * 11]);
        images.compare(&images.run_in_shape(&device, [2, 3, 6, 11], None));
        let volumes = case([2, 3, 3 * 4 * 5]);
        volumes.compare(&volumes.run_in_shape(&device, [2, 3, 3, 4, 5], None));
    }
}

#[test]
fn means_far_from_zero_lose_no_digits() {
    for device in gpus() {
        let dims = [2, 2, 64 * 64];
        let near = |offset| Case::new(dims, By::Batch, Activation::Identity).at(offset);
        let mut columns = near(1000.0);
        // The columns that begin and halve the rows are far from all others.
        columns.x.iter_mut().step_by(32).for_each(|x| *x += 20.0);
        let mut first = near(1000.0);
        first.x[0] = -3000.0;
        for case in [near(0.0), near(1000.0), near(-30_000.0), columns, first] {
            let x = Tensor::<3>::from_data(TensorData::new(case.x.clone(), dims), &device);
            let vector = |values: [f32; 2]| Tensor::<1>::from_data(values, &device);
            let (gamma, beta) = (vector([1.5, 0.5]), vector([0.0, 1.0]));
            let output = batch_norm_train(x, gamma, beta, 1e-5, Activation::Identity);
            let [means, variances] = case.moments();
            assert_close(&output.variance, &variances, STATISTICS);
            let most = means.iter().fold(1.0_f64, |most, mean| most.max(mean.abs()));
            let share = |means: Vec<f64>| means.iter().map(|mean| mean / most).collect::<Vec<_>>();
            assert_close(&share(output.mean.numbers()), &share(means), MEANS);
        }
        let device = device.autodiff();
        for activation in [Activation::Identity, Activation::Gelu] {
            Case::new([3, 2, 100], By::Batch, activation).at(100.0).check(&device);
        }
    }
}

#[test]
fn the_definition_has_the_slopes_of_its_own_result() {
    // Steps of f32 that are exact, and small beside the curvature.
    const STEP: f32 = 1.0 / 4096.0;
    for activation in [Activation::Silu, Activation::Gelu, Activation::Identity] {
        for by in [By::Batch, By::Running] {
            let mut case = Case::new([2, 2, 5], by, activation).with_residual();
            case.x.iter_mut().for_each(|x| *x = (*x * 1024.0).round() / 1024.0);
            let loss = |case: &Case| {
                let [y, ..] = case.expected();
                y.iter().zip(&case.dy).map(|(y, &dy)| y * f64::from(dy)).sum::<f64>()
            };
            let [_, dx, .., dresidual] = case.expected();
            let at_step = |at: usize, step: f32| {
                let mut case = case.clone();
                case.x[at] += step;
                loss(&case)
            };
            for at in 0..case.x.len() {
                let rise = at_step(at, STEP) - at_step(at, -STEP);
                let slope = rise / (2.0 * f64::from(STEP));
                println!("{} at {at}, by {by:?}, {activation:?}", NAMES[1]);
                // The error of a central difference is the step's square times the third slope.
                assert_close(&dx[at], &slope, tolerance::F32_DEEP);
            }
            assert_eq!(dresidual.len(), case.x.len());
        }
    }
}
