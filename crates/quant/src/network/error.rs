//! Errors of quantizing a graph.

use crate::observe::ObserveError;
use crate::weights::WeightError;

/// Errors of quantizing a graph.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum QuantizeError {
    /// The graph has no layer.
    #[error("the graph has no layer; add one before it is quantized")]
    NoLayer,
    /// No sample was seen.
    #[error("the calibration set has no sample; a few hundred are enough")]
    NoSample,
    /// A batch holds no whole number of samples, or not the same of every input.
    #[error(
        "calibration batch {batch} has {got:?} numbers; for each input they must be the same \
         multiple of {sample:?}, those of a sample"
    )]
    BatchLength {
        /// The batch, counted from 0.
        batch: usize,
        /// Numbers of a sample, input by input.
        sample: Vec<usize>,
        /// Numbers of the batch.
        got: Vec<usize>,
    },
    /// What a layer gave in f32 has no scheme.
    #[error("the output of layer `{layer}` cannot be calibrated: {cause}")]
    Observed {
        /// The layer, or the input.
        layer: String,
        /// Why.
        cause: ObserveError,
    },
    /// A layer is to be kept in f32 that is not there.
    #[error("no layer is named `{layer}`, so that it cannot be kept in f32; there are {there}")]
    NoSuchLayer {
        /// What was asked for.
        layer: String,
        /// The names that there are.
        there: String,
    },
    /// A layer's weights have no eight bits.
    #[error("the weights of layer `{layer}` cannot be quantized: {cause}")]
    Weights {
        /// The layer.
        layer: String,
        /// Why.
        cause: WeightError,
    },
}
