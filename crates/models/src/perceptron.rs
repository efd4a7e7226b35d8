//! A multilayer perceptron for tables: linear layers with `SiLU` between them.

use burn::module::Module;
use burn::nn::{Linear, LinearConfig};
use burn::tensor::activation::silu;
use burn::tensor::{Device, Tensor, assert_shape};
use serde::{Deserialize, Serialize};
use updraft_transformer::timed_linear;

use crate::error::PerceptronConfigError;

/// The configuration of a [`Perceptron`].
///
/// # Example
/// ```
/// use updraft_models::PerceptronConfig;
///
/// // Four inputs, two hidden layers of 32 features, one output.
/// let config = PerceptronConfig::new([4, 32, 32, 1]);
/// assert!(config.validate().is_ok());
/// assert!(PerceptronConfig::new([4]).validate().is_err());
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct PerceptronConfig {
    /// The number of inputs, the width of each hidden layer in order, and the number of outputs.
    pub widths: Vec<usize>,
}

impl PerceptronConfig {
    /// A network with these numbers of features, from the inputs to the outputs.
    #[must_use]
    pub fn new(widths: impl Into<Vec<usize>>) -> Self {
        Self { widths: widths.into() }
    }

    /// Checks every value.
    ///
    /// # Errors
    /// [`PerceptronConfigError`] if there are fewer than two widths, or for the first width that
    /// is 0.
    pub fn validate(&self) -> Result<(), PerceptronConfigError> {
        use PerceptronConfigError as Error;

        let count = self.widths.len();
        if count < 2 {
            return Err(Error::TooFewWidths { count });
        }
        match self.widths.iter().position(|&width| width == 0) {
            Some(index) => Err(Error::ZeroWidth { index }),
            None => Ok(()),
        }
    }

    /// Creates a network with random parameters.
    ///
    /// Weights and biases are uniform in ±1/√inputs of their layer, as burn's [`LinearConfig`]
    /// initializes them. As in burn's own layers, a parameter is initialized when it is first read:
    /// set the device's seed before the first forward pass or the first visit of the parameters.
    /// Both initialize the layers in order, and in each layer the weight before the bias.
    ///
    /// # Panics
    /// If [`validate`](Self::validate) returns an error; the message is the error's.
    #[must_use]
    pub fn init(&self, device: &Device) -> Perceptron {
        if let Err(error) = self.validate() {
            panic!("{error}");
        }
        let layers = self.widths.windows(2).map(|pair| LinearConfig::new(pair[0], pair[1]));
        Perceptron { layers: layers.map(|layer| layer.init(device)).collect() }
    }
}

/// A multilayer perceptron: linear layers with `SiLU` between them, and none after the last.
///
/// `h₀ = x`, `hₗ = silu(hₗ₋₁ Wₗ + bₗ)` for the hidden layers, and `y = h W + b` for the last, with
/// `silu(z) = z / (1 + e⁻ᶻ)`.
///
/// The network computes on the device of its parameters and in the dtype of its input.
///
/// # Source
/// `SiLU`: Elfwing et al. 2018, arXiv:1702.03118.
#[derive(Module, Debug)]
pub struct Perceptron {
    layers: Vec<Linear>,
}

impl Perceptron {
    /// Computes the outputs of every row.
    ///
    /// # Shapes
    /// - `rows`: `[rows, inputs]`
    /// - returns: `[rows, outputs]`
    ///
    /// # Panics
    /// If the second axis of `rows` is not the number of inputs, or its dtype is not that of the
    /// parameters.
    #[must_use]
    pub fn forward(&self, rows: Tensor<2>) -> Tensor<2> {
        let (last, hidden) = self.layers.split_last().expect("two widths make a layer");
        let [inputs, _] = self.layers[0].weight.lazy_shape().dims();
        assert_shape!(rows, [_, inputs]);
        let features =
            hidden.iter().fold(rows, |features, layer| silu(timed_linear(layer, features)));
        timed_linear(last, features)
    }
}
