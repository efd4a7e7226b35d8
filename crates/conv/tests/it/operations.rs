//! Our operations compared with burn's own, on every device of the tests.

use burn::tensor::activation::relu;
use burn::tensor::ops::ConvOptions;
use burn::tensor::{DType, Device, Distribution, FloatDType, Tensor, module};
use updraft_conv::{Activation, activate, batch_norm_train, conv2d, join_channels, weighted_sum};
use updraft_simd::{Bf16Unit, Products};
use updraft_testing::{
    Numbers, Tolerance, alone, assert_close, autodiff_devices, devices, tolerance,
};

fn random<const D: usize>(shape: [usize; D], device: &Device) -> Tensor<D> {
    Tensor::random(shape, Distribution::Uniform(-1.0, 1.0), device)
}

/// A result with the gradients of `Σ y·g` for its inputs.
fn gradients<const D: usize, const N: usize>(
    y: Tensor<D>,
    g: Tensor<D>,
    inputs: [Tensor<4>; N],
) -> Vec<Vec<f64>> {
    let gradients = (y.clone() * g).sum().backward();
    let of = |input: &Tensor<4>| input.grad(&gradients).expect("takes part").numbers();
    std::iter::once(y.numbers()).chain(inputs.iter().map(of)).collect()
}

#[test]
fn convolutions_and_their_gradients_are_burns() {
    for device in autodiff_devices() {
        device.seed(5);
        for (x_shape, w_shape, options) in [
            ([2, 3, 9, 11], [16, 3, 3, 3], ConvOptions::new([1, 1], [1, 1], [1, 1], 1)),
            ([3, 8, 10, 10], [20, 8, 3, 3], ConvOptions::new([2, 2], [1, 1], [1, 1], 1)),
            ([2, 6, 12, 9], [9, 2, 3, 2], ConvOptions::new([1, 2], [2, 0], [2, 1], 3)),
            ([2, 32, 6, 6], [16, 32, 1, 1], ConvOptions::new([1, 1], [0, 0], [1, 1], 1)),
        ] {
            let x = random(x_shape, &device).require_grad();
            let w = random(w_shape, &device).require_grad();
            let bias = random([w_shape[0]], &device);
            let ours = conv2d(x.clone(), w.clone(), Some(bias.clone()), options.clone());
            let g = random(ours.dims(), &device);
            let ours = gradients(ours, g.clone(), [x.clone(), w.clone()]);
            let (x, w) = (x.detach().require_grad(), w.detach().require_grad());
            let burns = module::conv2d(x.clone(), w.clone(), Some(bias), options);
            let burns = gradients(burns, g, [x, w]);
            for (ours, burns) in ours.iter().zip(&burns) {
                assert_close(ours, burns, tolerance::F32);
            }
        }
    }
}

#[test]
fn a_scope_of_products_in_bf16_reaches_the_gradients_and_ends() {
    let _alone = alone();
    let device = Device::flex().autodiff();
    let (x, w) = (random([2, 32, 8, 8], &device), random([32, 32, 3, 3], &device));
    let (x, w) = (x.detach().require_grad(), w.detach().require_grad());
    let options = ConvOptions::new([1, 1], [1, 1], [1, 1], 1);
    let weights = random([2, 32, 8, 8], &device);
    let passes = |products: Products| {
        let y = products.scope(|| conv2d(x.clone(), w.clone(), None, options.clone()));
        // Outside of the scope.
        let mut gradients = (y.clone() * weights.clone()).sum().backward();
        let of = |tensor: &Tensor<4>, gradients: &mut _| tensor.grad_remove(gradients).expect("dx");
        let (dx, dw) = (of(&x, &mut gradients), of(&w, &mut gradients));
        [y.without_autodiff(), dx, dw].map(|tensor| tensor.numbers())
    };
    let (exact, rounded) = (passes(Products::F32), passes(Products::Bf16));
    for (exact, rounded) in exact.iter().zip(&rounded) {
        let norm = |all: &mut dyn Iterator<Item = f64>| all.map(|x| x * x).sum::<f64>().sqrt();
        let error = norm(&mut exact.iter().zip(rounded).map(|(a, b)| a - b));
        let relative = error / norm(&mut exact.iter().copied());
        match Bf16Unit::detect().has_tiles() {
            true => assert!(relative > 1e-4 && relative < 2e-2, "{relative}"),
            false => assert_eq!(relative, 0.0, "convolutions gain from no unit"),
        }
    }
    assert_eq!(passes(Products::F32), exact, "the scope ended");
}

