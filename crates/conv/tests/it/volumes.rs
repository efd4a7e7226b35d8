//! Operations and layers of volumes compared with burn's own, on every device of the tests.

use burn::module::{Module as _, Param};
use burn::nn::conv::{Conv3dConfig, ConvTranspose2dConfig, ConvTranspose3dConfig};
use burn::nn::{GroupNormConfig, InstanceNormConfig, PaddingConfig3d};
use burn::tensor::activation::leaky_relu;
use burn::tensor::ops::{ConvOptions, ConvTransposeOptions, InterpolateMode, InterpolateOptions};
use burn::tensor::{DType, Device, Distribution, FloatDType, Tensor, module};
use updraft_conv::{
    Activation, Alignment, AvgPool3d, AvgPool3dConfig, Conv3d, ConvTranspose2d, ConvTranspose3d,
    GroupNorm, InstanceNorm, LayerPath, MaxPool3d, MaxPool3dConfig, Slope, activate,
    conv_transpose2d, conv_transpose3d, conv3d, group_norm, resize2d, resize3d,
};
use updraft_testing::{
    Numbers, Tolerance, alone, assert_close, autodiff_devices, gradient_check, tolerance,
};

fn random<const D: usize>(shape: [usize; D], device: &Device) -> Tensor<D> {
    Tensor::random(shape, Distribution::Uniform(-1.0, 1.0), device)
}

/// A result with the gradients of `Σ sin y` for two tensors and a vector.
fn results<const D: usize>(
    [x, w]: [&Tensor<D>; 2],
    bias: &Tensor<1>,
    run: impl Fn(Tensor<D>, Tensor<D>, Tensor<1>) -> Tensor<D>,
) -> Vec<Vec<f64>> {
    let [x, w] = [x, w].map(|tensor| tensor.clone().detach().require_grad());
    let bias = bias.clone().detach().require_grad();
    let y = run(x.clone(), w.clone(), bias.clone());
    let gradients = y.clone().sin().sum().backward();
    let taken = "takes part";
    vec![
        y.numbers(),
        x.grad(&gradients).expect(taken).numbers(),
        w.grad(&gradients).expect(taken).numbers(),
        bias.grad(&gradients).expect(taken).numbers(),
    ]
}

fn assert_same(ours: &[Vec<f64>], burns: &[Vec<f64>]) {
    // Sums of 432 products of numbers up to 1, by Winograd's algorithm where that is chosen.
    let of_sums = Tolerance { relative: 1e-4, absolute: 1e-4 };
    for (ours, burns) in ours.iter().zip(burns) {
        assert_close(ours, burns, of_sums);
    }
}

#[test]
fn convolutions_of_volumes_and_their_gradients_are_burns() {
    for device in autodiff_devices() {
        device.seed(41);
        for (x, w, options) in [
            ([2, 3, 5, 6, 9], [4, 3, 3, 3, 3], ConvOptions::new([1; 3], [1; 3], [1; 3], 1)),
            ([1, 4, 6, 5, 7], [6, 2, 2, 3, 2], ConvOptions::new([2, 1, 2], [1, 0, 1], [1; 3], 2)),
            ([1, 16, 4, 8, 8], [16, 16, 3, 3, 3], ConvOptions::new([1; 3], [1; 3], [1; 3], 1)),
            ([2, 3, 3, 4, 5], [2, 3, 1, 1, 1], ConvOptions::new([1; 3], [0; 3], [1; 3], 1)),
        ] {
            let bias = random([w[0]], &device);
            let (x, w) = (random(x, &device), random(w, &device));
            let ours =
                results([&x, &w], &bias, |x, w, bias| conv3d(x, w, Some(bias), options.clone()));
            let burns = results([&x, &w], &bias, |x, w, bias| {
                module::conv3d(x, w, Some(bias), options.clone())
            });
            assert_same(&ours, &burns);
        }
    }
}

