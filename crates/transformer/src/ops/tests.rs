//! Our operations against burn's own, in values and gradients.

use burn::tensor::{Device, FloatDType, Gradients, Tensor, TensorData};
use updraft_simd::Products;
use updraft_testing::{Tolerance, assert_close, scattered, tolerance};

use crate::{attention, bias_gelu, layer_norm, linear, plain, self_attention};

/// A leaf of numbers by a seed.
fn leaf<const D: usize>(seed: u32, shape: [usize; D]) -> Tensor<D> {
    let device = Device::flex().autodiff();
    let numbers = scattered(seed, shape.iter().product());
    Tensor::from_data(TensorData::new(numbers, shape), &device).require_grad()
}

/// Compares results, and the gradients of a weighted sum of them, of all operands.
fn compare<const D: usize, const N: usize>(
    operands: [Tensor<D>; N],
    vectors: &[Tensor<1>],
    weights: &[Tensor<2>],
    ours: impl Fn() -> Tensor<D>,
    plain: impl Fn() -> Tensor<D>,
) {
    let (y, expected) = (ours(), plain());
    assert_eq!(y.dims(), expected.dims());
    let factors = leaf(99, [y.dims().iter().product()]).reshape(y.dims()).detach();
    assert_close(&y, &expected, tolerance::F32);
    let [given, right] = [y, expected].map(|y| (y * factors.clone()).sum().backward());
    compare_gradients(&operands, [&given, &right]);
    compare_gradients(vectors, [&given, &right]);
    compare_gradients(weights, [&given, &right]);
}

fn compare_gradients<const D: usize>(operands: &[Tensor<D>], by: [&Gradients; 2]) {
    for operand in operands {
        let [given, right] = by.map(|gradients| operand.grad(gradients).expect("a gradient"));
        assert_eq!(given.dims(), right.dims());
        assert_close(&given, &right, Tolerance::new(1e-5, 1e-4));
    }
}

#[test]
fn attention_is_that_of_burns_operations() {
    for [batch, queries, keys, embedding, heads] in
        [[2, 5, 9, 12, 3], [1, 70, 100, 32, 2], [3, 1, 1, 4, 4]]
    {
        let q = leaf(1, [batch, queries, embedding]);
        let [k, v] = [2, 3].map(|seed| leaf(seed, [batch, keys, embedding]));
        let by = |run: fn(Tensor<3>, Tensor<3>, Tensor<3>, usize) -> Tensor<3>| {
            let (q, k, v) = (q.clone(), k.clone(), v.clone());
            move || run(q.clone(), k.clone(), v.clone(), heads)
        };
        let operands = [q.clone(), k.clone(), v.clone()];
        compare(operands, &[], &[], by(attention), by(plain::attention));
    }
}

#[test]
fn self_attention_is_that_of_burns_operations_and_of_three_tensors() {
    let (embedding, heads) = (24, 4);
    let qkv = leaf(1, [2, 33, 3 * embedding]);
    let ours = || self_attention(qkv.clone(), heads);
    compare([qkv.clone()], &[], &[], ours, || plain::self_attention(qkv.clone(), heads));
    let part = |index: usize| qkv.clone().narrow(2, index * embedding, embedding);
    let apart = attention(part(0), part(1), part(2), heads);
    assert_close(&ours(), &apart, tolerance::EXACT);
}

#[test]
fn layer_norm_is_that_of_burns_operations() {
    let [gamma, beta] = [1, 2].map(|seed| leaf(seed, [20]));
    let x = leaf(3, [3, 7, 20]);
    let vectors = [gamma.clone(), beta.clone()];
    let by = |run: fn(Tensor<3>, Tensor<1>, Tensor<1>, f64) -> Tensor<3>| {
        let (x, [gamma, beta]) = (x.clone(), vectors.clone());
        move || run(x.clone(), gamma.clone(), beta.clone(), 1e-5)
    };
    compare([x.clone()], &vectors, &[], by(layer_norm), by(plain::layer_norm));
}

#[test]
fn gelu_is_that_of_burns_operations() {
    let (x, bias) = (leaf(1, [3, 7, 20]).mul_scalar(4.0).detach().require_grad(), leaf(2, [20]));
    let vectors = [bias.clone()];
    let ours = || bias_gelu(x.clone(), bias.clone());
    compare([x.clone()], &vectors, &[], ours, || plain::bias_gelu(x.clone(), bias.clone()));
}