#[test]
fn norms_and_their_gradients_are_burns() {
    for device in autodiff_devices() {
        device.seed(6);
        for activation in [Activation::Identity, Activation::Relu] {
            let x = random([4, 5, 7, 6], &device).require_grad();
            let gamma = random([5], &device).require_grad();
            let beta = random([5], &device).require_grad();
            let g = random([4, 5, 7, 6], &device);
            let ours = batch_norm_train(x.clone(), gamma.clone(), beta.clone(), 1e-5, activation);
            let burns = module::batch_norm_train(x.clone(), gamma.clone(), beta.clone(), 1e-5);
            let plain = match activation {
                Activation::Relu => relu(burns.output),
                _ => burns.output,
            };
            assert_close(&ours.mean.numbers(), &burns.mean.numbers(), tolerance::F32);
            assert_close(&ours.variance.numbers(), &burns.variance.numbers(), tolerance::F32);
            assert_close(&ours.output.numbers(), &plain.numbers(), tolerance::F32);
            let ours = (ours.output * g.clone()).sum().backward();
            let burns = (plain * g).sum().backward();
            for vector in [&gamma, &beta] {
                let [ours, burns] =
                    [&ours, &burns].map(|all| vector.grad(all).expect("takes part").numbers());
                assert_close(&ours, &burns, tolerance::F32);
            }
            let [ours, burns] =
                [&ours, &burns].map(|all| x.grad(all).expect("takes part").numbers());
            assert_close(&ours, &burns, tolerance::F32);
        }
    }
}

#[test]
fn weighted_sums_and_their_gradients_are_burns() {
    for device in autodiff_devices() {
        device.seed(8);
        for terms in 1..5 {
            let make = || -> Vec<Tensor<4>> {
                (0..terms).map(|_| random([3, 4, 5, 6], &device).require_grad()).collect()
            };
            let tensors = make();
            let weights = random([terms], &device).require_grad();
            let g = random([3, 4, 5, 6], &device);
            let ours = weighted_sum(tensors.clone(), weights.clone());
            let products = tensors.iter().enumerate().map(|(term, tensor)| {
                tensor.clone() * weights.clone().narrow(0, term, 1).reshape([1; 4])
            });
            let burns = products.reduce(|sum, product| sum + product).expect("terms");
            assert_close(&ours, &burns.numbers(), tolerance::F32);
            let ours = (ours * g.clone()).sum().backward();
            let burns = (burns * g).sum().backward();
            for tensor in &tensors {
                let [ours, burns] =
                    [&ours, &burns].map(|all| tensor.grad(all).expect("takes part").numbers());
                assert_close(&ours, &burns, tolerance::F32);
            }
            let [ours, burns] =
                [&ours, &burns].map(|all| weights.grad(all).expect("takes part").numbers());
            assert_close(&ours, &burns, tolerance::F32);
        }
    }
}

