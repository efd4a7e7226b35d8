//! Instance normalization.

use burn::module::{Module, Param};
use burn::nn::{self, InstanceNormConfig};
use burn::tensor::{Tensor, assert_shape};

use super::group_norm::Normalizing;
use super::in_place::in_place_of;
use crate::kernels::Activation;
use crate::ops::LayerPath;

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
    pub(super) forced: Option<LayerPath>,
}

in_place_of! {
    nn::InstanceNorm, InstanceNormConfig => InstanceNorm {
        gamma, beta, num_channels, epsilon, affine
    }, device
}

impl InstanceNorm {
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
        self.normalize(x, None, activation)
    }

    /// Normalizes, adds `residual`, then activates. The result takes the memory of a residual that has
    /// no other owner. The backward pass keeps input and result with a rectifier, and the sum with any
    /// other activation.
    ///
    /// # Panics
    /// As [`forward`](Self::forward), and if `residual` does not have the shape and dtype of `x`.
    #[must_use]
    pub fn forward_residual<const D: usize>(
        &self,
        x: Tensor<D>,
        residual: Tensor<D>,
        activation: Activation,
    ) -> Tensor<D> {
        self.normalize(x, Some(residual), activation)
    }

    fn normalize<const D: usize>(
        &self,
        x: Tensor<D>,
        residual: Option<Tensor<D>>,
        activation: Activation,
    ) -> Tensor<D> {
        assert_shape!(x, [_, self.num_channels, ..]);
        let by = Normalizing { groups: self.num_channels, epsilon: self.epsilon, activation };
        by.apply(x, residual, [&self.gamma, &self.beta], self.forced)
    }
}
