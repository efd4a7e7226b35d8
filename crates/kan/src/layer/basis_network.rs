//! A network of layers of functions in closed form.

use burn::config::Config;
use burn::module::Module;
use burn::tensor::{Device, Tensor};

use super::basis_error::BasisConfigError;
use super::basis_linear::{BasisLinear, BasisLinearConfig};

/// The configuration of a [`BasisKan`].
#[derive(Config, Debug)]
pub struct BasisKanConfig {
    /// Features of the input, of each hidden layer and of the output.
    pub widths: Vec<usize>,
    /// The settings of all layers; their numbers of features are ignored.
    pub layer: BasisLinearConfig,
}

impl BasisKanConfig {
    /// Checks the configuration.
    ///
    /// # Errors
    /// [`BasisConfigError`] for fewer than two widths, or of the first layer that cannot be made.
    pub fn validate(&self) -> Result<(), BasisConfigError> {
        let count = self.widths.len();
        if count < 2 {
            return Err(BasisConfigError::Widths { count });
        }
        self.layers().try_for_each(|layer| layer.validate())
    }

    /// Creates the network.
    ///
    /// # Panics
    /// If [`validate`](Self::validate) returns an error; the message is the error's.
    #[must_use]
    pub fn init(&self, device: &Device) -> BasisKan {
        if let Err(error) = self.validate() {
            panic!("{error}");
        }
        BasisKan { layers: self.layers().map(|layer| layer.init(device)).collect() }
    }

    fn layers(&self) -> impl Iterator<Item = BasisLinearConfig> {
        self.widths.windows(2).map(|pair| BasisLinearConfig {
            in_features: pair[0],
            out_features: pair[1],
            ..self.layer.clone()
        })
    }
}

/// Layers of functions in closed form, one after the other.
#[derive(Module, Debug)]
pub struct BasisKan {
    /// From the input to the output.
    pub layers: Vec<BasisLinear>,
}

impl BasisKan {
    /// The outputs, `[..., out_features]`, of `x`, `[..., in_features]`.
    ///
    /// # Panics
    /// If the last axis of `x` is not the first width.
    #[must_use]
    pub fn forward<const D: usize>(&self, x: Tensor<D>) -> Tensor<D> {
        self.layers.iter().fold(x, |x, layer| layer.forward(x))
    }
}