#[test]
fn linear_layers_are_those_of_burns_operations() {
    for [rows, inputs, outputs] in [[7, 5, 3], [101, 33, 70], [1, 600, 32], [5, 1, 1]] {
        let x = leaf(1, [rows, inputs]);
        let weight = leaf(2, [inputs, outputs]);
        let bias = leaf(3, [outputs]);
        for bias in [None, Some(bias)] {
            let vectors: Vec<Tensor<1>> = bias.iter().cloned().collect();
            let ours = || linear(x.clone(), weight.clone(), bias.clone());
            let plain = || plain::linear(x.clone(), weight.clone(), bias.clone());
            compare([x.clone()], &vectors, std::slice::from_ref(&weight), ours, plain);
        }
    }
    let x = leaf(1, [2, 3, 4, 5]);
    let weight = leaf(2, [5, 6]);
    let y = linear(x.clone(), weight.clone(), None);
    assert_eq!(y.dims(), [2, 3, 4, 6]);
    assert_close(&y, &plain::linear(x, weight, None), tolerance::F32);
}

#[test]
fn only_the_gradients_that_take_part_are_computed() {
    let (x, weight) = (leaf(1, [4, 5]), leaf(2, [5, 3]));
    let gradients = linear(x.clone().detach(), weight.clone(), None).sum().backward();
    assert!(x.grad(&gradients).is_none());
    assert!(weight.grad(&gradients).is_some());
}

#[test]
fn tensors_that_are_not_contiguous_are_read_in_their_order() {
    let x = leaf(1, [2, 12, 9]).swap_dims(1, 2);
    let in_order = Tensor::from_data(x.to_data(), &x.device());
    let [y, expected] = [x, in_order].map(|x| attention(x.clone(), x.clone(), x, 3));
    assert_close(&y, &expected, tolerance::EXACT);
}

#[test]
fn tensors_in_f64_take_burns_operations() {
    let x = leaf(1, [2, 9, 12]).cast(FloatDType::F64);
    let y = attention(x.clone(), x.clone(), x.clone(), 3);
    assert_close(&y, &plain::attention(x.clone(), x.clone(), x, 3), tolerance::EXACT);
}

#[test]
#[should_panic(expected = "5 heads do not divide an embedding of 12 numbers")]
fn heads_divide_the_embedding() {
    let x = leaf(1, [1, 2, 12]);
    let _ = attention(x.clone(), x.clone(), x, 5);
}

#[test]
#[should_panic(
    expected = "attention of queries [1, 2, 12] to keys [1, 3, 8] and values [1, 3, 12]"
)]
fn keys_have_the_embedding_of_the_queries() {
    let _ = attention(leaf(1, [1, 2, 12]), leaf(2, [1, 3, 8]), leaf(3, [1, 3, 12]), 2);
}

#[test]
#[should_panic(expected = "attention needs at least one key")]
fn attention_to_nothing_is_refused() {
    let none = Tensor::<3>::zeros([1, 0, 12], &leaf(1, [1]).device());
    let _ = attention(leaf(1, [1, 2, 12]), none.clone(), none, 2);
}

#[test]
#[should_panic(expected = "a linear layer of 5 inputs and 3 outputs takes no [2, 4]")]
fn linear_layers_take_their_inputs() {
    let _ = linear(leaf(1, [2, 4]), leaf(2, [5, 3]), None);
}

