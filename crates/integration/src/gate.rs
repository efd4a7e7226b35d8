//! The integration: a learned convex combination of the streams plus a nonlinear mix.

use burn::module::Module;
use burn::nn::{BatchNormConfig, Linear, LinearConfig};
use burn::tensor::{Device, Tensor};
use updraft_conv::{Activation, BatchNorm, ConvNormActivation, join_channels};
use updraft_transformer::timed_linear;

use crate::blend::{Arriving, Blend, Weights};
use crate::classifier::pool;
use crate::config::GateKind;
use crate::contribution::Terms;
use crate::residual::conv_norm;

/// Integrates the feature maps of one stage.
///
/// The blend plus `norm(conv(relu(norm(conv([color, brightness])))))`, both convolutions 1×1.
#[derive(Module, Debug)]
pub(crate) struct Gate {
    blend: Blend,
    pub(crate) mix: ConvNormActivation,
    pub(crate) project: ConvNormActivation,
}

impl Gate {
    pub(crate) fn new(
        channels: usize,
        arriving: Arriving,
        kind: GateKind,
        device: &Device,
    ) -> Self {
        Self {
            blend: Blend::new(channels, arriving, kind, device),
            mix: conv_norm([2 * channels, channels], 1, 1, Activation::Relu, device),
            project: conv_norm([channels, channels], 1, 1, Activation::Identity, device),
        }
    }

    /// The integrated stream, and the weights that were applied.
    pub(crate) fn forward(
        &self,
        color: Tensor<4>,
        brightness: Tensor<4>,
        stream: Option<Tensor<4>>,
    ) -> (Tensor<4>, Weights) {
        let both = join_channels(color.clone(), brightness.clone());
        let streams: Vec<_> = [color, brightness].into_iter().chain(stream).collect();
        let weights = self.blend.weights(&streams, pool);
        let blend = weights.blend(streams);
        (self.project.forward_residual(self.mix.forward(both), blend), weights)
    }

    /// The integrated stream, and what it is the sum of. Running statistics of norms must not be
    /// updated, because one norm runs twice.
    pub(crate) fn terms(
        &self,
        color: Tensor<4>,
        brightness: Tensor<4>,
        stream: Option<Tensor<4>>,
    ) -> (Tensor<4>, Terms) {
        let hidden = self.mix.forward(join_channels(color.clone(), brightness.clone()));
        let streams: Vec<_> = [color, brightness].into_iter().chain(stream).collect();
        let weights = self.blend.weights(&streams, pool);
        let terms = Terms::new(&streams, &weights, self.project.forward(hidden.clone()));
        (self.project.forward_residual(hidden, weights.blend(streams)), terms)
    }

    pub(crate) fn blend(&self) -> &Blend {
        &self.blend
    }
}

/// Integrates the pooled features before the classifier.
///
/// The blend plus `linear(relu(norm(linear([color, brightness]))))`, both without bias.
#[derive(Module, Debug)]
pub(crate) struct PooledGate {
    blend: Blend,
    pub(crate) mix: Linear,
    pub(crate) norm: BatchNorm,
    pub(crate) project: Linear,
}

impl PooledGate {
    pub(crate) fn new(
        channels: usize,
        arriving: Arriving,
        kind: GateKind,
        device: &Device,
    ) -> Self {
        let linear =
            |input: usize| LinearConfig::new(input, channels).with_bias(false).init(device);
        Self {
            blend: Blend::new(channels, arriving, kind, device),
            mix: linear(2 * channels),
            norm: BatchNorm::new(&BatchNormConfig::new(channels), device),
            project: linear(channels),
        }
    }

    /// The integrated features, and the weights that were applied.
    pub(crate) fn forward(
        &self,
        color: Tensor<2>,
        brightness: Tensor<2>,
        stream: Option<Tensor<2>>,
    ) -> (Tensor<2>, Weights) {
        let hidden = self.hidden(color.clone(), brightness.clone());
        let streams: Vec<_> = [color, brightness].into_iter().chain(stream).collect();
        // The features are means already.
        let weights = self.blend.weights(&streams, |features| features);
        (weights.blend(streams) + timed_linear(&self.project, hidden), weights)
    }

    /// The integrated features, and what they are the sum of.
    pub(crate) fn terms(
        &self,
        color: Tensor<2>,
        brightness: Tensor<2>,
        stream: Option<Tensor<2>>,
    ) -> (Tensor<2>, Terms) {
        let hidden = self.hidden(color.clone(), brightness.clone());
        let streams: Vec<_> = [color, brightness].into_iter().chain(stream).collect();
        let weights = self.blend.weights(&streams, |features| features);
        let mix = timed_linear(&self.project, hidden);
        let terms = Terms::new(&streams, &weights, mix.clone());
        (weights.blend(streams) + mix, terms)
    }

    pub(crate) fn blend(&self) -> &Blend {
        &self.blend
    }

    fn hidden(&self, color: Tensor<2>, brightness: Tensor<2>) -> Tensor<2> {
        let both = Tensor::cat(vec![color, brightness], 1);
        self.norm.forward_activated(timed_linear(&self.mix, both), Activation::Relu)
    }
}
