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
    /// There was no sample.
    #[error("the calibration set has no sample; a few hundred are enough")]
    NoSample,
    /// A batch is not a whole number of samples, or the inputs differ in it.
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
    /// The output of a layer in f32 has no scheme.
    #[error("the output of layer `{layer}` cannot be calibrated: {cause}")]
    Observed {
        /// The layer, or the input.
        layer: String,
        /// Why.
        cause: ObserveError,
    },
    /// A layer that is to be kept in f32 does not exist.
    #[error("no layer is named `{layer}`, so that it cannot be chosen; there are {there}")]
    NoSuchLayer {
        /// What was asked for.
        layer: String,
        /// The existing names.
        there: String,
    },
    /// A layer is to be kept in f32 and to have a format of integer weights.
    #[error("layer `{layer}` is to be kept in f32 and to have integer weights; choose one")]
    KeptAndQuantized {
        /// The layer.
        layer: String,
    },
    /// Two parts of a layer's name give its weights different formats.
    #[error(
        "`{first}` and `{second}` are parts of one layer, `{layer}`, and give its weights different \
         formats; give one, or give that of `{layer}`"
    )]
    TwoFormats {
        /// The full name of the layer.
        layer: String,
        /// The part that was given first.
        first: String,
        /// A part with another format.
        second: String,
    },
    /// A layer that is to have a format of weights has no weights.
    #[error("layer `{layer}` has no weights, so that it has no bits of weights")]
    NoWeights {
        /// The layer.
        layer: String,
    },
    /// Rounding by results or corrected biases, but no samples.
    #[error(
        "rounding by results and corrected biases need samples, and the observation kept none; \
         observe with these settings"
    )]
    SamplesNotKept,
    /// Weights alone of a graph that rounds its own tensors.
    #[error(
        "the network has learnt to round its activations to codes, so that its weights cannot be \
         quantized alone"
    )]
    HasSchemes,
    /// A layer's weights cannot be quantized.
    #[error("the weights of layer `{layer}` cannot be quantized: {cause}")]
    Weights {
        /// The layer.
        layer: String,
        /// Why.
        cause: WeightError,
    },
}
