//! Instance normalization.

use burn::module::{Module, Param};
use burn::nn::{self, InstanceNormConfig};
use burn::tensor::{Device, Tensor, assert_shape};

use crate::kernels::Activation;
use crate::ops::{LayerPath, group_norm_by};

/// A normalization of each channel of each sample by its own statistics, replacing burn's
/// `InstanceNorm`, with the same record format.
///
/// Statistics and arithmetic are in at least f32; the result has the input's dtype.
#[derive(Module, Debug)]
pub struct InstanceNorm {
    /// γ, `[channels]`; ones if there is none.
    pub gamma: Option<Param<Tensor<1>>>,
    /// β, `[channels]`; zeros if there is none.
    pub beta: Option<Param<Tensor<1>>>,
    /// Channels of the input.
    pub num_channels: usize,
    /// ε.
    pub epsilon: f64,
    /// Whether there are γ and β.
    pub affine: bool,
    #[module(skip)]
    forced: Option<LayerPath>,
}

impl From<nn::InstanceNorm> for InstanceNorm {
    fn from(layer: nn::InstanceNorm) -> Self {
        let nn::InstanceNorm { gamma, beta, num_channels, epsilon, affine } = layer;
        Self { gamma, beta, num_channels, epsilon, affine, forced: None }
    }
}

impl From<InstanceNorm> for nn::InstanceNorm {
    fn from(layer: InstanceNorm) -> Self {
        let InstanceNorm { gamma, beta, num_channels, epsilon, affine, .. } = layer;
        Self { gamma, beta, num_channels, epsilon, affine }
    }
}

impl InstanceNorm {
    /// Creates the layer from burn's config.
    ///
    /// # Panics
    /// As burn's.
    #[must_use]
    pub fn new(config: &InstanceNormConfig, device: &Device) -> Self {
        config.init(device).into()
    }

    /// Normalizes `x`, `[batch, channels, ...]`.
    ///
    /// # Panics
    /// If the second axis does not have the layer's number of channels, a channel has no numbers,
    /// or a [forced](Self::with_path) path cannot compute it.
    #[must_use]
    pub fn forward<const D: usize>(&self, x: Tensor<D>) -> Tensor<D> {
        self.forward_activated(x, Activation::Identity)
    }

    /// Normalizes, then activates, in one pass over memory.
    ///
    /// # Panics
    /// As [`forward`](Self::forward).
    #[must_use]
    pub fn forward_activated<const D: usize>(
        &self,
        x: Tensor<D>,
        activation: Activation,
    ) -> Tensor<D> {
        assert_shape!(x, [_, self.num_channels, ..]);
        let options = (&x.device(), x.dtype());
        let gamma = match &self.gamma {
            Some(gamma) => gamma.val(),
            None => Tensor::ones([self.num_channels], options),
        };
        let beta = match &self.beta {
            Some(beta) => beta.val(),
            None => Tensor::zeros([self.num_channels], options),
        };
        group_norm_by(x, [gamma, beta], self.num_channels, self.epsilon, activation, self.forced)
    }

    /// Which implementation computes the layer in f32 on a device.
    #[must_use]
    pub fn path(&self, device: &Device) -> LayerPath {
        self.forced.unwrap_or_else(|| LayerPath::of(device))
    }

    /// The same layer with a forced implementation, as with
    /// [`Conv2d::with_path`](crate::Conv2d::with_path).
    #[must_use]
    pub fn with_path(self, path: LayerPath) -> Self {
        Self { forced: Some(path), ..self }
    }
}
