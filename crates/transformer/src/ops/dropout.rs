//! Attention whose weights have dropout.

use burn::nn::Dropout;
use burn::tensor::Tensor;
use burn::tensor::activation::softmax;
#[cfg(feature = "flex")]
use burn::{
    backend::tensor::FloatTensor,
    backend::{Backend, Dispatch},
};
use updraft_simd::{mark_plain, time_operation};

#[cfg(feature = "flex")]
use super::extension::TransformerBackend;
use super::{add_products_of_attention, attention, check_attention};
#[cfg(feature = "flex")]
use super::{all_are_narrow, all_run_kernels, narrow, wide};

/// [`attention`] with dropout of the weights of each query.
///
/// While dropout is active, which is on an autodiff device alone, the weights of all pairs of tokens
/// are in memory; otherwise this is `attention`.
///
/// # Shapes
/// As those of `attention`.
///
/// # Panics
/// As `attention`.
///
/// # Source
/// Vaswani and others 2017, arXiv:1706.03762, sections 3.2.1 and 3.2.2; dropout of weights as in
/// burn's `MultiHeadAttention`.
#[must_use]
pub fn attention_with_dropout(
    q: Tensor<3>,
    k: Tensor<3>,
    v: Tensor<3>,
    heads: usize,
    dropout: &Dropout,
) -> Tensor<3> {
    if dropout.prob == 0.0 || !q.device().is_autodiff() {
        return attention(q, k, v, heads);
    }
    check_attention(&q, &k, &v, heads);
    time_operation("attention", || attend(q, k, v, heads, dropout))
}

fn attend(q: Tensor<3>, k: Tensor<3>, v: Tensor<3>, heads: usize, dropout: &Dropout) -> Tensor<3> {
    #[cfg(feature = "flex")]
    if all_are_narrow([&q, &k, &v]) {
        let [q, k, v] = [q, k, v].map(wide);
        return narrow(attend(q, k, v, heads, dropout));
    }
    let ([batch, queries, embedding], keys) = (q.dims(), k.dims()[1]);
    add_products_of_attention([batch, queries, keys, embedding]);
    let by_head = |tensor: Tensor<3>| {
        let [batch, tokens, embedding] = tensor.dims();
        tensor.reshape([batch, tokens, heads, embedding / heads]).swap_dims(1, 2)
    };
    let of_weights = [batch, heads, queries, keys];
    let kept = dropout.forward(Tensor::<4>::ones(of_weights, (&q.device(), q.dtype())));
    let factor = ((embedding / heads) as f64).sqrt().recip();
    join(with_factors([by_head(q).mul_scalar(factor), by_head(k), by_head(v)], kept))
}

/// `(softmax(q·kᵀ)·factors)·v` of heads apart, `[batch, heads, tokens, numbers]`.
fn with_factors([q, k, v]: [Tensor<4>; 3], factors: Tensor<4>) -> Tensor<4> {
    #[cfg(feature = "flex")]
    if all_run_kernels([&q, &k, &v, &factors]) {
        let [q, k, v, factors] = [q, k, v, factors].map(Tensor::into_dispatch);
        return Tensor::from_dispatch(Dispatch::attention_with_factors(q, k, v, factors).0);
    }
    mark_plain();
    (softmax(q.matmul(k.transpose()), 3) * factors).matmul(v)
}

/// From heads apart to heads side by side.
fn join(by_head: Tensor<4>) -> Tensor<3> {
    let [batch, heads, tokens, numbers] = by_head.dims();
    by_head.swap_dims(1, 2).reshape([batch, tokens, heads * numbers])
}

/// `(softmax(q·kᵀ)·factors)·v`, and the softmax.
#[cfg(feature = "flex")]
pub(super) fn forward<B: Backend>(
    q: FloatTensor<B>,
    k: FloatTensor<B>,
    v: FloatTensor<B>,
    factors: FloatTensor<B>,
) -> (FloatTensor<B>, FloatTensor<B>) {
    let weights = B::softmax(B::float_matmul(q, B::float_swap_dims(k, 2, 3)), 3);
    (B::float_matmul(B::float_mul(weights.clone(), factors), v), weights)
}

/// The gradients of `[q, k, v]`, from these, factors and softmax, and the gradient of the result.
#[cfg(all(feature = "flex", feature = "autodiff"))]
pub(super) fn backward<B: Backend>(
    [q, k, v]: [FloatTensor<B>; 3],
    [factors, weights]: [FloatTensor<B>; 2],
    dy: FloatTensor<B>,
) -> [FloatTensor<B>; 3] {
    let transposed = |tensor| B::float_swap_dims(tensor, 2, 3);
    let applied = B::float_mul(weights.clone(), factors.clone());
    let of_v = B::float_matmul(transposed(applied), dy.clone());
    let of_weights = B::float_mul(B::float_matmul(dy, transposed(v)), factors);
    // Of a softmax: each weight times its gradient less their mean under the weights.
    let products = B::float_mul(weights.clone(), of_weights);
    let sums = B::float_sum_dim(products.clone(), 3);
    let of_scores = B::float_sub(products, B::float_mul(weights, sums));
    let of_q = B::float_matmul(of_scores.clone(), k);
    let of_k = B::float_matmul(transposed(of_scores), q);
    [of_q, of_k, of_v]
}