#[test]
fn transposed_convolutions_and_their_gradients_are_burns() {
    for device in autodiff_devices() {
        device.seed(42);
        let [stride, none, one] = [[2; 3], [0; 3], [1; 3]];
        for (x, w, options) in [
            (
                [2, 4, 3, 4, 5],
                [4, 3, 2, 2, 2],
                ConvTransposeOptions::new(stride, none, none, one, 1),
            ),
            ([1, 4, 3, 4, 5], [4, 2, 3, 3, 3], ConvTransposeOptions::new(stride, one, one, one, 2)),
            (
                [1, 2, 3, 3, 4],
                [2, 3, 2, 1, 3],
                ConvTransposeOptions::new(one, none, none, [2; 3], 1),
            ),
        ] {
            let bias = random([w[1] * options.groups], &device);
            let (x, w) = (random(x, &device), random(w, &device));
            let ours = results([&x, &w], &bias, |x, w, bias| {
                conv_transpose3d(x, w, Some(bias), options.clone())
            });
            let burns = results([&x, &w], &bias, |x, w, bias| {
                module::conv_transpose3d(x, w, Some(bias), options.clone())
            });
            assert_same(&ours, &burns);
        }
        let options = ConvTransposeOptions::new([2; 2], [1; 2], [1; 2], [1; 2], 1);
        let (x, w) = (random([2, 3, 5, 7], &device), random([3, 4, 3, 3], &device));
        let bias = random([4], &device);
        let ours = results([&x, &w], &bias, |x, w, bias| {
            conv_transpose2d(x, w, Some(bias), options.clone())
        });
        let burns = results([&x, &w], &bias, |x, w, bias| {
            module::conv_transpose2d(x, w, Some(bias), options.clone())
        });
        assert_same(&ours, &burns);
    }
}

#[test]
fn group_norms_and_their_gradients_are_burns() {
    for device in autodiff_devices() {
        device.seed(43);
        let x = random([2, 6, 3, 4, 5], &device);
        let slope = Activation::LeakyRelu(Slope::new(0.01));
        for groups in [1, 3, 6] {
            for path in [None, Some(LayerPath::Plain)] {
                let layer: GroupNorm = GroupNormConfig::new(groups, 6).init(&device).into();
                let layer = path.map_or(layer.clone(), |path| layer.with_path(path));
                let x = x.clone().detach().require_grad();
                let y = layer.forward_activated(x.clone(), slope);
                let plain = GroupNormConfig::new(groups, 6).init(&device);
                let right_x = x.clone().detach().require_grad();
                let right = leaky_relu(plain.forward(right_x.clone()), 0.01);
                assert_close(&y.clone().numbers(), &right.clone().numbers(), tolerance::F32);
                let g = random(y.dims(), &device);
                let ours = (y * g.clone()).sum().backward();
                let burns = (right * g).sum().backward();
                let taken = "takes part";
                assert_close(
                    &x.grad(&ours).expect(taken).numbers(),
                    &right_x.grad(&burns).expect(taken).numbers(),
                    tolerance::F32,
                );
                for (own, other) in [(&layer.gamma, &plain.gamma), (&layer.beta, &plain.beta)] {
                    let own = own.as_ref().expect("affine").val().grad(&ours);
                    let other = other.as_ref().expect("affine").val().grad(&burns);
                    let (own, other) = (own.expect(taken), other.expect(taken));
                    assert_close(&own.numbers(), &other.numbers(), tolerance::F32);
                }
            }
        }
        let layer = InstanceNorm::new(&InstanceNormConfig::new(6).with_affine(false), &device);
        let plain = InstanceNormConfig::new(6).with_affine(false).init(&device);
        let [ours, burns] = [layer.forward(x.clone()), plain.forward(x)];
        assert_close(&ours.numbers(), &burns.numbers(), tolerance::F32);
    }
}

