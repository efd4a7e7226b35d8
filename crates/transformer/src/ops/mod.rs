//! The kernels as differentiable operations on burn's tensors.

#[cfg(all(feature = "flex", feature = "autodiff"))]
mod autodiff;
#[cfg(all(feature = "flex", feature = "autodiff"))]
mod burn_autodiff;
mod burn_layers;
mod dropout;
#[cfg(feature = "flex")]
mod extension;
#[cfg(feature = "flex")]
mod flex;
pub(crate) mod plain;
pub(crate) mod tables;
#[cfg(all(test, feature = "flex", feature = "autodiff"))]
mod tests;

use burn::tensor::Tensor;
#[cfg(feature = "flex")]
use burn::{
    backend::{Dispatch, DispatchDevice},
    tensor::{DType, Device, FloatDType},
};
pub use burn_layers::{fused_linear, fused_linear_gelu, timed_linear};
pub use dropout::{attention_with_dropout, dropout};
pub use tables::{DenseLayer, PeriodicEmbedding, cross_entropy, perceptron, row_features};
#[cfg(feature = "flex")]
use updraft_simd::{Bf16Unit, Products};
use updraft_simd::{add_operations, time_operation};

#[cfg(feature = "flex")]
use self::extension::{AttentionPlan, TransformerBackend};

/// Attention of several heads, `softmax(q·kᵀ/√d)·v` for the `d = embedding / heads` numbers of each.
///
/// On flex in f32 the matrix of all pairs of tokens is never stored: memory is proportional to the
/// number of tokens, in the backward pass too. Elsewhere burn's operations compute the same.
///
/// Within a scope of [`Products::Bf16`](updraft_simd::Products) the kernels round queries, keys, values
/// and weights to bf16 before they multiply them, in both passes, if the numbers of a head nearly fill
/// multiples of 32; sums and the softmax stay in f32. Tensors in bf16 are multiplied so if the processor
/// has a unit for it.
///
/// # Shapes
/// - `q`: `[batch, queries, embedding]`; head `i` has the numbers from `i · d` on
/// - `k`, `v`: `[batch, keys, embedding]`
/// - result: `[batch, queries, embedding]`
///
/// # Panics
/// If the shapes do not match, `heads` is 0 or does not divide the embedding, or there are no keys.
///
/// # Source
/// Vaswani and others 2017, arXiv:1706.03762, sections 3.2.1 and 3.2.2, without the projections.
#[must_use]
pub fn attention(q: Tensor<3>, k: Tensor<3>, v: Tensor<3>, heads: usize) -> Tensor<3> {
    check_attention(&q, &k, &v, heads);
    time_operation("attention", || attend(q, k, v, heads))
}

fn attend(q: Tensor<3>, k: Tensor<3>, v: Tensor<3>, heads: usize) -> Tensor<3> {
    #[cfg(feature = "flex")]
    if all_are_narrow([&q, &k, &v]) {
        let [q, k, v] = [q, k, v].map(wide);
        return narrow(products_of_bf16().scope(|| attend(q, k, v, heads)));
    }
    let [batch, queries, embedding] = q.dims();
    add_products_of_attention([batch, queries, k.dims()[1], embedding]);
    #[cfg(feature = "flex")]
    if all_run_kernels([&q, &k, &v]) {
        let plan = AttentionPlan::new(heads);
        let [q, k, v] = [q, k, v].map(Tensor::into_dispatch);
        return Tensor::from_dispatch(Dispatch::multi_head_attention(q, k, v, plan).0);
    }
    plain::attention(q, k, v, heads)
}

/// [`attention`] of a sequence to itself, from queries, keys and values side by side, as one linear
/// layer computes them.
///
/// No part is copied out of the tensor, and its gradient is written as one.
///
/// # Shapes
/// - `qkv`: `[batch, tokens, 3 · embedding]`: the queries of all heads, then the keys, then the values
/// - result: `[batch, tokens, embedding]`
///
/// # Panics
/// If the last axis is not divisible by three, `heads` is 0 or does not divide a third of it, or there
/// are no tokens.
#[must_use]
pub fn self_attention(qkv: Tensor<3>, heads: usize) -> Tensor<3> {
    let [_, tokens, all] = qkv.dims();
    assert!(all % 3 == 0, "{all} numbers of a token are not queries, keys and values");
    check_heads(all / 3, heads);
    assert!(tokens > 0, "attention needs at least one key");
    time_operation("attention", || attend_to_itself(qkv, heads))
}

