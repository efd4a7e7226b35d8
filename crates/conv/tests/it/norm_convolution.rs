//! Convolutions next to normalizations, and of two tensors, compared with the separate layers.

use std::panic::{AssertUnwindSafe, catch_unwind};

use burn::module::Param;
use burn::nn::conv::{Conv2dConfig, Conv3dConfig, ConvTranspose2dConfig, ConvTranspose3dConfig};
use burn::nn::{GroupNormConfig, InstanceNormConfig, PaddingConfig2d, PaddingConfig3d};
use burn::tensor::{Device, Distribution, Gradients, Tensor};
use updraft_conv::{
    Activation, Conv2d, Conv3d, ConvTranspose2d, ConvTranspose3d, GroupNorm, InstanceNorm,
    LayerPath, SampleNorm, Slope,
};
use updraft_testing::{Numbers, Tolerance, alone, assert_close, autodiff_devices};

const LEAKY: Activation = Activation::LeakyRelu(Slope::new(0.01));

fn random<const D: usize>(shape: [usize; D], device: &Device) -> Tensor<D> {
    Tensor::random(shape, Distribution::Uniform(-1.0, 1.0), device)
}

/// Reads the gradient of one tensor.
type Part<'a> = Box<dyn Fn(&Gradients) -> Vec<f64> + 'a>;

fn of<const D: usize>(tensor: &Tensor<D>) -> Part<'_> {
    Box::new(|gradients| tensor.grad(gradients).expect("takes part").numbers())
}

