//! Kernels on slices; nothing in here knows burn.

mod attention;
mod cross_entropy;
mod dropout;
mod gelu;
mod layer_norm;
mod linear;
mod linear_bf16;
mod linear_columns;
#[cfg(test)]
mod linear_tests;
mod perceptron;
mod rows;
#[cfg(test)]
mod tests;

pub(crate) use attention::{Attention, AttentionScratch, Heads};
pub(crate) use cross_entropy::cross_entropy;
pub(crate) use dropout::Dropout;
pub(crate) use gelu::{bias_gelu, bias_gelu_gradient};
pub(crate) use layer_norm::{LayerNormInput, layer_norm, layer_norm_gradient};
pub(crate) use linear::{Factor, LinearScratch, MatrixProduct, column_sums};
pub(crate) use linear_bf16::Bf16Scratch;
pub(crate) use perceptron::{Layer, Passed, Perceptron, PerceptronScratch};
pub(crate) use rows::{Embeddings, Periodic, ROWS, RowFeatures, RowGradients};

/// Rows of a piece: sums of a gradient are added piece by piece, so that their order does not depend
/// on the number of threads.
pub(crate) const PIECE_ROWS: usize = 32;
