//! Two convolutions with normalizations, with or without a residual connection.

use burn::module::{Initializer, Module};
use burn::tensor::{Device, Tensor};
use updraft_conv::Activation;

use super::config::{UNetBlock, UNetConfig};
use super::layers::SpatialLayers;
use super::normalization::Normalization;

/// A convolution and its normalization.
#[derive(Module, Debug)]
pub(super) struct ConvNorm<C: Module> {
    pub(super) conv: C,
    pub(super) norm: Normalization,
}

/// Two convolutions of kernel size 3, each with normalization and activation.
///
/// With a residual connection, the input is added before the last activation; where it has another
/// shape, after a convolution of kernel size 1 with its own normalization.
#[derive(Module, Debug)]
pub(super) struct Block<C: Module> {
    pub(super) first: ConvNorm<C>,
    pub(super) second: ConvNorm<C>,
    pub(super) shortcut: Option<ConvNorm<C>>,
    #[module(skip)]
    is_residual: bool,
    #[module(skip)]
    activation: Activation,
}

impl<C: Module> Block<C> {
    pub(super) fn new<const D: usize>(
        config: &UNetConfig,
        kind: UNetBlock,
        [input, output]: [usize; 2],
        stride: usize,
        device: &Device,
    ) -> Self
    where
        C: SpatialLayers<D>,
    {
        let layer = |channels: [usize; 2], kernel, stride| ConvNorm {
            conv: C::convolution(channels, kernel, stride, false, config.initializer(), device),
            norm: Normalization::new(config.normalization, channels[1], device),
        };
        let is_residual = kind == UNetBlock::Residual;
        let first = layer([input, output], 3, stride);
        let second = layer([output; 2], 3, 1);
        let needs_shortcut = is_residual && (input != output || stride != 1);
        let shortcut = needs_shortcut.then(|| layer([input, output], 1, stride));
        Self { first, second, shortcut, is_residual, activation: config.activation() }
    }

    pub(super) fn forward<const D: usize>(&self, x: Tensor<D>) -> Tensor<D>
    where
        C: SpatialLayers<D>,
    {
        let input = self.is_residual.then(|| x.clone());
        let x = self.first.conv.convolve(x);
        let x = self.first.norm.forward_into(x, self.activation, &self.second.conv);
        // Recorded last, so that its backward pass runs first, which needs less memory.
        let residual = input.map(|input| match &self.shortcut {
            Some(ConvNorm { conv, norm }) => norm.forward_after(conv, input),
            None => input,
        });
        match residual {
            Some(residual) => self.second.norm.forward_residual(x, residual, self.activation),
            None => self.second.norm.forward(x, self.activation),
        }
    }

    /// The same of the channels of two tensors up to the second normalization, for a block without
    /// a residual connection; [`normalize`](Self::normalize) or
    /// [`normalize_then`](Self::normalize_then) does the rest.
    pub(super) fn convolve_joined<const D: usize>(&self, a: Tensor<D>, b: Tensor<D>) -> Tensor<D>
    where
        C: SpatialLayers<D>,
    {
        debug_assert!(!self.is_residual, "a block without a residual connection");
        let x = self.first.conv.convolve_joined(a, b);
        self.first.norm.forward_into(x, self.activation, &self.second.conv)
    }

    /// Normalizes and activates what [`convolve_joined`](Self::convolve_joined) returned.
    pub(super) fn normalize<const D: usize>(&self, x: Tensor<D>) -> Tensor<D>
    where
        C: SpatialLayers<D>,
    {
        self.second.norm.forward(x, self.activation)
    }

    /// The same, then convolves.
    pub(super) fn normalize_then<const D: usize>(&self, x: Tensor<D>, conv: &C) -> Tensor<D>
    where
        C: SpatialLayers<D>,
    {
        self.second.norm.forward_into(x, self.activation, conv)
    }

    /// Multiply-adds for an input of these spatial sizes, and the spatial sizes of the result.
    pub(super) fn multiply_adds<const D: usize>(&self, sides: &[usize]) -> (u64, Vec<usize>)
    where
        C: SpatialLayers<D>,
    {
        let (first, small) = self.first.conv.multiply_adds(sides);
        let (second, _) = self.second.conv.multiply_adds(&small);
        let shortcut = self.shortcut.as_ref().map_or(0, |s| s.conv.multiply_adds(sides).0);
        (first + second + shortcut, small)
    }
}

impl UNetConfig {
    /// He et al. 2015, arXiv:1502.01852, equation 15: the gain of a leaky `ReLU`.
    pub(super) fn initializer(&self) -> Initializer {
        let gain = (2.0 / (1.0 + self.negative_slope * self.negative_slope)).sqrt();
        Initializer::KaimingNormal { gain, fan_out_only: false }
    }
}
