#![doc = include_str!("../README.md")]

#[cfg_attr(
    not(all(feature = "flex", feature = "autodiff")),
    allow(dead_code, unused_imports, reason = "only flex and its gradients use the kernels")
)]
mod kernels;
#[cfg_attr(
    not(feature = "autodiff"),
    allow(unused_imports, reason = "only gradients use all of it")
)]
mod ops;

// Operations on burn's tensors.
pub use ops::{
    attention, attention_with_dropout, bias_gelu, dropout, fused_linear, fused_linear_gelu,
    layer_norm, linear, self_attention, timed_linear,
};
// Operations on the rows of tables.
pub use ops::{DenseLayer, PeriodicEmbedding, cross_entropy, perceptron, row_features};

/// The same operations by burn's own, on any device.
pub mod plain {
    pub use crate::ops::plain::{
        attention, bias_gelu, layer_norm, linear, make_default, self_attention,
    };
    pub use crate::ops::tables::plain::{cross_entropy, perceptron, row_features};
}