#[test]
fn tensors_in_bf16_are_computed_in_f32_and_rounded_once() {
    let rounded = |tensor: Tensor<3>| tensor.cast(FloatDType::BF16).detach().require_grad();
    let (x, qkv) = (rounded(leaf(1, [2, 9, 24])), rounded(leaf(2, [2, 9, 72])));
    let weight = leaf(3, [24, 40]).cast(FloatDType::BF16).detach().require_grad();
    let bias = leaf(4, [40]).cast(FloatDType::BF16).detach().require_grad();
    let of_gelu = leaf(5, [24]).cast(FloatDType::BF16).detach().require_grad();
    let wide = |tensor: &Tensor<3>| tensor.clone().cast(FloatDType::F32);
    let run = |narrow: bool| {
        let (x, qkv) = if narrow { (x.clone(), qkv.clone()) } else { (wide(&x), wide(&qkv)) };
        let to = if narrow { FloatDType::BF16 } else { FloatDType::F32 };
        let (weight, bias) = (weight.clone().cast(to), bias.clone().cast(to));
        let attended = self_attention(qkv, 3);
        let active = bias_gelu(x + attended.clone(), of_gelu.clone().cast(to));
        let others = attention(active.clone(), attended.clone(), attended, 2);
        linear(others, weight, Some(bias))
    };
    let (y, exact) = (run(true), run(false));
    assert_eq!(y.dtype(), burn::tensor::DType::BF16);
    // 8 bits, in four operations one after the other.
    let close = Tolerance::new(5e-2, 5e-2);
    assert_close(&y.clone().cast(FloatDType::F32), &exact, close);
    let factors = leaf(99, [2, 9, 40]).detach();
    let [given, right] =
        [y, exact].map(|y| (y.cast(FloatDType::F32) * factors.clone()).sum().backward());
    for operand in [&x, &qkv] {
        let [given, right] = [&given, &right].map(|g| operand.grad(g).expect("a gradient"));
        assert_eq!(given.dtype(), burn::tensor::DType::BF16);
        let [given, right] = [given, right].map(|gradient| gradient.cast(FloatDType::F32));
        assert_close(&given, &right, close);
    }
    let [given, right] = [given, right]
        .map(|gradients| weight.grad(&gradients).expect("a gradient").cast(FloatDType::F32));
    assert_close(&given, &right, Tolerance::new(1e-1, 5e-2));
}

#[test]
fn attention_in_a_scope_of_bf16_multiplies_rounded_numbers_in_both_passes() {
    let qkv = leaf(1, [2, 40, 2 * 3 * 32]);
    let compute = || self_attention(qkv.clone(), 2);
    let (y, exact) = (Products::Bf16.scope(compute), compute());
    let factors = leaf(99, [2, 40, 2 * 32]).detach();
    let [given, right] = [&y, &exact].map(|y| {
        let gradients = (y.clone() * factors.clone()).sum().backward();
        qkv.grad(&gradients).expect("a gradient").into_data().iter::<f32>().collect::<Vec<_>>()
    });
    let close = Tolerance::new(1e-2, 1e-2);
    assert_close(&y, &exact, close);
    assert_close(&given, &right, close);
    assert_ne!(y.into_data(), exact.into_data());
    assert_ne!(given, right);
}

#[test]
fn linear_layers_in_a_scope_of_bf16_multiply_rounded_numbers_in_both_passes() {
    let [inputs, outputs] = [40, 24];
    let (x, weight) = (leaf(1, [3, 7, inputs]), leaf(2, [inputs, outputs]));
    let bias = leaf(3, [outputs]);
    let compute = || linear(x.clone(), weight.clone(), Some(bias.clone()));
    let (y, exact) = (Products::Bf16.scope(compute), compute());
    // The gradients are computed outside of the scope, from rounded numbers all the same.
    let factors = leaf(99, [3, 7, outputs]).detach();
    let [given, right] = [&y, &exact].map(|y| (y.clone() * factors.clone()).sum().backward());
    // 8 bits of each factor, and sums of 40, 24 and 21 products of numbers up to 1.
    let close = Tolerance::new(2e-2, 1e-2);
    assert_close(&y, &exact, close);
    assert_ne!(y.into_data(), exact.into_data());
    for (given, right) in [
        (x.grad(&given).map(Tensor::into_data), x.grad(&right).map(Tensor::into_data)),
        (weight.grad(&given).map(Tensor::into_data), weight.grad(&right).map(Tensor::into_data)),
    ] {
        let [given, right] =
            [given, right].map(|data| data.expect("a gradient").iter::<f32>().collect::<Vec<_>>());
        assert_close(&given, &right, close);
        assert_ne!(given, right);
    }
    assert_close(
        &bias.grad(&given).expect("a gradient"),
        &bias.grad(&right).expect("a gradient"),
        tolerance::F32,
    );
}