#[cfg(all(test, feature = "flex", feature = "autodiff"))]
mod tests {
    use burn::nn::DropoutConfig;
    use burn::tensor::{Device, FloatDType, TensorData};
    use updraft_simd::{LayerPass, LayerTimer};
    use updraft_testing::{Numbers, assert_close, scattered, tolerance};

    use super::*;
    use crate::attention;

    fn leaf<const D: usize>(seed: u32, shape: [usize; D]) -> Tensor<D> {
        let numbers = scattered(seed, shape.iter().product());
        let device = Device::flex().autodiff();
        Tensor::from_data(TensorData::new(numbers, shape), &device).require_grad()
    }

    const SHAPE: [usize; 4] = [2, 3, 5, 4];

    fn operands() -> ([Tensor<4>; 3], Tensor<4>) {
        let [batch, heads, queries, numbers] = SHAPE;
        let of_keys = [batch, heads, 7, numbers];
        let factors = leaf(4, [batch, heads, queries, 7]).detach().clamp_min(0.0);
        ([leaf(1, SHAPE), leaf(2, of_keys), leaf(3, of_keys)], factors)
    }

    #[test]
    fn weights_are_multiplied_as_in_the_formula_in_f64() {
        let _alone = updraft_testing::alone();
        let ([q, k, v], factors) = operands();
        let [of_q, of_k, of_v, of_factors] = [&q, &k, &v, &factors].map(|tensor| tensor.numbers());
        let [batch, heads, queries, numbers] = SHAPE;
        let row = |of: &[f64], head: usize, token: usize, tokens: usize| {
            let first = (head * tokens + token) * numbers;
            of[first..first + numbers].to_vec()
        };
        let mut expected = Vec::new();
        for head in 0..batch * heads {
            for query in 0..queries {
                let of_query = row(&of_q, head, query, queries);
                let weight = |key: usize| {
                    let of_key = row(&of_k, head, key, 7);
                    of_query.iter().zip(&of_key).map(|(a, b)| a * b).sum::<f64>().exp()
                };
                let weights: Vec<f64> = (0..7).map(weight).collect();
                let sum: f64 = weights.iter().sum();
                for at in 0..numbers {
                    let term = |key: usize| {
                        let factor = of_factors[(head * queries + query) * 7 + key];
                        weights[key] / sum * factor * row(&of_v, head, key, 7)[at]
                    };
                    expected.push((0..7).map(term).sum::<f64>());
                }
            }
        }
        assert_close(&with_factors([q, k, v], factors), &expected, tolerance::F32);
    }

    #[test]
    fn gradients_are_those_of_burns_operations_in_f64() {
        let _alone = updraft_testing::alone();
        let (operands, factors) = operands();
        let weights = leaf(5, SHAPE).detach();
        let gradients = |dtype: FloatDType| {
            let of = |tensor: &Tensor<4>| tensor.clone().cast(dtype);
            let y = with_factors(operands.each_ref().map(of), of(&factors));
            let gradients = (y * of(&weights)).sum().backward();
            operands.each_ref().map(|it| it.grad(&gradients).expect("a gradient"))
        };
        let found = gradients(FloatDType::F32).into_iter();
        for (found, expected) in found.zip(gradients(FloatDType::F64)) {
            assert_close(&found, &expected, tolerance::F32);
        }
    }

    #[test]
    fn weights_are_dropped_on_an_autodiff_device_alone() {
        let _alone = updraft_testing::alone();
        let dropout = DropoutConfig::new(0.4).init();
        let [q, k, v] = [1, 2, 3].map(|seed| leaf(seed, [2, 6, 12]));
        let expected = attention(q.clone(), k.clone(), v.clone(), 3);
        let outside = [&q, &k, &v].map(|tensor| tensor.clone().without_autodiff());
        let [of_q, of_k, of_v] = outside;
        let found = attention_with_dropout(of_q, of_k, of_v, 3, &dropout);
        assert_close(&found, &expected.clone().without_autodiff(), tolerance::EXACT);
        let nothing = DropoutConfig::new(0.0).init();
        let found = attention_with_dropout(q.clone(), k.clone(), v.clone(), 3, &nothing);
        assert_close(&found, &expected, tolerance::EXACT);

        let run = || {
            q.device().seed(7);
            attention_with_dropout(q.clone(), k.clone(), v.clone(), 3, &dropout)
        };
        let plain = run().into_data();
        let mut timer = LayerTimer::start();
        let found = run();
        assert_eq!(found.clone().into_data(), plain, "a timer changes no bit");
        assert_ne!(plain, expected.into_data());
        let of_forward = timer.take();
        drop(found.sum().backward());
        let of_backward = timer.take();
        // Two products of 6 tokens with 6 and 12 numbers, in 2 samples.
        let operations = 2 * 2 * 2 * 6 * 6 * 12;
        for (spans, pass, factor) in
            [(of_forward, LayerPass::Forward, 1), (of_backward, LayerPass::Backward, 2)]
        {
            let [span] = &spans[..] else { panic!("{spans:?}") };
            assert_eq!((span.layer.kind, span.pass), ("attention", pass));
            assert_eq!(span.operations, factor * operations);
        }
    }
}
