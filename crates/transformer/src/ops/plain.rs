//! The same operations by burn's own: for other backends, and as the reference in tests.

use std::sync::atomic::{AtomicBool, Ordering};

use burn::tensor::Tensor;
use burn::tensor::activation::gelu;
use burn::tensor::module;
use burn::tensor::ops::AttentionModuleOptions;
use updraft_simd::mark_plain;

/// Whether burn's operations compute everything.
static IS_DEFAULT: AtomicBool = AtomicBool::new(false);

/// Lets burn's own operations compute everything in this process, to compare our kernels with them.
pub fn make_default() {
    IS_DEFAULT.store(true, Ordering::Relaxed);
}

#[cfg(feature = "flex")]
pub(super) fn is_default() -> bool {
    IS_DEFAULT.load(Ordering::Relaxed)
}

/// [`attention`](crate::attention) by burn's operations.
#[must_use]
pub fn attention(q: Tensor<3>, k: Tensor<3>, v: Tensor<3>, heads: usize) -> Tensor<3> {
    mark_plain();
    let shape = q.dims();
    let by_head = |tensor: Tensor<3>| {
        let [batch, tokens, embedding] = tensor.dims();
        tensor.reshape([batch, tokens, heads, embedding / heads]).swap_dims(1, 2)
    };
    let [q, k, v] = [q, k, v].map(by_head);
    let by_head = module::attention(q, k, v, None, None, AttentionModuleOptions::default());
    by_head.swap_dims(1, 2).reshape(shape)
}

/// [`self_attention`](crate::self_attention) by burn's operations.
#[must_use]
pub fn self_attention(qkv: Tensor<3>, heads: usize) -> Tensor<3> {
    let embedding = qkv.dims()[2] / 3;
    let part = |index: usize| qkv.clone().narrow(2, index * embedding, embedding);
    attention(part(0), part(1), part(2), heads)
}

/// [`layer_norm`](crate::layer_norm) by burn's operations.
#[must_use]
pub fn layer_norm<const D: usize>(
    x: Tensor<D>,
    gamma: Tensor<1>,
    beta: Tensor<1>,
    epsilon: f64,
) -> Tensor<D> {
    mark_plain();
    module::layer_norm(x, gamma, Some(beta), epsilon)
}

/// [`bias_gelu`](crate::bias_gelu) by burn's operations.
#[must_use]
pub fn bias_gelu<const D: usize>(x: Tensor<D>, bias: Tensor<1>) -> Tensor<D> {
    mark_plain();
    gelu(x + bias.unsqueeze())
}

/// [`linear`](crate::linear) by burn's operations.
#[must_use]
pub fn linear<const D: usize>(
    x: Tensor<D>,
    weight: Tensor<2>,
    bias: Option<Tensor<1>>,
) -> Tensor<D> {
    mark_plain();
    module::linear(x, weight, bias)
}
