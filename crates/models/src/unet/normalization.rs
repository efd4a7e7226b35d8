//! The configured normalization, fused with the activation that follows.

use burn::module::Module;
use burn::nn::{BatchNormConfig, GroupNormConfig, InstanceNormConfig};
use burn::tensor::{Device, Tensor};
use updraft_conv::{Activation, BatchNorm, GroupNorm, InstanceNorm};

use super::config::UNetNormalization;
use super::layers::SpatialLayers;

/// One of three normalizations, each with a learned scale and shift.
#[derive(Module, Debug)]
pub(super) enum Normalization {
    /// Over each sample and channel.
    Instance(InstanceNorm),
    /// Over each sample and group of channels.
    Group(GroupNorm),
    /// Over the batch.
    Batch(BatchNorm),
}

impl Normalization {
    pub(super) fn new(kind: UNetNormalization, channels: usize, device: &Device) -> Self {
        match kind {
            UNetNormalization::Instance => {
                Self::Instance(InstanceNorm::new(&InstanceNormConfig::new(channels), device))
            }
            UNetNormalization::Group(groups) => {
                Self::Group(GroupNorm::new(&GroupNormConfig::new(groups, channels), device))
            }
            UNetNormalization::Batch => {
                Self::Batch(BatchNorm::new(&BatchNormConfig::new(channels), device))
            }
        }
    }

    /// `activation(norm(x))`.
    pub(super) fn forward<const D: usize>(
        &self,
        x: Tensor<D>,
        activation: Activation,
    ) -> Tensor<D> {
        match self {
            Self::Instance(norm) => norm.forward_activated(x, activation),
            Self::Group(norm) => norm.forward_activated(x, activation),
            Self::Batch(norm) => norm.forward_activated(x, activation),
        }
    }

    /// `conv(activation(norm(x)))`; the backward pass computes instance and group norms again.
    pub(super) fn forward_into<const D: usize, C: SpatialLayers<D>>(
        &self,
        x: Tensor<D>,
        activation: Activation,
        conv: &C,
    ) -> Tensor<D> {
        match self {
            Self::Instance(norm) => conv.convolve_normalized(x, norm, activation),
            Self::Group(norm) => conv.convolve_normalized(x, norm, activation),
            Self::Batch(norm) => conv.convolve(norm.forward_activated(x, activation)),
        }
    }

    /// `norm(conv(x))`, of which instance and group norms keep `x` only.
    pub(super) fn forward_after<const D: usize, C: SpatialLayers<D>>(
        &self,
        conv: &C,
        x: Tensor<D>,
    ) -> Tensor<D> {
        match self {
            Self::Instance(norm) => conv.convolve_then_normalize(x, norm),
            Self::Group(norm) => conv.convolve_then_normalize(x, norm),
            Self::Batch(norm) => norm.forward_activated(conv.convolve(x), Activation::Identity),
        }
    }

    /// `activation(norm(x) + residual)`.
    pub(super) fn forward_residual<const D: usize>(
        &self,
        x: Tensor<D>,
        residual: Tensor<D>,
        activation: Activation,
    ) -> Tensor<D> {
        match self {
            Self::Instance(norm) => norm.forward_residual(x, residual, activation),
            Self::Group(norm) => norm.forward_residual(x, residual, activation),
            Self::Batch(norm) => norm.forward_residual(x, residual, activation),
        }
    }
}
