//! The launches of a normalization's passes.

use std::sync::{Arc, Mutex};

use burn::tensor::Device;
use cubecl::logging::{LaunchObservation, LaunchObserver};
use updraft_conv::Activation;
use updraft_testing::gpus;

use super::case::{By, Case};

/// The types of the kernels that were launched.
#[derive(Default)]
struct Launched(Mutex<Vec<&'static str>>);

impl LaunchObserver for Launched {
    fn launched(&self, kernel: &'static str) {
        self.0.lock().expect("no test panicked with it").push(kernel);
    }
}

/// The result of some work, and the kernels that were launched meanwhile: by it alone, because
/// [`gpus`] holds off all other tests on GPUs.
fn observe<T>(device: &Device, work: impl FnOnce() -> T) -> (T, Vec<&'static str>) {
    device.sync().expect("the device works");
    let launched = Arc::new(Launched::default());
    let observation = LaunchObservation::new(launched.clone());
    let result = work();
    device.sync().expect("the device works");
    drop(observation);
    let kernels = launched.0.lock().expect("no test panicked with it").clone();
    (result, kernels)
}

/// Each of these kernels once, and no other of ours.
fn assert_launched(launched: &[&str], kernels: &[&str], case: &str) {
    let count = |part: &str| launched.iter().filter(|kernel| kernel.contains(part)).count();
    for kernel in kernels {
        // The type of a kernel is in a module with the name of its function.
        assert_eq!(count(&format!("::{kernel}::")), 1, "{kernel}, {case}: {launched:?}");
    }
    assert_eq!(count("updraft_conv::"), kernels.len(), "all of ours, {case}: {launched:?}");
}

const BACKWARD: [&str; 3] =
    ["gradient_sums_of_parts", "gradients_of_channels", "gradient_of_input"];

#[test]
fn passes_are_three_launches_and_evaluation_is_one() {
    for device in gpus().into_iter().map(Device::autodiff) {
        for (by, forward) in [
            (By::Batch, &["moments_of_parts", "moments_of_channels", "normalize_parts"][..]),
            (By::Running, &["normalize_parts"][..]),
        ] {
            for dims in [[3, 5, 70], [2, 2, 5000]] {
                let case = Case::new(dims, by, Activation::Gelu);
                for case in [case.clone(), case.with_residual()] {
                    // Kernels are compiled in a first run.
                    case.run(&device, None);
                    let layer = case.layer(&device);
                    let of = |values: &[f32]| case.tensor(values, case.dims, &device);
                    let x = of(&case.x).require_grad();
                    let residual = case.residual.as_deref().map(of);
                    let dy = of(&case.dy);
                    let what = format!("{dims:?}, by {by:?}");
                    let (y, launched) = observe(&device, || case.forward(&layer, x, residual));
                    assert_launched(&launched, forward, &format!("{what}, forward"));
                    let (_, launched) = observe(&device, || (y * dy).sum().backward());
                    assert_launched(&launched, &BACKWARD, &format!("{what}, backward"));
                }
            }
        }
    }
}
