//! Group normalization.

use burn::module::{Module, Param};
use burn::nn::{self, GroupNormConfig};
use burn::tensor::{Tensor, assert_shape};
use updraft_simd::{time_layer, time_operation};

use super::in_place::in_place_of;
use crate::kernels::Activation;
use crate::ops::{self, LayerPath, group_norm_by};

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
    pub(super) forced: Option<LayerPath>,
}

in_place_of! {
    nn::GroupNorm, GroupNormConfig => GroupNorm {
        gamma, beta, num_groups, num_channels, epsilon, affine
    }, device
}

impl GroupNorm {
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
        let by = Normalizing { groups: self.num_groups, epsilon: self.epsilon, activation };
        by.apply(x, residual, [&self.gamma, &self.beta], self.forced)
    }
}

/// A normalization of groups of channels, each with its own statistics.
pub(super) struct Normalizing {
    pub(super) groups: usize,
    pub(super) epsilon: f64,
    pub(super) activation: Activation,
}

impl Normalizing {
    /// Normalizes with γ and β, ones and zeros where there are none, and adds a residual.
    pub(super) fn apply<const D: usize>(
        self,
        x: Tensor<D>,
        residual: Option<Tensor<D>>,
        [gamma, beta]: [&Option<Param<Tensor<1>>>; 2],
        forced: Option<LayerPath>,
    ) -> Tensor<D> {
        let channels = x.dims()[1];
        let norm = self.with_parameters(&x, channels, [gamma, beta]);
        let run = || group_norm_by(x, residual, norm, forced);
        // Instance normalization is the one of as many groups as channels.
        match gamma {
            Some(gamma) => time_layer(gamma.id.val(), "group normalization", run),
            None => time_operation("group normalization", run),
        }
    }

    /// The settings with γ and β for a tensor of these channels on the device of `x`.
    pub(super) fn with_parameters<const D: usize>(
        self,
        x: &Tensor<D>,
        channels: usize,
        parameters: [&Option<Param<Tensor<1>>>; 2],
    ) -> ops::GroupNorm {
        let Self { groups, epsilon, activation } = self;
        let parameters = given(x, channels, parameters);
        ops::GroupNorm { parameters, groups, epsilon, activation }
    }
}

/// γ and β; ones and zeros where there are none.
fn given<const D: usize>(
    x: &Tensor<D>,
    channels: usize,
    [gamma, beta]: [&Option<Param<Tensor<1>>>; 2],
) -> [Tensor<1>; 2] {
    let options = (&x.device(), x.dtype());
    let gamma = gamma.as_ref().map_or_else(|| Tensor::ones([channels], options), Param::val);
    let beta = beta.as_ref().map_or_else(|| Tensor::zeros([channels], options), Param::val);
    [gamma, beta]
}
