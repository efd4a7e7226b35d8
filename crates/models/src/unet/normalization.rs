//! The configured normalization, fused with the activation that follows.

use burn::module::Module;
use burn::nn::{BatchNormConfig, GroupNormConfig, InstanceNormConfig};
use burn::tensor::{Device, Tensor};
use updraft_conv::{Activation, BatchNorm, GroupNorm, InstanceNorm, activate};

use super::config::UNetNormalization;

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

    /// `activation(norm(x) + residual)`.
    pub(super) fn forward_residual<const D: usize>(
        &self,
        x: Tensor<D>,
        residual: Tensor<D>,
        activation: Activation,
    ) -> Tensor<D> {
        match self {
            Self::Batch(norm) => norm.forward_residual(x, residual, activation),
            Self::Instance(_) | Self::Group(_) => {
                activate(self.forward(x, Activation::Identity) + residual, activation)
            }
        }
    }
}
