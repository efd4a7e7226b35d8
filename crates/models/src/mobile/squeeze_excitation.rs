//! Squeeze and excitation: a weight for each feature map, from the means of all of them.

use burn::module::Module;
use burn::nn::conv::Conv2dConfig;
use burn::nn::pool::AdaptiveAvgPool2dConfig;
use burn::tensor::{Device, Tensor, activation::sigmoid};
use updraft_conv::{Activation, AdaptiveAvgPool2d, Conv2d, activate};

use crate::pruning::{Moments, Selection, take_pointwise};
use crate::quantized::{FakeQuantizer, WeightBits};

/// `x·σ(expand(silu(reduce(mean(x)))))`.
///
/// # Source
/// Hu et al. 2017, arXiv:1709.01507, equations 2 to 4, with `SiLU` as in `EfficientNet`.
#[derive(Module, Debug)]
pub(crate) struct SqueezeExcitation {
    reduce: Conv2d,
    expand: Conv2d,
    quantizers: Option<ExcitationQuantizers>,
}

/// One quantizer for each tensor that the integer network writes.
#[derive(Module, Debug)]
struct ExcitationQuantizers {
    means: FakeQuantizer,
    reduce: FakeQuantizer,
    reduced: FakeQuantizer,
    activated: FakeQuantizer,
    expand: FakeQuantizer,
    expanded: FakeQuantizer,
    gate: FakeQuantizer,
    output: FakeQuantizer,
}

impl SqueezeExcitation {
    pub(crate) fn new(
        channels: usize,
        squeezed: usize,
        bits: Option<WeightBits>,
        device: &Device,
    ) -> Self {
        let conv = |from, to| Conv2d::new(&Conv2dConfig::new([from, to], [1, 1]), device);
        let quantizers = bits.map(|bits| ExcitationQuantizers {
            means: FakeQuantizer::of_activations(device),
            reduce: FakeQuantizer::of_weights(squeezed, bits, device),
            reduced: FakeQuantizer::of_activations(device),
            activated: FakeQuantizer::of_activations(device),
            expand: FakeQuantizer::of_weights(channels, bits, device),
            expanded: FakeQuantizer::of_activations(device),
            gate: FakeQuantizer::of_activations(device),
            output: FakeQuantizer::of_activations(device),
        });
        Self { reduce: conv(channels, squeezed), expand: conv(squeezed, channels), quantizers }
    }

    pub(crate) fn forward(&self, maps: Tensor<4>) -> Tensor<4> {
        let Self { reduce, expand, quantizers } = self;
        let means = AdaptiveAvgPool2d::new(AdaptiveAvgPool2dConfig::new([1, 1]));
        let means = means.forward(maps.clone());
        let Some(by) = quantizers else {
            let squeezed = activate(reduce.forward(means), Activation::Silu);
            return maps * sigmoid(expand.forward(squeezed));
        };
        let weights = by.reduce.weights(reduce.weight.val());
        let reduced = reduce.forward_by(by.means.activations(means), weights);
        let activated = activate(by.reduced.activations(reduced), Activation::Silu);
        let weights = by.expand.weights(expand.weight.val());
        let expanded = expand.forward_by(by.activated.activations(activated), weights);
        let gate = by.gate.activations(sigmoid(by.expanded.activations(expanded)));
        by.output.activations(maps * gate)
    }

    /// The gate of each channel for the means of some feature maps.
    pub(crate) fn mean_gates(&self, moments: &Moments) -> Vec<f32> {
        let device = self.reduce.weight.device();
        let means = Tensor::<1>::from_floats(moments.means.as_slice(), &device);
        let means = means.reshape([1, moments.means.len(), 1, 1]);
        let squeezed = activate(self.reduce.forward(means), Activation::Silu);
        sigmoid(self.expand.forward(squeezed)).into_data().iter::<f32>().collect()
    }

    /// Takes the parameters of a wider layer.
    pub(crate) fn take(&mut self, from: &Self, channels: &Selection) {
        let squeezed = Selection::all(from.reduce.weight.lazy_shape()[0]);
        take_pointwise(&mut self.reduce, &from.reduce, channels, &squeezed);
        take_pointwise(&mut self.expand, &from.expand, &squeezed, channels);
    }

    /// Multiply-adds, whatever the size of the feature maps.
    pub(crate) fn multiply_adds(&self) -> usize {
        let of = |conv: &Conv2d| conv.weight.lazy_shape().num_elements();
        of(&self.reduce) + of(&self.expand)
    }
}