/// A result, and the gradients of `Σ sin y` for these tensors.
fn results<const D: usize>(y: Tensor<D>, parts: &[Part<'_>]) -> Vec<Vec<f64>> {
    let gradients = y.clone().sin().sum().backward();
    let gradients = parts.iter().map(|part| part(&gradients));
    std::iter::once(y.numbers()).chain(gradients).collect()
}

/// Convolutions of volumes to 6 channels, and a random input with 4.
fn volumes(kernel: usize, stride: usize, bias: bool, device: &Device) -> (Conv3d, Tensor<5>) {
    let config = Conv3dConfig::new([4, 6], [kernel; 3])
        .with_padding(PaddingConfig3d::Explicit(kernel / 2, kernel / 2, kernel / 2))
        .with_stride([stride; 3])
        .with_dilation([if stride == 1 { 2 } else { 1 }; 3])
        .with_bias(bias);
    (Conv3d::new(&config, device), random([2, 4, 5, 6, 9], device).require_grad())
}

/// The same of images.
fn images(kernel: usize, stride: usize, bias: bool, device: &Device) -> (Conv2d, Tensor<4>) {
    let padding = kernel / 2;
    let config = Conv2dConfig::new([4, 6], [kernel; 2])
        .with_padding(PaddingConfig2d::Explicit(padding, padding, padding, padding))
        .with_stride([stride; 2])
        .with_dilation([if stride == 1 { 2 } else { 1 }; 2])
        .with_bias(bias);
    (Conv2d::new(&config, device), random([2, 4, 7, 18], device).require_grad())
}

/// γ and β of a norm.
fn affine(gamma: &Option<Param<Tensor<1>>>, beta: &Option<Param<Tensor<1>>>) -> [Tensor<1>; 2] {
    [gamma, beta].map(|vector| vector.as_ref().expect("affine").val())
}

macro_rules! check_both_orders {
    ($layers:ident, $before:expr, $after:expr, $of_before:expr, $of_after:expr, $device:expr) => {
        for (stride, has_bias) in [(1, false), (1, true), (2, false), (2, true)] {
            let (conv, x) = $layers(3, stride, has_bias, $device);
            let weight = conv.weight.val();
            let bias = conv.bias.as_ref().map(Param::val);
            let [gamma, beta] = $of_before;
            let mut parts = vec![of(&x), of(&weight), of(gamma), of(beta)];
            parts.extend(bias.as_ref().map(of));
            let together = results(conv.forward_normalized(x.clone(), $before, LEAKY), &parts);
            let normalized = $before.forward_activated(x.clone(), LEAKY);
            let separate = results(conv.forward(normalized), &parts);
            assert_eq!(together, separate, "stride {stride}, bias {has_bias}");

            let (conv, x) = $layers(1, stride, has_bias, $device);
            let weight = conv.weight.val();
            let [gamma, beta] = $of_after;
            let parts = [of(&x), of(&weight), of(gamma), of(beta)];
            let together = results(conv.forward_then_normalized(x.clone(), $after, LEAKY), &parts);
            let convolved = conv.forward(x.clone());
            let separate = results($after.forward_activated(convolved, LEAKY), &parts);
            assert_eq!(together, separate, "stride {stride}, bias {has_bias}");
        }
    };
}

/// Norms of 4 channels before a convolution, and of 6 after it.
fn check(
    [before, after]: [&impl SampleNorm; 2],
    [of_before, of_after]: [&[Tensor<1>; 2]; 2],
    device: &Device,
) {
    check_both_orders!(volumes, before, after, of_before, of_after, device);
    check_both_orders!(images, before, after, of_before, of_after, device);
}

#[test]
fn convolutions_next_to_norms_are_the_separate_layers_with_their_gradients() {
    let _alone = alone();
    for device in autodiff_devices() {
        device.seed(51);
        let [a, b] = [4, 6].map(|n| InstanceNorm::new(&InstanceNormConfig::new(n), &device));
        let of = [affine(&a.gamma, &a.beta), affine(&b.gamma, &b.beta)];
        check([&a, &b], [&of[0], &of[1]], &device);
        let [a, b] = [4, 6].map(|n| GroupNorm::new(&GroupNormConfig::new(2, n), &device));
        let of = [affine(&a.gamma, &a.beta), affine(&b.gamma, &b.beta)];
        check([&a, &b], [&of[0], &of[1]], &device);
        // A norm with a path of its own is a separate layer.
        let [a, b] = [a, b].map(|norm| norm.with_path(LayerPath::Plain));
        check([&a, &b], [&of[0], &of[1]], &device);
    }
}

macro_rules! check_joined {
    ($layers:ident, $device:expr) => {
        for stride in [1, 2] {
            let (conv, x) = $layers(3, stride, false, $device);
            let a = x.clone().narrow(1, 0, 1).detach().require_grad();
            let b = x.narrow(1, 1, 3).detach().require_grad();
            let weight = conv.weight.val();
            let parts = [of(&a), of(&b), of(&weight)];
            let joined = results(conv.forward_joined(a.clone(), b.clone()), &parts);
            let whole = conv.forward(Tensor::cat(vec![a.clone(), b.clone()], 1));
            for (joined, whole) in joined.iter().zip(results(whole, &parts)) {
                // Sums of up to 540 products, added in another order.
                assert_close(joined, &whole, Tolerance { relative: 1e-5, absolute: 2e-5 });
            }
        }
    };
}

#[test]
fn a_convolution_of_two_tensors_is_that_of_their_channels() {
    for device in autodiff_devices() {
        device.seed(52);
        check_joined!(volumes, &device);
        check_joined!(images, &device);
    }
}

macro_rules! check_recomputed {
    ($layer:ident, $config:ident, $layers:ident, $rank:literal, $sides:expr, $device:expr) => {
        for (has_bias, is_tracked) in [(false, true), (true, true), (false, false)] {
            let config = $config::new([4, 3], [2; $rank - 2])
                .with_stride([2; $rank - 2])
                .with_bias(has_bias);
            let up = $layer::new(&config, $device);
            let (conv, _) = $layers(3, 1, false, $device);
            let shape = |channels: usize, factor: usize| {
                let mut shape = [2; $rank];
                shape[1] = channels;
                shape[2..].iter_mut().zip($sides).for_each(|(side, of)| *side = factor * of);
                shape
            };
            let x = random(shape(4, 1), $device).set_require_grad(is_tracked);
            let skip = random(shape(1, 2), $device).require_grad();
            let (of_up, of_conv) = (up.weight.val(), conv.weight.val());
            let bias = up.bias.as_ref().map(Param::val);
            let mut parts = vec![of(&skip), of(&of_up), of(&of_conv)];
            parts.extend(is_tracked.then(|| of(&x)));
            parts.extend(bias.as_ref().map(of));
            // One consumer computes it again, one does not need it, and two need it both.
            let pass = |doubled: Tensor<$rank>, consumers: usize| {
                let joined = conv.forward_joined(doubled.clone(), skip.clone()).mean();
                match consumers {
                    0 => doubled.mean(),
                    1 => joined,
                    _ => joined + doubled.sin().mean(),
                }
            };
            for consumers in 0..3 {
                let parts = if consumers == 0 { &parts[1..2] } else { &parts[..] };
                let again = results(pass(up.forward_recomputed(x.clone()), consumers), parts);
                let kept = results(pass(up.forward(x.clone()), consumers), parts);
                assert_eq!(again, kept, "bias {has_bias}, tracked {is_tracked}, {consumers}");
            }
        }
    };
}

#[test]
fn a_recomputed_transposed_convolution_is_the_kept_one_with_its_gradients() {
    for device in autodiff_devices() {
        device.seed(53);
        check_recomputed!(ConvTranspose3d, ConvTranspose3dConfig, volumes, 5, [3, 2, 4], &device);
        check_recomputed!(ConvTranspose2d, ConvTranspose2dConfig, images, 4, [3, 4], &device);
    }
}

#[test]
fn what_a_layer_refuses_is_refused_next_to_another_layer() {
    for device in autodiff_devices() {
        let message = |run: &dyn Fn() -> Tensor<4>| {
            let panic = catch_unwind(AssertUnwindSafe(run)).expect_err("is refused");
            let text = panic.downcast_ref::<String>().cloned();
            text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()))
                .expect("a text")
        };
        let (conv, x) = images(1, 1, false, &device);
        // Without γ and β, whose lengths would be checked.
        let config = InstanceNormConfig::new(2).with_affine(false);
        let norm = InstanceNorm::new(&config, &device);
        let of_norm = message(&|| norm.forward(x.clone()));
        let activation = Activation::Identity;
        assert_eq!(message(&|| conv.forward_normalized(x.clone(), &norm, activation)), of_norm);
        let of_norm = message(&|| norm.forward(conv.forward(x.clone())));
        let then = || conv.forward_then_normalized(x.clone(), &norm, activation);
        assert_eq!(message(&then), of_norm);
        let [a, b] = [7, 6].map(|height| random([2, 2, height, 18], &device));
        let of_cat = message(&|| Tensor::cat(vec![a.clone(), b.clone()], 1));
        assert_eq!(message(&|| conv.forward_joined(a.clone(), b.clone())), of_cat);
    }
}
