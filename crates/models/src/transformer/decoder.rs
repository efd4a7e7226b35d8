//! The decoder of a masked autoencoder.

use burn::module::{Module, Param};
use burn::nn::{LayerNorm, Linear};
use burn::tensor::{Device, Tensor};
use updraft_transformer::fused_linear;

use super::block::{Block, CrossBlock};
use super::config::{DecoderConfig, DecoderKind, EncoderConfig};
use super::linear::{linear, norm, normalize};
use super::mask::{PatchMasks, look_up};
use super::masked_autoencoder::MaskedFlow;
use super::positions::{positions, token};

/// Predicts masked patches from the tokens of visible ones.
///
/// # Source
/// Self-attention: He et al. 2022, arXiv:2111.06377, section 3; cross-attention: Fu et al. 2024,
/// arXiv:2401.14391, section 3. The projection is normalized in both.
#[derive(Module, Debug)]
pub(super) struct Decoder {
    projection: Linear,
    projection_norm: LayerNorm,
    mask_token: Param<Tensor<1>>,
    /// `[1 + patches, embedding]`.
    positions: Param<Tensor<2>>,
    /// Either these or `cross_blocks` is empty.
    blocks: Vec<Block>,
    cross_blocks: Vec<CrossBlock>,
    norm: LayerNorm,
    head: Linear,
}

impl Decoder {
    pub(super) fn new(config: &DecoderConfig, encoder: &EncoderConfig, device: &Device) -> Self {
        let DecoderConfig { kind, embedding, layers, heads } = *config;
        let [own, cross] = match kind {
            DecoderKind::SelfAttention => [layers, 0],
            DecoderKind::CrossAttention => [0, layers],
        };
        Self {
            projection: linear([encoder.embedding, embedding], device),
            projection_norm: norm(embedding, device),
            mask_token: token(embedding, device),
            positions: positions(encoder.positions, &encoder.grid(), embedding, device),
            blocks: (0..own).map(|_| Block::new(embedding, heads, device)).collect(),
            cross_blocks: (0..cross).map(|_| CrossBlock::new(embedding, heads, device)).collect(),
            norm: norm(embedding, device),
            head: linear([embedding, encoder.patch_numbers()], device),
        }
    }

    pub(super) fn layers(&self) -> usize {
        self.blocks.len() + self.cross_blocks.len()
    }

    /// The tokens before the first block, of the encoder's result.
    pub(super) fn embed(&self, encoded: Tensor<3>, masks: &PatchMasks) -> MaskedFlow {
        let positions = self.positions.val();
        let [rows, embedding] = positions.dims();
        let own = positions.clone().narrow(0, 1, rows - 1);
        let [batch, masked] = masks.masked.dims();
        let visible = normalize(&self.projection_norm, fused_linear(&self.projection, encoded));
        let class = positions.narrow(0, 0, 1).unsqueeze_dim::<3>(0);
        let of_visible = Tensor::cat(
            vec![class.expand([batch, 1, embedding]), look_up(own.clone(), masks.visible.clone())],
            1,
        );
        let visible = visible + of_visible;
        let masked_tokens = self.mask_token.val().reshape([1, 1, embedding]);
        let masked_tokens =
            masked_tokens.expand([batch, masked, embedding]) + look_up(own, masks.masked.clone());
        if self.cross_blocks.is_empty() {
            (Tensor::cat(vec![visible, masked_tokens], 1), None)
        } else {
            (masked_tokens, Some(visible))
        }
    }

    /// Runs one block.
    pub(super) fn block(&self, index: usize, (tokens, visible): MaskedFlow) -> MaskedFlow {
        match visible {
            None => (self.blocks[index].forward(tokens), None),
            Some(visible) => {
                let tokens = self.cross_blocks[index].forward(tokens, visible.clone());
                (tokens, Some(visible))
            }
        }
    }

    /// The numbers of the last `masked` tokens, `[batch, masked, numbers]`.
    pub(super) fn predict(&self, tokens: Tensor<3>, masked: usize) -> Tensor<3> {
        let [_, count, _] = tokens.dims();
        let tokens = tokens.narrow(1, count - masked, masked);
        fused_linear(&self.head, normalize(&self.norm, tokens))
    }

    /// Multiply-adds of a sample of so many visible and masked patches.
    pub(super) fn multiply_adds(&self, visible: usize, masked: usize) -> u64 {
        let [inputs, embedding] = self.projection.weight.lazy_shape().dims();
        let [_, numbers] = self.head.weight.lazy_shape().dims();
        let tokens = 1 + visible;
        let own = Block::multiply_adds(embedding, tokens + masked);
        let cross = CrossBlock::multiply_adds(embedding, masked, tokens);
        (inputs * embedding * tokens + embedding * numbers * masked) as u64
            + self.blocks.len() as u64 * own
            + self.cross_blocks.len() as u64 * cross
    }
}