#[test]
fn group_norms_with_residuals_and_their_gradients_are_the_separate_layers() {
    for device in autodiff_devices() {
        device.seed(46);
        let [x, residual, g] = [(); 3].map(|()| random([2, 6, 3, 4, 5], &device));
        let (gamma, beta) = (random([6], &device), random([6], &device));
        let norm = |activation, path: Option<LayerPath>| {
            let mut layer: GroupNorm = GroupNormConfig::new(3, 6).init(&device).into();
            layer.gamma = Some(Param::from_tensor(gamma.clone()));
            layer.beta = Some(Param::from_tensor(beta.clone()));
            let layer = path.map_or(layer.clone(), |path| layer.with_path(path));
            let [x, residual] =
                [&x, &residual].map(|tensor| tensor.clone().detach().require_grad());
            (layer, x, residual, activation)
        };
        let found = |(layer, x, residual, _): &(GroupNorm, Tensor<5>, Tensor<5>, _),
                     y: Tensor<5>| {
            let value = y.clone().numbers();
            let gradients = (y * g.clone()).sum().backward();
            let taken = "takes part";
            let [gamma, beta] = [&layer.gamma, &layer.beta]
                .map(|vector| vector.as_ref().expect("affine").grad(&gradients).expect(taken));
            vec![
                value,
                x.grad(&gradients).expect(taken).numbers(),
                residual.grad(&gradients).expect(taken).numbers(),
                gamma.numbers(),
                beta.numbers(),
            ]
        };
        let slopes = [Activation::LeakyRelu(Slope::new(0.01)), Activation::Relu, Activation::Silu];
        for activation in slopes.into_iter().chain([Activation::Identity]) {
            let apart = norm(activation, Some(LayerPath::Plain));
            let y = apart.0.forward(apart.1.clone()) + apart.2.clone();
            let right = found(&apart, activate(y, activation));
            for path in [None, Some(LayerPath::Plain)] {
                let joined = norm(activation, path);
                let (layer, x, residual, _) = &joined;
                // A residual with another owner keeps its numbers.
                let y = layer.forward_residual(x.clone(), residual.clone(), activation);
                assert_same(&found(&joined, y), &right);
                let inner = |tensor: &Tensor<5>| tensor.clone().without_autodiff();
                let y = layer.clone().valid().forward_residual(
                    inner(x),
                    inner(residual).mul_scalar(1.0),
                    activation,
                );
                assert_close(&y.numbers(), &right[0], tolerance::F32);
            }
        }
    }
}

#[test]
fn shared_and_frozen_tensors_of_residual_norms_keep_their_values_and_gradients() {
    let _alone = alone();
    let device = Device::flex().autodiff();
    device.seed(47);
    let given = random([2, 4, 3, 5, 6], &device);
    let slope = Activation::LeakyRelu(Slope::new(0.01));
    let layer = |path| {
        let layer: GroupNorm = GroupNormConfig::new(2, 4).init(&device).into();
        layer.with_path(path)
    };
    let [kernels, plain] = [LayerPath::of(&device), LayerPath::Plain].map(layer);
    let leaf = |is_tracked: bool| match is_tracked {
        true => given.clone().detach().require_grad(),
        false => given.clone().detach(),
    };
    // The residual is the input, and the result is used twice.
    let run = |layer: &GroupNorm| {
        let x = leaf(true);
        let y = layer.forward_residual(x.clone(), x.clone(), slope);
        let gradients = (y.clone() * y.clone() + y.clone()).sum().backward();
        assert_eq!(x.numbers(), given.numbers(), "the input is kept");
        vec![y.numbers(), x.grad(&gradients).expect("takes part").numbers()]
    };
    assert_same(&run(&kernels), &run(&plain));
    // One of the two is tracked; γ and β are frozen.
    for is_x in [true, false] {
        let run = |layer: &GroupNorm| {
            let layer = layer.clone().no_grad();
            let (x, residual) = (leaf(is_x), leaf(!is_x));
            let y = layer.forward_residual(x.clone(), residual.clone(), slope);
            let gradients = y.clone().sin().sum().backward();
            let tracked = if is_x { &x } else { &residual };
            assert_eq!(x.numbers(), given.numbers(), "the input is kept");
            assert_eq!(residual.numbers(), given.numbers(), "the residual is kept");
            vec![y.numbers(), tracked.grad(&gradients).expect("takes part").numbers()]
        };
        assert_same(&run(&kernels), &run(&plain));
    }
    // Without a graph, a tensor with another owner is not overwritten.
    let (inner, layer) = (given.clone().without_autodiff(), kernels.valid());
    let _ = layer.forward_activated(inner.clone(), slope);
    let _ = layer.forward_residual(inner.clone(), inner.clone(), slope);
    assert_eq!(inner.numbers(), given.numbers());
}

