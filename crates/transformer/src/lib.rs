#![doc = include_str!("../README.md")]

#[cfg_attr(not(feature = "flex"), allow(dead_code, reason = "only flex uses the kernels"))]
mod kernels;
mod ops;

// Operations on burn's tensors.
pub use ops::{
    attention, attention_with_dropout, bias_gelu, layer_norm, linear, self_attention,
    timed_embedding, timed_linear,
};
// Operations on the rows of tables.
pub use ops::{DenseLayer, PeriodicEmbedding, perceptron, row_features};

/// The same operations by burn's own, on any device.
pub mod plain {
    pub use crate::ops::plain::{
        attention, bias_gelu, layer_norm, linear, make_default, self_attention,
    };
    pub use crate::ops::tables::plain::{perceptron, row_features};
}