fn attend_to_itself(qkv: Tensor<3>, heads: usize) -> Tensor<3> {
    #[cfg(feature = "flex")]
    if all_are_narrow([&qkv]) {
        return narrow(products_of_bf16().scope(|| attend_to_itself(wide(qkv), heads)));
    }
    let [batch, tokens, all] = qkv.dims();
    add_products_of_attention([batch, tokens, tokens, all / 3]);
    #[cfg(feature = "flex")]
    if all_run_kernels([&qkv]) {
        let plan = AttentionPlan::new(heads);
        return Tensor::from_dispatch(Dispatch::self_attention(qkv.into_dispatch(), plan).0);
    }
    plain::self_attention(qkv, heads)
}

/// Normalization over the last axis, `(x − mean)/√(variance + ε)·γ + β`, by the biased variance.
///
/// # Shapes
/// - `x`, result: `[…, numbers]`
/// - `gamma`, `beta`: `[numbers]`
///
/// # Panics
/// If the parameters have other shapes.
///
/// # Source
/// Ba, Kiros, Hinton 2016, arXiv:1607.06450, equations 3 and 4.
#[must_use]
pub fn layer_norm<const D: usize>(
    x: Tensor<D>,
    gamma: Tensor<1>,
    beta: Tensor<1>,
    epsilon: f64,
) -> Tensor<D> {
    let numbers = x.dims()[D - 1];
    assert_eq!([gamma.dims(), beta.dims()], [[numbers]; 2], "parameters of a layer normalization");
    time_operation("layer normalization", || normalize_rows(x, gamma, beta, epsilon))
}

fn normalize_rows<const D: usize>(
    x: Tensor<D>,
    gamma: Tensor<1>,
    beta: Tensor<1>,
    epsilon: f64,
) -> Tensor<D> {
    #[cfg(feature = "flex")]
    if all_run_kernels([&x]) && all_run_kernels([&gamma, &beta]) && gamma.dims() != [0] {
        let [gamma, beta] = [gamma, beta].map(Tensor::into_dispatch);
        let y = Dispatch::norm_of_rows(x.into_dispatch(), gamma, beta, epsilon).0;
        return Tensor::from_dispatch(y);
    }
    plain::layer_norm(x, gamma, beta, epsilon)
}

/// The Gaussian error linear unit of a sum with a bias, `z·Φ(z)` of `z = x + bias`, with the exact
/// distribution function `Φ`.
///
/// # Shapes
/// - `x`, result: `[…, numbers]`
/// - `bias`: `[numbers]`
///
/// # Panics
/// If the bias has another shape.
///
/// # Source
/// Hendrycks, Gimpel 2016, arXiv:1606.08415, section 2.
#[must_use]
pub fn bias_gelu<const D: usize>(x: Tensor<D>, bias: Tensor<1>) -> Tensor<D> {
    let numbers = x.dims()[D - 1];
    assert_eq!(bias.dims(), [numbers], "the bias of an activation");
    time_operation("GELU", || add_and_gelu(x, bias))
}

fn add_and_gelu<const D: usize>(x: Tensor<D>, bias: Tensor<1>) -> Tensor<D> {
    #[cfg(feature = "flex")]
    if all_are_narrow([&x]) && all_are_narrow([&bias]) {
        return narrow(add_and_gelu(wide(x), wide(bias)));
    }
    #[cfg(feature = "flex")]
    if all_run_kernels([&x]) && all_run_kernels([&bias]) && bias.dims() != [0] {
        let y = Dispatch::bias_gelu(x.into_dispatch(), bias.into_dispatch());
        return Tensor::from_dispatch(y);
    }
    plain::bias_gelu(x, bias)
}

/// A linear layer, `x·weight + bias`, with the weights as burn's `Linear` has them.
///
/// Within a scope of [`Products::Bf16`](updraft_simd::Products) the kernels round the factors of the
/// product to bf16, in both passes, and add in f32; tensors in bf16 are multiplied so if the processor
/// has a unit for it.
///
/// # Shapes
/// - `x`: `[…, inputs]`
/// - `weight`: `[inputs, outputs]`
/// - `bias`: `[outputs]`
/// - result: `[…, outputs]`
///
/// # Panics
/// If the shapes do not match.
#[must_use]
pub fn linear<const D: usize>(
    x: Tensor<D>,
    weight: Tensor<2>,
    bias: Option<Tensor<1>>,
) -> Tensor<D> {
    let ([inputs, outputs], of_x) = (weight.dims(), x.dims());
    let of_bias = bias.as_ref().map_or([outputs], Tensor::dims);
    assert!(
        of_x[D - 1] == inputs && of_bias == [outputs],
        "a linear layer of {inputs} inputs and {outputs} outputs takes no {of_x:?} with a bias of \
         {of_bias:?}"
    );
    time_operation("linear", || multiply(x, weight, bias))
}

