//! The launches of a normalization's passes.

use burn::tensor::Device;
use updraft_conv::Activation;
use updraft_testing::{gpus, launches};

use super::case::{By, Case};

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
                    let (y, launched) = launches(&device, || case.forward(&layer, x, residual));
                    assert_launched(&launched, forward, &format!("{what}, forward"));
                    let (_, launched) = launches(&device, || (y * dy).sum().backward());
                    assert_launched(&launched, &BACKWARD, &format!("{what}, backward"));
                }
            }
        }
    }
}
