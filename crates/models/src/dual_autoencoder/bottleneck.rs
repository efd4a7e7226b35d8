//! The bottleneck of a dual autoencoder, with attention before and in the latent.

use burn::module::Module;
use burn::nn::{Dropout, DropoutConfig};
use burn::tensor::{Device, Tensor};
use updraft_conv::{Activation, ConvNormActivation};

use super::block::{Doubling, convolution, multiply_adds};
use super::config::{DualAutoencoderConfig, LatentAttention};
use crate::attention::{Bam, BamConfig, Cbam, CbamConfig, Eca, EcaConfig};

/// From the widest feature maps to the latent, and back to feature maps of the middle width.
#[derive(Module, Debug)]
pub(super) struct Bottleneck {
    pub(super) halve: ConvNormActivation,
    pub(super) wide_attention: Attention,
    pub(super) to_latent: ConvNormActivation,
    pub(super) latent_attention: Attention,
    dropout: Dropout,
    pub(super) from_latent: Doubling,
}

impl Bottleneck {
    pub(super) fn new(config: &DualAutoencoderConfig, device: &Device) -> Self {
        let [wide, middle, _] = config.widths;
        let (latent, bias) = (config.latent, config.conv_bias);
        let halving = |channels| convolution(channels, 2, bias, Activation::Elu, device);
        Self {
            halve: halving([wide, wide]),
            wide_attention: Attention::new(config.attention, wide, device),
            to_latent: halving([wide, latent]),
            latent_attention: Attention::new(config.attention, latent, device),
            dropout: DropoutConfig::new(config.dropout).init(),
            from_latent: Doubling::new([latent, middle], bias, device),
        }
    }

    /// The latent, at a quarter of height and width.
    pub(super) fn encode(&self, maps: Tensor<4>) -> Tensor<4> {
        let halved = self.wide_attention.forward(self.halve.forward(maps));
        self.latent_attention.forward(self.to_latent.forward(halved))
    }

    /// Feature maps of the middle width, at twice the latent's height and width.
    pub(super) fn decode(&self, latent: Tensor<4>) -> Tensor<4> {
        self.from_latent.forward(self.dropout.forward(latent))
    }

    /// Multiply-adds of the convolutions for feature maps of this height and width.
    pub(super) fn multiply_adds(&self, size: [usize; 2]) -> usize {
        let [half, quarter] = [2, 4].map(|by| size.map(|side| side / by));
        multiply_adds(&self.halve.conv, half)
            + multiply_adds(&self.to_latent.conv, quarter)
            + self.from_latent.multiply_adds(quarter)
    }
}

/// Attention of the configured kind.
#[derive(Module, Debug)]
pub(super) struct Attention {
    bam: Option<Bam>,
    cbam: Option<Cbam>,
    eca: Option<Eca>,
}

impl Attention {
    fn new(kind: LatentAttention, channels: usize, device: &Device) -> Self {
        let is = |other| kind == other;
        Self {
            bam: is(LatentAttention::Bam).then(|| BamConfig::new(channels).init(device)),
            cbam: is(LatentAttention::Cbam).then(|| CbamConfig::new(channels).init(device)),
            eca: is(LatentAttention::Eca).then(|| EcaConfig::new(channels).init(device)),
        }
    }

    fn forward(&self, maps: Tensor<4>) -> Tensor<4> {
        match (&self.bam, &self.cbam, &self.eca) {
            (Some(bam), _, _) => bam.forward(maps),
            (_, Some(cbam), _) => cbam.forward(maps),
            (_, _, Some(eca)) => eca.forward(maps),
            (None, None, None) => maps,
        }
    }
}
