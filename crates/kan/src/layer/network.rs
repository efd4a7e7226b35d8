//! A stack of layers.

use burn::config::Config;
use burn::module::Module;
use burn::tensor::{Device, Tensor};

use super::config::{KanConfigError, KanLinearConfig};
use super::linear::KanLinear;
use super::packed::PackedKan;
use crate::ops::LayerPath;

/// The configuration of a [`Kan`].
#[derive(Config, Debug)]
pub struct KanConfig {
    /// Numbers of features, from the input's to the output's.
    pub widths: Vec<usize>,
    /// The settings of all layers; their numbers of features are ignored.
    #[config(default = "KanLinearConfig::new(1, 1)")]
    pub layer: KanLinearConfig,
}

impl KanConfig {
    /// Checks the configuration.
    ///
    /// # Errors
    /// [`KanConfigError`] for fewer than two widths, or of the first layer that cannot be made.
    pub fn validate(&self) -> Result<(), KanConfigError> {
        let count = self.widths.len();
        if count < 2 {
            return Err(KanConfigError::Widths { count });
        }
        self.layers().try_for_each(|layer| layer.validate())
    }

    /// Creates the network.
    ///
    /// # Panics
    /// If [`validate`](Self::validate) returns an error; the message is the error's.
    pub fn init(&self, device: &Device) -> Kan {
        if let Err(error) = self.validate() {
            panic!("{error}");
        }
        Kan { layers: self.layers().map(|layer| layer.init(device)).collect() }
    }

    fn layers(&self) -> impl Iterator<Item = KanLinearConfig> {
        self.widths.windows(2).map(|pair| KanLinearConfig {
            in_features: pair[0],
            out_features: pair[1],
            ..self.layer.clone()
        })
    }
}

/// A Kolmogorov–Arnold network: layers one after the other.
#[derive(Module, Debug)]
pub struct Kan {
    /// From the input to the output.
    pub layers: Vec<KanLinear>,
}

impl Kan {
    /// The outputs, `[..., out_features]`, of `x`, `[..., in_features]`.
    ///
    /// # Panics
    /// If the last axis of `x` is not the first width.
    #[must_use]
    pub fn forward<const D: usize>(&self, x: Tensor<D>) -> Tensor<D> {
        self.layers.iter().fold(x, |x, layer| layer.forward(x))
    }

    /// The network for inference, with [packed weights](KanLinear::pack).
    #[must_use]
    pub fn pack(&self) -> PackedKan {
        PackedKan { layers: self.layers.iter().map(KanLinear::pack).collect() }
    }

    /// The same network with every layer [with a forced implementation](KanLinear::with_path).
    #[must_use]
    pub fn with_path(self, path: LayerPath) -> Self {
        let layers = self.layers.into_iter().map(|layer| layer.with_path(path));
        Self { layers: layers.collect() }
    }
}
