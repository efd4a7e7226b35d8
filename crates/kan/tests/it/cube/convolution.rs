//! Convolutions by the kernels for GPUs against the reference in f64.

use burn::module::Param;
use burn::tensor::{Device, Tensor, TensorData};
use updraft_kan::slices::reference::{self, Parameters};
use updraft_kan::{
    BaseBranch, CubeForm, KanConv1dConfig, KanConv2dConfig, KanConv3dConfig, LayerPath, Outside,
};
use updraft_testing::gpus;

use super::case::{CLOSE, NAMES, bits, close_to_burn, error, numbers, values};

fn wide(numbers: &[f32]) -> Vec<f64> {
    numbers.iter().map(|&number| f64::from(number)).collect()
}

fn tensor<const D: usize>(numbers: &[f32], shape: [usize; D], device: &Device) -> Tensor<D> {
    Tensor::<D>::from_data(TensorData::new(numbers.to_vec(), shape), device)
}

/// A tensor's numbers in f64, or none.
fn optional<const D: usize>(parameter: Option<&Param<Tensor<D>>>) -> Vec<f64> {
    parameter.map(|parameter| wide(&values(parameter.val()))).unwrap_or_default()
}

/// The results of a convolution of `x` and of the gradient `dy` of its outputs.
macro_rules! run {
    ($conv:expr, $x:expr, $shape:expr, $device:expr) => {{
        let x = tensor(&$x, $shape, $device).require_grad();
        let y = $conv.forward(x.clone());
        let dy = numbers(y.dims().iter().product(), 6, 1.0);
        let of_y = tensor(&dy, y.dims(), $device);
        let gradients = (y.clone() * of_y).sum().backward();
        let taken = "takes part";
        let edges = |edges: &Option<Param<Tensor<2>>>| {
            let of = edges.as_ref().map(|edges| edges.val().grad(&gradients).expect(taken));
            of.map(values).unwrap_or_default()
        };
        let bias = $conv.bias.as_ref().map(|bias| bias.val().grad(&gradients).expect(taken));
        let results = [
            values(y),
            values(x.grad(&gradients).expect(taken)),
            values($conv.spline.val().grad(&gradients).expect(taken)),
            edges(&$conv.base),
            edges(&$conv.scaler),
            bias.map(values).unwrap_or_default(),
        ];
        (results, dy)
    }};
}

/// Compares the kernels for images of this shape, with some changed numbers, with the reference.
macro_rules! check {
    ($config:expr, $shape:expr, $changed:expr, $device:expr) => {
        check!($config, $shape, $changed, $device, CLOSE, [LayerPath::Cube])
    };
    ($config:expr, $shape:expr, $changed:expr, $device:expr, $close:expr) => {
        check!($config, $shape, $changed, $device, $close, [LayerPath::Cube])
    };
    ($config:expr, $shape:expr, $changed:expr, $device:expr, $close:expr, $paths:expr) => {{
        let (config, shape) = ($config.with_noise_scale(1.0), $shape);
        let conv = config.init($device);
        assert_eq!((conv.path(), conv.plain_reason()), (LayerPath::Cube, None));
        let mut x = numbers(shape.iter().product(), 5, 1.5);
        for (at, value) in $changed {
            x[at] = value;
        }
        let runs = $paths.map(|path| {
            let conv = conv.clone().with_path(path);
            run!(conv, x, shape, $device)
        });
        let parameters = Parameters {
            spline: optional(Some(&conv.spline)),
            base: optional(conv.base.as_ref()),
            scaler: optional(conv.scaler.as_ref()),
            bias: optional(conv.bias.as_ref()),
        };
        let (x, dy, geometry) = (wide(&x), wide(&runs[0].1), conv.geometry());
        let y = reference::conv_forward(geometry, &parameters, &x, &shape[2..]);
        let of = reference::conv_backward(geometry, &parameters, &x, &shape[2..], &dy);
        let Parameters { spline, base, scaler, bias } = of.parameters;
        let expected = [y, of.x, spline, base, scaler, bias];
        for (actual, _) in &runs {
            for ((name, actual), expected) in NAMES.iter().zip(actual).zip(&expected) {
                let error = error(actual, expected);
                assert!(error <= $close, "{name} differs by {error:e}, {config}");
            }
        }
    }};
}