#[test]
#[should_panic(expected = "the residual is as large as x")]
fn a_residual_of_another_shape_is_refused() {
    let device = Device::flex();
    let layer = InstanceNorm::new(&InstanceNormConfig::new(2), &device);
    let (x, residual) = (random([1, 2, 4, 4], &device), random([1, 2, 4, 1], &device));
    let _ = layer.forward_residual(x, residual, Activation::Relu);
}

#[test]
fn gradients_of_group_norms_in_f64_are_difference_quotients() {
    for device in autodiff_devices() {
        device.seed(44);
        let x = random([2, 4, 2, 3, 2], &device);
        let layer = GroupNorm::new(&GroupNormConfig::new(2, 4), &device);
        gradient_check(x, |x: Tensor<5>| {
            layer.forward_activated(x, Activation::Silu).powi_scalar(3).sum()
        });
    }
}

#[test]
fn layers_are_burns_own_both_ways() {
    let _alone = alone();
    let device = Device::flex();
    device.seed(45);
    let x = random([1, 4, 4, 5, 6], &device);
    let config = Conv3dConfig::new([4, 6], [3, 3, 3]).with_padding(PaddingConfig3d::Same);
    let burns = config.init(&device);
    let ours = Conv3d::from(burns.clone());
    let [given, right] = [ours.forward(x.clone()), burns.forward(x.clone())];
    assert_close(&given.numbers(), &right.numbers(), tolerance::F32);
    let back = burn::nn::conv::Conv3d::from(ours).forward(x.clone());
    assert_eq!(back.numbers(), right.numbers());
    let config = ConvTranspose3dConfig::new([4, 2], [2, 2, 2]).with_stride([2, 2, 2]);
    let burns = config.init(&device);
    let ours = ConvTranspose3d::from(burns.clone());
    assert_close(&ours.forward(x.clone()).numbers(), &burns.forward(x).numbers(), tolerance::F32);
    let image = random([2, 4, 5, 6], &device);
    let config = ConvTranspose2dConfig::new([4, 2], [3, 2]).with_stride([2, 2]);
    let burns = config.init(&device);
    let ours = ConvTranspose2d::from(burns.clone());
    let [given, right] = [ours.forward(image.clone()), burns.forward(image)];
    assert_close(&given.numbers(), &right.numbers(), tolerance::F32);
}

#[test]
fn other_dtypes_and_empty_batches_are_computed_too() {
    let _alone = alone();
    let device = Device::flex();
    let (x, w) = (random([1, 2, 4, 4, 4], &device), random([3, 2, 3, 3, 3], &device));
    let options = ConvOptions::new([1; 3], [1; 3], [1; 3], 1);
    let exact = conv3d(x.clone(), w.clone(), None, options.clone()).numbers();
    for dtype in [FloatDType::BF16, FloatDType::F64] {
        let [x, w] = [&x, &w].map(|tensor| tensor.clone().cast(dtype));
        let y = conv3d(x, w, None, options.clone());
        assert_eq!(y.dtype(), DType::from(dtype));
        let near = y.numbers().iter().zip(&exact).all(|(a, b)| (a - b).abs() < 0.2);
        assert!(near, "{dtype:?}");
    }
    let none = Tensor::<5>::empty([0, 2, 4, 4, 4], &device);
    assert_eq!(conv3d(none.clone(), w, None, options).dims(), [0, 3, 4, 4, 4]);
    let [ones, zeros] = [Tensor::ones([2], &device), Tensor::zeros([2], &device)];
    let y = group_norm(none, ones, zeros, 2, 1e-5, Activation::Identity);
    assert_eq!(y.dims(), [0, 2, 4, 4, 4]);
}

