//! A vision transformer that classifies images.

use burn::module::Module;
use burn::nn::Linear;
use burn::tensor::{Device, Tensor};
use serde::{Deserialize, Serialize};

use super::config::EncoderConfig;
use super::encoder::PatchEncoder;
use super::error::TransformerConfigError;
use super::linear::linear;
use super::patches::patches_of_images;
use crate::initialize::initialize_parameters;

/// The configuration of a [`VisionTransformer`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct VisionTransformerConfig {
    /// The number of classes.
    pub classes: usize,
    /// The encoder.
    pub encoder: EncoderConfig,
}

impl VisionTransformerConfig {
    /// A classifier on an encoder.
    #[must_use]
    pub const fn new(classes: usize, encoder: EncoderConfig) -> Self {
        Self { classes, encoder }
    }

    /// Checks every value.
    ///
    /// # Errors
    /// The first value that is out of its range.
    pub fn validate(&self) -> Result<(), TransformerConfigError> {
        let most = 1 << 20;
        if !(2..=most).contains(&self.classes) {
            let (name, value) = ("classes", self.classes);
            return Err(TransformerConfigError::Number { name, value, least: 2, most });
        }
        self.encoder.validate()
    }

    /// Creates a network with random parameters, in module order, from the device's random state.
    ///
    /// # Panics
    /// If [`validate`](Self::validate) returns an error; the message is the error's.
    #[must_use]
    pub fn init(&self, device: &Device) -> VisionTransformer {
        if let Err(error) = self.validate() {
            panic!("{error}");
        }
        let net = VisionTransformer {
            encoder: PatchEncoder::new(&self.encoder, device),
            classifier: linear([self.encoder.embedding, self.classes], device),
            patch: self.encoder.patch.clone(),
        };
        initialize_parameters(&net);
        net
    }
}

/// Classifies images by the class token of a [`PatchEncoder`] of all their patches.
///
/// # Source
/// Dosovitskiy et al. 2021, arXiv:2010.11929, section 3.1.
#[derive(Module, Debug)]
pub struct VisionTransformer {
    encoder: PatchEncoder,
    classifier: Linear,
    #[module(skip)]
    patch: Vec<usize>,
}

impl VisionTransformer {
    /// Classifies images.
    ///
    /// # Shapes
    /// - `images`: `[batch, channels, …sides]`
    /// - returns: logits, `[batch, classes]`
    ///
    /// # Panics
    /// If images have other channels or sides than the configuration's.
    pub fn forward<const D: usize>(&self, images: Tensor<D>) -> Tensor<2> {
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

    /// The logits of the last segment's result.
    pub fn forward_head(&self, tokens: Tensor<3>) -> Tensor<2> {
        let class = self.encoder.normalize(tokens.narrow(1, 0, 1));
        self.classifier.forward(class.squeeze_dim::<2>(1))
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

    /// Multiply-adds of the forward pass of one image of these sides.
    #[must_use]
    pub fn multiply_adds(&self, sides: &[usize]) -> u64 {
        let patches = sides.iter().zip(&self.patch).map(|(side, patch)| side / patch).product();
        let head = self.classifier.weight.lazy_shape().num_elements() as u64;
        self.encoder.multiply_adds(patches) + head
    }
}