const UNCHANGED: [(usize, f32); 0] = [];

/// The path by default, which most devices compute in the dense form, and the sparse form.
const BOTH: [LayerPath; 2] = [LayerPath::Cube, LayerPath::CubeIn(CubeForm::Sparse)];

#[test]
fn convolutions_of_images_are_those_of_the_reference() {
    for device in gpus().into_iter().map(Device::autodiff) {
        let config = |kernel| KanConv2dConfig::new([4, 6], kernel);
        let shape = [2, 4, 7, 6];
        check!(config([3, 3]).with_padding([1, 1]), shape, UNCHANGED, &device);
        let strided = config([2, 3]).with_stride([2, 1]).with_dilation([1, 2]).with_bias(true);
        check!(strided, shape, UNCHANGED, &device);
        let grouped = config([3, 2]).with_groups(2).with_degree(2).with_scaler(false);
        check!(grouped.with_bias(true).with_padding([2, 1]), shape, UNCHANGED, &device);
        let of_sum = config([3, 3]).with_padding([1, 0]);
        let of_sum = of_sum.with_base_branch(BaseBranch::ActivationOfConv).with_bias(true);
        check!(of_sum, shape, UNCHANGED, &device, close_to_burn(&device));
        // Windows with gaps between them, whose function of the sum burn's convolution computes.
        let gaps = config([1, 2]).with_stride([2, 3]);
        let gaps = gaps.with_base_branch(BaseBranch::ActivationOfConv);
        let paths = [LayerPath::Cube, LayerPath::Plain];
        check!(gaps, shape, UNCHANGED, &device, close_to_burn(&device), paths);
        let bare = config([3, 3]).with_stride([3, 2]).with_activation(None).with_degree(4);
        check!(bare.with_outside(Outside::Clamp), shape, UNCHANGED, &device);
        check!(config([1, 1]).with_intervals(20), [1, 4, 1, 1], UNCHANGED, &device);
        check!(config([7, 6]), shape, UNCHANGED, &device);
    }
}

#[test]
fn one_and_three_axes_are_those_of_the_reference() {
    for device in gpus().into_iter().map(Device::autodiff) {
        let line = KanConv1dConfig::new([3, 5], [4]).with_stride([3]).with_padding([2]);
        check!(line.with_bias(true), [2, 3, 11], UNCHANGED, &device);
        let volume = KanConv3dConfig::new([2, 4], [2, 3, 1]).with_groups(2);
        let volume = volume.with_padding([1, 0, 1]);
        check!(volume, [1, 2, 3, 5, 4], UNCHANGED, &device, CLOSE, BOTH);
    }
}

#[test]
fn nan_and_infinity_in_images_reach_the_windows_that_see_them() {
    for device in gpus().into_iter().map(Device::autodiff) {
        let config = KanConv2dConfig::new([2, 3], [3, 3]).with_padding([1, 1]);
        let config = config.with_activation(None).with_bias(true);
        for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            check!(config.clone(), [2, 2, 6, 5], [(37, bad)], &device, CLOSE, BOTH);
        }
    }
}

#[test]
fn a_pixel_that_no_window_sees_has_no_gradient_whatever_it_is() {
    for device in gpus().into_iter().map(Device::autodiff) {
        let config = KanConv2dConfig::new([2, 3], [1, 2]).with_stride([2, 3]).with_bias(true);
        // The third pixel of the first row.
        for bad in [f32::NAN, f32::INFINITY] {
            check!(config.clone(), [1, 2, 3, 6], [(2, bad)], &device, CLOSE, BOTH);
        }
    }
}

