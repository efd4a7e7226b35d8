//! Group normalization.

use burn::module::{Module, Param};
use burn::nn::{self, GroupNormConfig};
use burn::tensor::{Device, Tensor, assert_shape};

use crate::kernels::Activation;
use crate::ops::{LayerPath, group_norm_by};

/// A normalization of groups of channels of each sample by their own statistics, replacing burn's
/// `GroupNorm`, with the same record format.
///
/// Statistics and arithmetic are in at least f32; the result has the input's dtype.
#[derive(Module, Debug)]
pub struct GroupNorm {
    /// γ, `[channels]`; ones if there is none.
    pub gamma: Option<Param<Tensor<1>>>,
    /// β, `[channels]`; zeros if there is none.
    pub beta: Option<Param<Tensor<1>>>,
    /// Groups of channels.
    pub num_groups: usize,
    /// Channels of the input.
    pub num_channels: usize,
    /// ε.
    pub epsilon: f64,
    /// Whether there are γ and β.
    pub affine: bool,
    #[module(skip)]
    forced: Option<LayerPath>,
}

impl From<nn::GroupNorm> for GroupNorm {
    fn from(layer: nn::GroupNorm) -> Self {
        let nn::GroupNorm { gamma, beta, num_groups, num_channels, epsilon, affine } = layer;
        Self { gamma, beta, num_groups, num_channels, epsilon, affine, forced: None }
    }
}

impl From<GroupNorm> for nn::GroupNorm {
    fn from(layer: GroupNorm) -> Self {
        let GroupNorm { gamma, beta, num_groups, num_channels, epsilon, affine, .. } = layer;
        Self { gamma, beta, num_groups, num_channels, epsilon, affine }
    }
}

impl GroupNorm {
    /// Creates the layer from burn's config.
    ///
    /// # Panics
    /// As burn's: if the groups do not divide the channels.
    #[must_use]
    pub fn new(config: &GroupNormConfig, device: &Device) -> Self {
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
        group_norm_by(x, [gamma, beta], self.num_groups, self.epsilon, activation, self.forced)
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