#[test]
fn pooled_volumes_are_burns_images_with_their_gradients() {
    for device in autodiff_devices() {
        device.seed(46);
        let x = random([2, 3, 5, 6, 7], &device);
        let run = |x: &Tensor<5>, forward: &dyn Fn(Tensor<5>) -> Tensor<5>| {
            let x = x.clone().detach().require_grad();
            let y = forward(x.clone());
            let gradients = y.clone().powi_scalar(2).sum().backward();
            [y.numbers(), x.grad(&gradients).expect("takes part").numbers()]
        };
        let padding = PaddingConfig3d::Explicit(1, 1, 1);
        for kernel in [[2, 2, 2], [3, 3, 3]] {
            let config = MaxPool3dConfig::new(kernel).with_strides([2, 2, 1]);
            let max = MaxPool3d::new(config.with_padding(padding.clone()));
            let average = AvgPool3dConfig::new(kernel).with_padding(padding.clone());
            let whole = AvgPool3d::new(average.clone());
            let inside = AvgPool3d::new(average.with_count_include_pad(false));
            let plain = LayerPath::Plain;
            for (ours, plain) in [
                (
                    run(&x, &|x| max.forward(x)),
                    run(&x, &|x| max.clone().with_path(plain).forward(x)),
                ),
                (
                    run(&x, &|x| whole.forward(x)),
                    run(&x, &|x| whole.clone().with_path(plain).forward(x)),
                ),
                (
                    run(&x, &|x| inside.forward(x)),
                    run(&x, &|x| inside.clone().with_path(plain).forward(x)),
                ),
            ] {
                assert_same(&ours, &plain);
            }
        }
    }
}

#[test]
fn sizes_change_as_burns_images_do_and_as_in_f64() {
    for device in autodiff_devices() {
        device.seed(47);
        let image = random([2, 3, 4, 5], &device);
        for alignment in [Alignment::Edges, Alignment::Corners] {
            let ours = resize2d(image.clone(), [8, 9], alignment);
            let options = InterpolateOptions::new(InterpolateMode::Bilinear)
                .with_align_corners(alignment == Alignment::Corners)
                .with_output_size([8, 9]);
            let burns = module::interpolate(image.clone(), options);
            assert_close(&ours.numbers(), &burns.numbers(), tolerance::F32);
            let volume = random([1, 2, 3, 4, 5], &device);
            let ours = resize3d(volume.clone(), [6, 8, 7], alignment);
            // In f64 burn's operation computes, on two axes and then on the third.
            let plain = resize3d(volume.cast(FloatDType::F64), [6, 8, 7], alignment);
            assert_eq!(plain.dtype(), DType::F64);
            assert_close(&ours.numbers(), &plain.numbers(), tolerance::F32);
        }
        let x = random([1, 1, 2, 3, 2], &device).require_grad();
        let y = resize3d(x.clone(), [4, 6, 4], Alignment::Edges);
        let gradients = y.powi_scalar(2).sum().backward();
        let wide = x.clone().cast(FloatDType::F64).detach().require_grad();
        let y = resize3d(wide.clone(), [4, 6, 4], Alignment::Edges);
        let right = y.powi_scalar(2).sum().backward();
        let [ours, right] = [x.grad(&gradients), wide.grad(&right)].map(|of| of.expect("taken"));
        assert_close(&ours.numbers(), &right.numbers(), tolerance::F32);
    }
}