#[test]
fn joined_channels_and_their_gradients_are_burns() {
    for device in autodiff_devices() {
        device.seed(9);
        // Enough for memory that is kept and reused, and too few pixels for our kernel.
        for [batch, of_a, of_b, side] in [[3, 5, 2, 80], [2, 1, 3, 9], [2, 3, 4, 2], [1, 4, 4, 8]] {
            let part = |channels| random([batch, channels, side, side], &device).require_grad();
            let g = random([batch, of_a + of_b, side, side], &device);
            // Twice, so that the second time finds memory of the first.
            for _ in 0..2 {
                let (a, b) = (part(of_a), part(of_b));
                let ours = join_channels(a.clone(), b.clone());
                let burns = Tensor::cat(vec![a.clone(), b.clone()], 1);
                assert_eq!(ours.to_data(), burns.to_data());
                let ours = (ours * g.clone()).sum().backward();
                let burns = (burns * g.clone()).sum().backward();
                for part in [a, b] {
                    let [ours, burns] =
                        [&ours, &burns].map(|all| part.grad(all).expect("takes part").to_data());
                    assert_eq!(ours, burns);
                }
            }
        }
    }
}

#[test]
fn the_gradient_of_elu_is_finite_where_the_exponential_is_not() {
    for device in autodiff_devices() {
        // In f32 our kernels compute, in f64 the plain path.
        for dtype in [FloatDType::F32, FloatDType::F64] {
            let x = Tensor::<1>::from_floats([-2.0, 0.5, 100.0, 1000.0], &device).cast(dtype);
            let x = x.require_grad();
            let gradients = activate(x.clone(), Activation::Elu).sum().backward();
            let right = [(-2.0_f64).exp(), 1.0, 1.0, 1.0];
            assert_close(&x.grad(&gradients).expect("takes part"), &right, tolerance::F32);
        }
    }
}

#[test]
fn what_our_kernels_do_not_compute_takes_burns_way() {
    for device in devices() {
        device.seed(7);
        let (x, w) = (random([2, 3, 6, 6], &device), random([4, 3, 3, 3], &device));
        // Half-precision inputs are computed in f32 and rounded once.
        let options = ConvOptions::new([1, 1], [1, 1], [1, 1], 1);
        let exact = conv2d(x.clone(), w.clone(), None, options.clone());
        let [x16, w16] = [&x, &w].map(|tensor| tensor.clone().cast(FloatDType::BF16));
        let rounded = conv2d(x16, w16, None, options.clone());
        assert_eq!(rounded.dtype(), DType::BF16);
        let bf16 = Tolerance { relative: 2e-2, absolute: 4e-2 };
        assert_close(&rounded.numbers(), &exact.numbers(), bf16);
        // f64 and asymmetric padding are computed by burn.
        let [x64, w64] = [&x, &w].map(|tensor| tensor.clone().cast(FloatDType::F64));
        let double = conv2d(x64, w64, None, options);
        assert_eq!(double.dtype(), DType::F64);
        assert_close(&exact.numbers(), &double.numbers(), tolerance::F32);
        let uneven =
            ConvOptions { stride: [1, 1], padding: [(0, 1), (1, 2)], dilation: [1, 1], groups: 1 };
        assert_eq!(conv2d(x, w, None, uneven).dims(), [2, 4, 5, 7]);
    }
}

#[test]
fn convolutions_may_run_inside_the_thread_pool_that_they_use() {
    let _alone = alone();
    let device = Device::flex();
    let (x, w) = (random([8, 4, 16, 16], &device), random([8, 4, 3, 3], &device));
    let options = ConvOptions::new([1, 1], [1, 1], [1, 1], 1);
    let alone = conv2d(x.clone(), w.clone(), None, options.clone()).numbers();
    rayon::scope(|scope| {
        for _ in 0..64 {
            scope.spawn(|_| {
                let inside = conv2d(x.clone(), w.clone(), None, options.clone());
                assert_eq!(inside.numbers(), alone);
            });
        }
    });
}

#[test]
#[should_panic(expected = "assert_shape!(x, [_, channels, _, _])")]
fn channels_that_do_not_fit_are_refused() {
    let _alone = alone();
    let device = Device::flex();
    let (x, w) = (random([1, 3, 6, 6], &device), random([4, 2, 3, 3], &device));
    let _ = conv2d(x, w, None, ConvOptions::new([1, 1], [0, 0], [1, 1], 1));
}
