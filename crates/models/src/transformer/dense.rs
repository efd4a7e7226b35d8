//! A vision transformer that predicts a value for every position.

use burn::module::Module;
use burn::nn::Linear;
use burn::tensor::{Device, Tensor};
use serde::{Deserialize, Serialize};
use updraft_transformer::fused_linear;

use super::config::EncoderConfig;
use super::encoder::PatchEncoder;
use super::error::TransformerConfigError;
use super::linear::linear;
use super::patches::{images_of_patches, patches_of_images};
use crate::initialize::initialize_parameters;

/// The configuration of a [`DenseTransformer`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct DenseTransformerConfig {
    /// Channels of the output.
    pub out_channels: usize,
    /// The encoder.
    pub encoder: EncoderConfig,
}

impl DenseTransformerConfig {
    /// A linear decoder on an encoder.
    #[must_use]
    pub const fn new(out_channels: usize, encoder: EncoderConfig) -> Self {
        Self { out_channels, encoder }
    }

    /// Checks every value.
    ///
    /// # Errors
    /// The first value that is out of its range.
    pub fn validate(&self) -> Result<(), TransformerConfigError> {
        let most = 1 << 16;
        if !(1..=most).contains(&self.out_channels) {
            let (name, value) = ("out_channels", self.out_channels);
            return Err(TransformerConfigError::Number { name, value, least: 1, most });
        }
        self.encoder.validate()
    }

    /// Creates a network with random parameters, in module order, from the device's random state.
    ///
    /// # Panics
    /// If [`validate`](Self::validate) returns an error; the message is the error's.
    #[must_use]
    pub fn init(&self, device: &Device) -> DenseTransformer {
        if let Err(error) = self.validate() {
            panic!("{error}");
        }
        let positions = self.encoder.patch.iter().product::<usize>();
        let net = DenseTransformer {
            encoder: PatchEncoder::new(&self.encoder, device),
            head: linear([self.encoder.embedding, self.out_channels * positions], device),
            patch: self.encoder.patch.clone(),
            sides: self.encoder.sides.clone(),
        };
        initialize_parameters(&net);
        net
    }
}

/// Predicts an image or a volume of the same sides: a linear layer computes the values of every
/// patch from its token.
///
/// # Source
/// The linear decoder of Strudel et al. 2021, arXiv:2105.05633, section 3.2, with the values of
/// every position instead of an interpolation.
#[derive(Module, Debug)]
pub struct DenseTransformer {
    encoder: PatchEncoder,
    head: Linear,
    #[module(skip)]
    patch: Vec<usize>,
    #[module(skip)]
    sides: Vec<usize>,
}

impl DenseTransformer {
    /// Computes the output.
    ///
    /// # Shapes
    /// - `images`: `[batch, channels, …sides]`
    /// - returns: `[batch, out_channels, …sides]`
    ///
    /// # Panics
    /// If images have other channels or sides than the configuration's.
    pub fn forward<const D: usize>(&self, images: Tensor<D>) -> Tensor<D> {
        let tokens = self.enter(images);
        let tokens =
            (0..self.segments()).fold(tokens, |tokens, index| self.forward_segment(index, tokens));
        self.forward_head(tokens)
    }

    /// The input of the first segment: the patches of images.
    pub fn enter<const D: usize>(&self, images: Tensor<D>) -> Tensor<3> {
        patches_of_images(images, &self.patch)
    }

    /// The number of segments: the blocks.
    #[must_use]
    pub fn segments(&self) -> usize {
        self.encoder.layers()
    }

    /// Computes one segment.
    ///
    /// # Panics
    /// If `index` is not below [`segments`](Self::segments), or `tokens` is not the previous
    /// segment's result.
    #[must_use]
    pub fn forward_segment(&self, index: usize, tokens: Tensor<3>) -> Tensor<3> {
        let tokens = if index == 0 { self.encoder.embed(tokens, None) } else { tokens };
        self.encoder.block(index, tokens)
    }

    /// The output from the last segment's result.
    pub fn forward_head<const D: usize>(&self, tokens: Tensor<3>) -> Tensor<D> {
        let [_, count, _] = tokens.dims();
        let patches = self.encoder.normalize(tokens.narrow(1, 1, count - 1));
        images_of_patches(fused_linear(&self.head, patches), &self.sides, &self.patch)
    }

    /// The encoder.
    #[must_use]
    pub const fn encoder(&self) -> &PatchEncoder {
        &self.encoder
    }

    /// The same network with another encoder of the same shapes, such as that of a
    /// [`MaskedAutoencoder`](crate::MaskedAutoencoder).
    #[must_use]
    pub fn with_encoder(self, encoder: PatchEncoder) -> Self {
        Self { encoder, ..self }
    }

    /// Multiply-adds of the forward pass of one sample.
    #[must_use]
    pub fn multiply_adds(&self) -> u64 {
        let patches: usize =
            self.sides.iter().zip(&self.patch).map(|(side, patch)| side / patch).product();
        let head = (self.head.weight.lazy_shape().num_elements() * patches) as u64;
        self.encoder.multiply_adds(patches) + head
    }
}
