//! A masked autoencoder of images and volumes.

use burn::module::Module;
use burn::tensor::{Device, Tensor};

use super::config::MaskedAutoencoderConfig;
use super::decoder::Decoder;
use super::encoder::PatchEncoder;
use super::mask::{PatchMasks, take_rows};
use crate::initialize::initialize_parameters;

/// The values passed between the segments of a [`MaskedAutoencoder`]: the current tokens, and in a
/// decoder with cross-attention the tokens that they attend to.
pub type MaskedFlow = (Tensor<3>, Option<Tensor<3>>);

/// Predicts the masked patches of images from the visible ones.
///
/// The encoder computes tokens of the visible patches only; the decoder predicts the numbers of the
/// masked ones.
///
/// # Source
/// He et al. 2022, arXiv:2111.06377; with cross-attention Fu et al. 2024, arXiv:2401.14391.
#[derive(Module, Debug)]
pub struct MaskedAutoencoder {
    encoder: PatchEncoder,
    decoder: Decoder,
}

impl MaskedAutoencoder {
    pub(super) fn new(config: &MaskedAutoencoderConfig, device: &Device) -> Self {
        let net = Self {
            encoder: PatchEncoder::new(&config.encoder, device),
            decoder: Decoder::new(&config.decoder, &config.encoder, device),
        };
        initialize_parameters(&net);
        net
    }

    /// The encoder.
    #[must_use]
    pub const fn encoder(&self) -> &PatchEncoder {
        &self.encoder
    }

    /// Predicts the masked patches.
    ///
    /// # Shapes
    /// - `visible`: the visible patches, `[batch, visible, numbers]`, of
    ///   [`take_visible`](PatchMasks::take_visible)
    /// - returns: the masked ones, `[batch, masked, numbers]`
    ///
    /// # Panics
    /// If `visible` and `masks` are not those of one batch.
    pub fn forward(&self, visible: Tensor<3>, masks: &PatchMasks) -> Tensor<3> {
        let flow = (0..self.segments())
            .fold((visible, None), |flow, index| self.segment(index, flow, masks));
        self.leave(flow, masks)
    }

    /// The number of segments: the blocks of the encoder, then those of the decoder.
    ///
    /// [`segment`](Self::segment) for each in order, from the visible patches on, and then
    /// [`leave`](Self::leave) compute what [`forward`](Self::forward) does; a trainer that
    /// recomputes activations keeps only what is passed between them.
    #[must_use]
    pub fn segments(&self) -> usize {
        self.encoder.layers() + self.decoder.layers()
    }

    /// Computes one segment.
    ///
    /// # Panics
    /// If `index` is not below [`segments`](Self::segments), or `flow` is not the previous
    /// segment's result.
    pub fn segment(&self, index: usize, flow: MaskedFlow, masks: &PatchMasks) -> MaskedFlow {
        let layers = self.encoder.layers();
        let Some(own) = index.checked_sub(layers) else {
            let (tokens, _) = flow;
            let tokens = match index {
                0 => self.encoder.embed(tokens, Some(masks.visible.clone())),
                _ => tokens,
            };
            return (self.encoder.block(index, tokens), None);
        };
        let flow = match own {
            0 => self.decoder.embed(self.encoder.normalize(flow.0), masks),
            _ => flow,
        };
        self.decoder.block(own, flow)
    }

    /// Computes the prediction from the last segment's result.
    pub fn leave(&self, (tokens, _): MaskedFlow, masks: &PatchMasks) -> Tensor<3> {
        self.decoder.predict(tokens, masks.masked.dims()[1])
    }

    /// Multiply-adds of the forward pass of one sample of so many visible and masked patches:
    /// linear layers and both matrix products of each attention.
    #[must_use]
    pub fn multiply_adds(&self, visible: usize, masked: usize) -> u64 {
        self.encoder.multiply_adds(visible) + self.decoder.multiply_adds(visible, masked)
    }
}

impl PatchMasks {
    /// The visible ones of all patches `[batch, patches, numbers]`.
    #[must_use]
    pub fn take_visible(&self, patches: Tensor<3>) -> Tensor<3> {
        take_rows(patches, self.visible.clone())
    }

    /// The masked ones of all patches `[batch, patches, numbers]`.
    #[must_use]
    pub fn take_masked(&self, patches: Tensor<3>) -> Tensor<3> {
        take_rows(patches, self.masked.clone())
    }
}
