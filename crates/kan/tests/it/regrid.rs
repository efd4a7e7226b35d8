//! Layers keep their functions over other knots.

use std::num::NonZeroUsize;

use burn::module::{Module, Param};
use burn::tensor::{Device, Distribution, Tensor};
use updraft_kan::slices::{Grid, refit};
use updraft_kan::{Kan, KanConfig, KanLinear, KanLinearConfig, Outside, Placement};
use updraft_testing::{Numbers, assert_close, autodiff_devices, devices, tolerance};

/// Far from uniform: the cube of a normal distribution, within [−1, 1].
fn samples(count: usize, features: usize, device: &Device) -> Tensor<2> {
    let normal = Tensor::random([count, features], Distribution::Normal(0.0, 0.6), device);
    normal.powi_scalar(3).clamp(-1.0, 1.0)
}

fn layer(device: &Device) -> KanLinear {
    let mut layer = KanLinearConfig::new(3, 4).with_noise_scale(1.0).init(device);
    let scaler = Tensor::random([3, 4], Distribution::Uniform(0.2, 3.0), device);
    layer.scaler = Some(Param::from_tensor(scaler));
    layer
}

/// `|a − b| / |b|`, in Euclidean norms.
fn change(a: &Tensor<2>, b: &Tensor<2>) -> f64 {
    let norm = |values: &[f64]| values.iter().map(|v| v * v).sum::<f64>().sqrt();
    norm(&(a.clone() - b.clone()).numbers()) / norm(&b.numbers())
}

/// The splines' part, which depends on the knots.
fn splines(layer: &KanLinear, x: &Tensor<2>) -> Tensor<2> {
    let mut layer = layer.clone();
    layer.base = None;
    layer.forward(x.clone())
}

#[test]
fn a_refit_keeps_the_function_where_scaling_twice_would_not() {
    for device in devices() {
        device.seed(11);
        let layer = layer(&device);
        let x = samples(800, 3, &device);
        let before = splines(&layer, &x);
        let after = layer.clone().refit(x.clone(), Placement::default()).unwrap();
        assert!(after.geometry().grid().features() == Some(3), "knots of each feature's own");
        let kept = change(&splines(&after, &x), &before);
        assert!(kept < 0.1, "ours changes the splines by {kept}");

        // The known implementation fits the scaled curve, and its scaler multiplies it again.
        let scaled = layer.spline.val() * layer.scaler.as_ref().unwrap().val().unsqueeze_dim(1);
        let (from, to) = (layer.geometry().grid(), after.geometry().grid());
        let floats = |values: Vec<f64>| values.into_iter().map(|v| v as f32).collect::<Vec<_>>();
        let twice = refit(from, to, &floats(scaled.numbers()), &floats(x.numbers()), 3);
        let twice = Tensor::<1>::from_floats(twice.as_slice(), &device).reshape([3, 8, 4]);
        let mut wrong = after;
        wrong.spline = Param::from_tensor(twice);
        let changed = change(&splines(&wrong, &x), &before);
        assert!(changed > 0.5, "scaling twice would change them by {changed}");
    }
}

#[test]
fn a_refit_over_finer_knots_comes_as_near_as_wanted() {
    for device in devices() {
        device.seed(12);
        let layer = layer(&device).refine(NonZeroUsize::new(8).unwrap()).unwrap();
        let x = samples(800, 3, &device);
        let after = layer.clone().refit(x.clone(), Placement::default()).unwrap();
        let kept = change(&splines(&after, &x), &splines(&layer, &x));
        assert!(kept < 5e-3, "{kept}");
    }
}

fn extended(device: &Device) -> Kan {
    let layer = KanLinearConfig::new(1, 1).with_noise_scale(0.5).with_outside(Outside::Extend);
    KanConfig::new(vec![3, 5, 2]).with_layer(layer).init(device)
}

#[test]
fn cutting_intervals_changes_nothing_inside_the_domain() {
    for device in devices() {
        device.seed(13);
        for layer in extended(&device).layers {
            let inputs = layer.geometry().in_features();
            let x = Tensor::<2>::random([200, inputs], Distribution::Uniform(-1.0, 1.0), &device);
            let y = layer.forward(x.clone()).numbers();
            let finer = layer.refine(NonZeroUsize::new(3).unwrap()).unwrap();
            assert_eq!(finer.geometry().grid().intervals(), 15);
            assert_close(&finer.forward(x).numbers(), &y, tolerance::F32);
        }
    }
}

#[test]
fn cutting_intervals_extends_the_same_polynomials() {
    // Outside, a basis grows with the cube of the distance in intervals, and with it the effect of
    // the rounding of its coefficient: finer knots cost digits there.
    for device in devices() {
        device.seed(13);
        let network = extended(&device);
        let x = Tensor::<2>::random([200, 3], Distribution::Uniform(-1.5, 1.5), &device);
        let y = network.forward(x.clone()).numbers();
        let finer = network.clone().refine(NonZeroUsize::new(3).unwrap()).unwrap();
        assert_close(&finer.forward(x.clone()).numbers(), &y, tolerance::F32_DEEP);
        let uneven = network.refit(x.clone(), Placement::default()).unwrap();
        let y = uneven.forward(x.clone()).numbers();
        let finer = uneven.refine(NonZeroUsize::new(2).unwrap()).unwrap();
        assert_close(&finer.forward(x).numbers(), &y, tolerance::F32_DEEP);
    }
}

#[test]
fn a_record_and_its_grid_restore_a_refit_layer() {
    for device in devices() {
        device.seed(14);
        let x = samples(100, 3, &device);
        let layer = layer(&device).refit(x.clone(), Placement::default()).unwrap();
        let grid = layer.geometry().grid().clone();
        let y = layer.forward(x.clone()).numbers();
        let fresh = KanLinearConfig::new(3, 4).init(&device).with_grid(grid).unwrap();
        assert_eq!(fresh.load_record(layer.into_record()).forward(x).numbers(), y);

        let other = Grid::uniform(-1.0, 1.0, 6, 3).unwrap();
        let fresh = KanLinearConfig::new(3, 4).init(&device);
        let message = fresh.with_grid(other).unwrap_err().to_string();
        assert_eq!(message, "expected 108 numbers in `spline`, got 96");
    }
}

#[test]
fn a_refit_layer_learns_on_and_bad_samples_leave_it_as_it_was() {
    for device in autodiff_devices() {
        device.seed(15);
        let layer = layer(&device);
        let x = samples(64, 3, &device);
        let refit = layer.clone().refit(x.clone(), Placement::default()).unwrap();
        let gradients = refit.forward(x).sum().backward();
        assert!(refit.spline.grad(&gradients).is_some());
        let nan = Tensor::<2>::full([2, 3], f32::NAN, &device);
        let message = layer.refit(nan, Placement::default()).unwrap_err().to_string();
        assert_eq!(message, "feature 0 of sample 0 is not finite");
    }
}
