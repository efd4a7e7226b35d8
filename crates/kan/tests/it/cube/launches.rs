//! The launches of a layer's passes are those of the model of their cost.

use std::collections::BTreeMap;

use burn::tensor::{Device, Distribution, Tensor, TensorData};
use updraft_kan::roofline::{KernelCost, LayerCost};
use updraft_kan::slices::Weights;
use updraft_kan::{CubeForm, KanConv2dConfig, KanLinearConfig, LayerPath};
use updraft_testing::{gpus, launches};

use super::case::{Case, tensor_core_forms};

fn assert_modelled(launched: &[&str], modelled: &[KernelCost], case: &str) {
    let count = |part: &str| launched.iter().filter(|kernel| kernel.contains(part)).count() as u64;
    let mut expected = BTreeMap::<&str, u64>::new();
    for kernel in modelled {
        *expected.entry(kernel.name).or_default() += kernel.launches;
    }
    // burn's conversions of a backward pass may be others.
    expected.remove("cast");
    let products = expected.remove("matmul").unwrap_or(0);
    assert_eq!(count("matmul"), products, "burn's products, {case}: {launched:?}");
    for (kernel, launches) in &expected {
        // The type of a kernel is in a module with the name of its function.
        assert_eq!(count(&format!("::{kernel}::")), *launches, "{kernel}, {case}: {launched:?}");
    }
    let ours = count("updraft_kan::");
    assert_eq!(ours, expected.values().sum::<u64>(), "all of ours, {case}: {launched:?}");
}

#[test]
fn every_form_launches_the_kernels_of_the_model() {
    for device in gpus().into_iter().map(Device::autodiff) {
        let config = KanLinearConfig::new(9, 35);
        let bare = config.clone().with_activation(None).with_scaler(false);
        let sparse = vec![CubeForm::Sparse];
        let forms = [CubeForm::Sparse, CubeForm::Dense, CubeForm::Expanded];
        let forms: Vec<_> = forms.into_iter().chain(tensor_core_forms(&device)).collect();
        for (case, forms) in [
            (Case::new(config.clone().with_bias(true), 70), forms.clone()),
            (Case::new(bare, 33), forms),
            (Case::new(config.clone().with_degree(4), 33), sparse.clone()),
            (Case::new(config.with_bias(true), 33).uneven(false), sparse),
        ] {
            let batch = case.batch;
            for form in forms {
                // Kernels are compiled, and with autotuning chosen, in a first run.
                case.run(&device, form);
                let layer = case.layer(&device).with_path(LayerPath::CubeIn(form));
                let weights = Weights {
                    spline: &[],
                    base: case.base.as_deref(),
                    scaler: case.scaler.as_deref(),
                    bias: case.bias.as_deref(),
                };
                let cost =
                    LayerCost::of(form, layer.geometry(), &weights, batch).expect("few rows");
                let tensor = |values: &[f32], columns: usize| {
                    let data = TensorData::new(values.to_vec(), [batch, columns]);
                    Tensor::<2>::from_data(data, &device)
                };
                let x = tensor(&case.x, case.config.in_features).require_grad();
                let dy = tensor(&case.dy, case.config.out_features);
                let what = format!("{form}, batch {batch}");
                if matches!(form, CubeForm::Sparse | CubeForm::Dense) {
                    let count = |kernels: &[KernelCost]| {
                        kernels.iter().map(|kernel| kernel.launches).sum::<u64>()
                    };
                    assert_eq!(count(&cost.forward), 1, "{what}");
                    assert!(count(&cost.backward) <= 4, "{what}");
                }
                let (y, launched) = launches(&device, || layer.forward(x));
                assert_modelled(&launched, &cost.forward, &format!("{what}, forward"));
                let (_, launched) = launches(&device, || (y * dy).sum().backward());
                assert_modelled(&launched, &cost.backward, &format!("{what}, backward"));
            }
        }
    }
}

#[test]
fn a_convolution_has_one_launch_forward_and_four_backward_for_all_groups() {
    for device in gpus().into_iter().map(Device::autodiff) {
        for (groups, form) in [
            (1, CubeForm::Dense),
            (1, CubeForm::Sparse),
            (2, CubeForm::Sparse),
            // Depthwise.
            (4, CubeForm::Dense),
        ] {
            let config = KanConv2dConfig::new([4, 8], [3, 3]).with_bias(true).with_groups(groups);
            let conv = config.init(&device).with_path(LayerPath::CubeIn(form));
            let images = || {
                let shape = [2, 4, 6, 5];
                Tensor::<4>::random(shape, Distribution::Default, &device).require_grad()
            };
            let weights =
                Weights { spline: &[], base: Some(&[]), scaler: Some(&[]), bias: Some(&[]) };
            let cost = LayerCost::of_conv(form, conv.geometry(), &weights, 2, &[6, 5])
                .expect("cubic splines, few rows");
            let count =
                |kernels: &[KernelCost]| kernels.iter().map(|kernel| kernel.launches).sum::<u64>();
            assert_eq!([count(&cost.forward), count(&cost.backward)], [1, 4]);
            // Kernels are compiled in a first run.
            conv.forward(images()).sum().backward();
            let x = images();
            let what = format!("{form}, {groups} groups");
            let (y, launched) = launches(&device, || conv.forward(x));
            assert_modelled(&launched, &cost.forward, &format!("{what}, forward"));
            let (_, launched) = launches(&device, || y.sum().backward());
            assert_modelled(&launched, &cost.backward, &format!("{what}, backward"));
        }
    }
}

#[test]
fn a_part_of_the_patches_of_an_expanded_form_is_gathered_and_put_back() {
    for device in gpus().into_iter().map(Device::autodiff) {
        let config = KanConv2dConfig::new([2, 3], [3, 3]).with_bias(true);
        let conv = config.init(&device).with_path(LayerPath::CubeIn(CubeForm::Expanded));
        let x = Tensor::<4>::random([2, 2, 6, 5], Distribution::Default, &device).require_grad();
        let count = |launched: &[&str], kernel: &str| {
            launched.iter().filter(|launched| launched.contains(kernel)).count()
        };
        let (y, launched) = launches(&device, || conv.forward(x));
        for kernel in ["::patches_of_images::", "::pixels_of_rows::"] {
            assert_eq!(count(&launched, kernel), 1, "{kernel}: {launched:?}");
        }
        let (_, launched) = launches(&device, || y.sum().backward());
        for kernel in ["::patches_of_images::", "::rows_of_pixels::", "::images_of_patches::"] {
            assert_eq!(count(&launched, kernel), 1, "{kernel}: {launched:?}");
        }
    }
}