fn multiply<const D: usize>(x: Tensor<D>, weight: Tensor<2>, bias: Option<Tensor<1>>) -> Tensor<D> {
    #[cfg(feature = "flex")]
    if all_are_narrow([&x])
        && all_are_narrow([&weight])
        && bias.as_ref().is_none_or(|bias| all_are_narrow([bias]))
    {
        let (x, weight, bias) = (wide(x), wide(weight), bias.map(wide));
        return narrow(products_of_bf16().scope(|| multiply(x, weight, bias)));
    }
    let products = x.shape().num_elements() * weight.dims()[1];
    add_operations(2 * products as u64);
    #[cfg(feature = "flex")]
    if all_run_kernels([&x])
        && all_run_kernels([&weight])
        && bias.as_ref().is_none_or(|bias| all_run_kernels([bias]))
        && products > 0
    {
        let (x, weight) = (x.into_dispatch(), weight.into_dispatch());
        let products = Products::current();
        return Tensor::from_dispatch(match bias {
            Some(bias) => Dispatch::linear_with_bias(x, weight, bias.into_dispatch(), products),
            None => Dispatch::linear_without_bias(x, weight, products),
        });
    }
    plain::linear(x, weight, bias)
}

/// The products of queries with keys and of weights with values.
fn add_products_of_attention([batch, queries, keys, embedding]: [usize; 4]) {
    add_operations(4 * (batch * queries * keys * embedding) as u64);
}

fn check_attention(q: &Tensor<3>, k: &Tensor<3>, v: &Tensor<3>, heads: usize) {
    let ([batch, queries, embedding], of_k, of_v) = (q.dims(), k.dims(), v.dims());
    check_heads(embedding, heads);
    assert!(
        of_k == of_v && [of_k[0], of_k[2]] == [batch, embedding],
        "attention of queries [{batch}, {queries}, {embedding}] to keys {of_k:?} and values {of_v:?}"
    );
    assert!(of_k[1] > 0, "attention needs at least one key");
}

fn check_heads(embedding: usize, heads: usize) {
    assert!(
        heads > 0 && embedding > 0 && embedding.is_multiple_of(heads),
        "{heads} heads do not divide an embedding of {embedding} numbers"
    );
}

/// Whether the kernels compute these tensors in f32, and round only the result to bf16.
#[cfg(feature = "flex")]
fn all_are_narrow<const D: usize, const N: usize>(tensors: [&Tensor<D>; N]) -> bool {
    !plain::is_default()
        && tensors
            .iter()
            .all(|tensor| tensor.dtype() == DType::BF16 && runs_kernels(&tensor.device()))
}

/// What multiplies numbers that are in bf16 already: in f32 their products are exact, and sums have another
/// order.
#[cfg(feature = "flex")]
fn products_of_bf16() -> Products {
    if Bf16Unit::detect().is_fast() { Products::Bf16 } else { Products::F32 }
}

#[cfg(feature = "flex")]
fn wide<const D: usize>(tensor: Tensor<D>) -> Tensor<D> {
    tensor.cast(FloatDType::F32)
}

#[cfg(feature = "flex")]
fn narrow<const D: usize>(tensor: Tensor<D>) -> Tensor<D> {
    tensor.cast(FloatDType::BF16)
}

#[cfg(feature = "flex")]
fn all_run_kernels<const D: usize, const N: usize>(tensors: [&Tensor<D>; N]) -> bool {
    !plain::is_default()
        && tensors
            .iter()
            .all(|tensor| tensor.dtype() == DType::F32 && runs_kernels(&tensor.device()))
}

/// Whether our operations exist there: burn panics if an extension runs on a backend that it was not
/// declared for.
#[cfg(feature = "flex")]
fn runs_kernels(device: &Device) -> bool {
    fn listed(device: &DispatchDevice) -> bool {
        match device {
            DispatchDevice::Flex(_) => true,
            #[cfg(feature = "autodiff")]
            DispatchDevice::Autodiff(inner) => listed(inner),
            #[allow(unreachable_patterns, reason = "burn's variants depend on its features")]
            _ => false,
        }
    }
    listed(device.as_dispatch())
}
