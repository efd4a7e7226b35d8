//! The operations that a backend implements to run our kernels, and their gradients.
#![allow(clippy::type_complexity, reason = "a gradient needs what the forward pass knew")]

use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, backend_extension};
use updraft_simd::Products;

use crate::kernels::Dropout;

/// The heads of an attention, the dropout of its weights, and what its products multiply.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct AttentionPlan {
    pub(crate) heads: usize,
    pub(crate) dropout: Option<Dropout>,
    pub(crate) products: Products,
}

impl AttentionPlan {
    /// Without dropout, in the scope of this thread.
    pub(crate) fn new(heads: usize) -> Self {
        Self { heads, dropout: None, products: Products::current() }
    }
}

/// Our operations, on f32 tensors.
#[backend_extension(Flex: cfg(feature = "flex"), Autodiff: cfg(feature = "autodiff"))]
pub(crate) trait TransformerBackend: Backend {
    /// Attention, and the logarithms of the sums of each query's exponentials, `[batch, heads,
    /// queries]`.
    fn multi_head_attention(
        q: FloatTensor<Self>,
        k: FloatTensor<Self>,
        v: FloatTensor<Self>,
        plan: AttentionPlan,
    ) -> (FloatTensor<Self>, FloatTensor<Self>);

    /// The same of queries, keys and values in one tensor.
    fn self_attention(
        qkv: FloatTensor<Self>,
        plan: AttentionPlan,
    ) -> (FloatTensor<Self>, FloatTensor<Self>);

    /// A layer normalization, and the mean and factor of each row, `[rows, 2]`.
    fn norm_of_rows(
        x: FloatTensor<Self>,
        gamma: FloatTensor<Self>,
        beta: FloatTensor<Self>,
        epsilon: f64,
    ) -> (FloatTensor<Self>, FloatTensor<Self>);

    /// A linear layer.
    fn linear_with_bias(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        products: Products,
    ) -> FloatTensor<Self>;

    /// A linear layer that adds nothing.
    fn linear_without_bias(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        products: Products,
    ) -> FloatTensor<Self>;

    /// The Gaussian error linear unit of a sum with a bias.
    fn bias_gelu(x: FloatTensor<Self>, bias: FloatTensor<Self>) -> FloatTensor<Self>;

    /// The numbers of rows, some at random set to 0 and the others scaled.
    fn dropout(x: FloatTensor<Self>, dropout: Dropout) -> FloatTensor<Self>;

    /// burn's own linear layer.
    fn burn_linear_with_bias(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: FloatTensor<Self>,
    ) -> FloatTensor<Self>;

    /// burn's own linear layer that adds nothing.
    fn burn_linear(x: FloatTensor<Self>, weight: FloatTensor<Self>) -> FloatTensor<Self>;
}

/// The gradients of our operations, on a backend below autodiff: burn differentiates once.
#[cfg(feature = "autodiff")]
pub(crate) trait TransformerGradients: TransformerBackend {
    /// The gradients of `[q, k, v]`, from these, and result, logarithms and the result's gradient.
    fn attention_gradient(
        inputs: [FloatTensor<Self>; 3],
        result: [FloatTensor<Self>; 2],
        dy: FloatTensor<Self>,
        plan: AttentionPlan,
    ) -> [FloatTensor<Self>; 3];

    /// The gradient of queries, keys and values in one tensor.
    fn self_attention_gradient(
        qkv: FloatTensor<Self>,
        result: [FloatTensor<Self>; 2],
        dy: FloatTensor<Self>,
        plan: AttentionPlan,
    ) -> FloatTensor<Self>;

    /// The gradients of input, factors and summands.
    fn layer_norm_gradient(
        x: FloatTensor<Self>,
        gamma: FloatTensor<Self>,
        statistics: FloatTensor<Self>,
        dy: FloatTensor<Self>,
    ) -> [FloatTensor<Self>; 3];

    /// The gradients of a linear layer's input, weights and bias that are `wanted`.
    fn linear_gradient(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        dy: FloatTensor<Self>,
        wanted: [bool; 3],
        products: Products,
    ) -> [Option<FloatTensor<Self>>; 3];

    /// The gradients of input and bias.
    fn bias_gelu_gradient(
        x: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        dy: FloatTensor<Self>,
    ) -> [FloatTensor<Self>; 2];
}