#[test]
fn an_infinite_weight_reaches_the_pixels_at_its_tap_and_no_others() {
    for device in gpus().into_iter().map(Device::autodiff) {
        // A step of 2: each pixel is at some of the three taps.
        let (config, shape) =
            (KanConv2dConfig::new([2, 3], [1, 3]).with_stride([1, 2]), [1, 2, 1, 7]);
        let mut conv = config.init(&device).with_path(LayerPath::CubeIn(CubeForm::Sparse));
        let mut base = optional(conv.base.as_ref());
        // Of the second channel, its first tap and the last output.
        base[3 * 3 + 2] = f64::INFINITY;
        let weights: Vec<f32> = base.iter().map(|&weight| weight as f32).collect();
        conv.base = Some(Param::from_tensor(tensor(&weights, [6, 3], &device)));
        let x = numbers(shape.iter().product(), 5, 1.5);
        let ([_, of_x, ..], dy) = run!(conv, x, shape, &device);
        let parameters = Parameters {
            spline: optional(Some(&conv.spline)),
            base,
            scaler: optional(conv.scaler.as_ref()),
            bias: Vec::new(),
        };
        let (x, dy) = (wide(&x), wide(&dy));
        let expected =
            reference::conv_backward(conv.geometry(), &parameters, &x, &shape[2..], &dy).x;
        let infinite = expected.iter().enumerate().filter(|(_, value)| value.is_infinite());
        assert_eq!(infinite.map(|(at, _)| at).collect::<Vec<_>>(), [7, 9, 11]);
        let error = error(&of_x, &expected);
        assert!(error <= CLOSE, "the gradient of the input differs by {error:e}");
    }
}

#[test]
fn both_forms_in_f32_compute_windows_with_steps_and_groups_as_the_reference() {
    for device in gpus().into_iter().map(Device::autodiff) {
        let config = KanConv2dConfig::new([4, 6], [2, 3]).with_groups(2).with_bias(true);
        let config = config.with_stride([2, 1]).with_dilation([1, 2]).with_padding([1, 0]);
        check!(config, [2, 4, 6, 7], UNCHANGED, &device, CLOSE, BOTH);
        // Depthwise, with two outputs of each channel.
        let depthwise = KanConv2dConfig::new([5, 10], [3, 3]).with_groups(5).with_bias(true);
        let depthwise = depthwise.with_padding([1, 1]).with_stride([2, 2]);
        check!(depthwise, [2, 5, 6, 7], UNCHANGED, &device, CLOSE, BOTH);
    }
}

#[test]
fn every_form_in_f32_computes_convolutions_and_our_products_the_same_bits_each_time() {
    for device in gpus().into_iter().map(Device::autodiff) {
        let conv = KanConv2dConfig::new([3, 5], [3, 3]).with_padding([1, 1]).init(&device);
        let shape = [2, 3, 9, 8];
        let x = numbers(shape.iter().product(), 5, 1.5);
        let plain = conv.clone().with_path(LayerPath::Plain);
        let (plain, _) = run!(plain, x, shape, &device);
        for form in [CubeForm::Sparse, CubeForm::Dense, CubeForm::Expanded] {
            let conv = conv.clone().with_path(LayerPath::CubeIn(form));
            let (first, _) = run!(conv, x, shape, &device);
            let (second, _) = run!(conv, x, shape, &device);
            let is_ours = form != CubeForm::Expanded;
            assert!(!is_ours || bits(&first) == bits(&second), "{form}");
            for ((name, ours), plain) in NAMES.iter().zip(&first).zip(&plain) {
                // burn's products are of TF32 where a device has it.
                let error = error(ours, &wide(plain));
                assert!(error <= 1e-3, "{name} in {form} differs by {error:e}");
            }
        }
    }
}

#[test]
fn no_images_have_empty_outputs_and_gradients_of_zero() {
    for device in gpus().into_iter().map(Device::autodiff) {
        let conv = KanConv2dConfig::new([2, 3], [3, 3]).init(&device);
        let y = conv.forward(Tensor::zeros([0, 2, 5, 4], &device));
        assert_eq!(y.dims(), [0, 3, 3, 2]);
        let gradients = y.sum().backward();
        let spline = conv.spline.val().grad(&gradients).expect("takes part");
        assert!(values(spline).iter().all(|&value| value == 0.0));
    }
}
