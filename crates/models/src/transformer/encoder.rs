//! The encoder of a vision transformer.

use burn::module::{Module, Param};
use burn::nn::{LayerNorm, Linear};
use burn::tensor::{Device, Int, Tensor};
use updraft_transformer::fused_linear;

use super::block::Block;
use super::config::EncoderConfig;
use super::linear::{linear, norm, normalize};
use super::mask::look_up;
use super::positions::{positions, token};

/// Encodes the patches of an image, or some of them, as a sequence of tokens behind a class token.
///
/// # Source
/// `ViT`: Dosovitskiy et al. 2021, arXiv:2010.11929, section 3.1, with normalization before each
/// attention and each perceptron.
#[derive(Module, Debug)]
pub struct PatchEncoder {
    /// A linear layer on the numbers of a patch: a convolution with the patch as kernel and stride.
    patches: Linear,
    class_token: Param<Tensor<1>>,
    /// `[1 + patches, embedding]`.
    positions: Param<Tensor<2>>,
    blocks: Vec<Block>,
    norm: LayerNorm,
}

impl PatchEncoder {
    pub(super) fn new(config: &EncoderConfig, device: &Device) -> Self {
        let embedding = config.embedding;
        Self {
            patches: linear([config.patch_numbers(), embedding], device),
            class_token: token(embedding, device),
            positions: positions(config.positions, &config.grid(), embedding, device),
            blocks: (0..config.layers)
                .map(|_| Block::new(embedding, config.heads, device))
                .collect(),
            norm: norm(embedding, device),
        }
    }

    /// The number of blocks.
    #[must_use]
    pub fn layers(&self) -> usize {
        self.blocks.len()
    }

    /// The tokens before the first block: of the class, then of the given patches.
    ///
    /// # Shapes
    /// - `patches`: `[batch, patches, numbers]`
    /// - `chosen`: the number of each, `[batch, patches]`, or all of them in their order
    /// - returns: `[batch, 1 + patches, embedding]`
    pub(super) fn embed(&self, patches: Tensor<3>, chosen: Option<Tensor<2, Int>>) -> Tensor<3> {
        let [batch, count, _] = patches.dims();
        let positions = self.positions.val();
        let [_, embedding] = positions.dims();
        let own = positions.clone().narrow(0, 1, positions.dims()[0] - 1);
        let own = match chosen {
            Some(chosen) => look_up(own, chosen),
            None => own.narrow(0, 0, count).unsqueeze_dim(0),
        };
        let class = self.class_token.val().unsqueeze_dim::<2>(0) + positions.narrow(0, 0, 1);
        let class = class.unsqueeze_dim::<3>(0).expand([batch, 1, embedding]);
        Tensor::cat(vec![class, fused_linear(&self.patches, patches) + own], 1)
    }

    /// Runs one block.
    pub(super) fn block(&self, index: usize, tokens: Tensor<3>) -> Tensor<3> {
        self.blocks[index].forward(tokens)
    }

    /// Normalizes the tokens after the last block.
    pub(super) fn normalize(&self, tokens: Tensor<3>) -> Tensor<3> {
        normalize(&self.norm, tokens)
    }

    /// Encodes patches.
    ///
    /// # Shapes
    /// - `patches`: `[batch, patches, numbers]`
    /// - `chosen`: the number of each, `[batch, patches]`, or all of them in their order
    /// - returns: `[batch, 1 + patches, embedding]`, the class token first
    ///
    /// # Panics
    /// If patches have another number of numbers than the configuration's.
    pub fn forward(&self, patches: Tensor<3>, chosen: Option<Tensor<2, Int>>) -> Tensor<3> {
        let tokens = self.embed(patches, chosen);
        let tokens = (0..self.layers()).fold(tokens, |tokens, index| self.block(index, tokens));
        self.normalize(tokens)
    }

    /// Multiply-adds of a sample of so many patches.
    pub(super) fn multiply_adds(&self, patches: usize) -> u64 {
        let [numbers, embedding] = self.patches.weight.lazy_shape().dims();
        let blocks = self.blocks.len() as u64 * Block::multiply_adds(embedding, 1 + patches);
        (numbers * embedding * patches) as u64 + blocks
    }
}
