//! The stem, the blocks and the last convolution of a network of inverted residuals.

use burn::module::Module;
use burn::tensor::{Device, Tensor, assert_shape};
use updraft_conv::Activation;

use super::inverted_residual::{InvertedConfig, InvertedResidual};
use crate::pruning::Selection;
use crate::quantized::{BlockConfig, ConvBlock, FakeQuantizer, NormConfig, WeightBits};

/// Everything before the pooling.
#[derive(Module, Debug)]
pub(crate) struct Backbone {
    /// Rounds the images.
    image: Option<FakeQuantizer>,
    pub(crate) stem: ConvBlock,
    pub(crate) blocks: Vec<InvertedResidual>,
    pub(crate) top: ConvBlock,
}

/// One row of a published table: blocks that follow each other, the first with a stride.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stage {
    pub(super) kernel: usize,
    pub(super) repeats: usize,
    pub(super) output: usize,
    pub(super) expansion: usize,
    pub(super) stride: usize,
}

#[derive(Debug, Clone)]
pub(super) struct BackboneConfig {
    pub(super) stem: usize,
    pub(super) stem_stride: usize,
    pub(super) stages: Vec<Stage>,
    pub(super) top: usize,
    pub(super) squeeze: Option<usize>,
    pub(super) activation: Activation,
    /// The probability that the last block is skipped; it grows linearly from 0 at the first.
    pub(super) dropped: f64,
    pub(super) norm: NormConfig,
    pub(super) bits: Option<WeightBits>,
    /// The fraction of the channels inside blocks that is left out.
    pub(super) prune_ratio: f64,
}

impl BackboneConfig {
    pub(super) fn init(&self, device: &Device) -> Backbone {
        let Self { activation, norm, squeeze, bits, .. } = *self;
        let conv = |channels, kernel, stride, bits| {
            let groups = 1;
            BlockConfig { channels, kernel, stride, groups, activation, norm, bits }.init(device)
        };
        let count: usize = self.stages.iter().map(|stage| stage.repeats).sum();
        let mut input = self.stem;
        let mut blocks = Vec::with_capacity(count);
        for &Stage { kernel, repeats, output, expansion, stride } in &self.stages {
            for repeat in 0..repeats {
                let config = InvertedConfig {
                    channels: [input, output],
                    kernel,
                    stride: if repeat == 0 { stride } else { 1 },
                    expansion,
                    prune_ratio: self.prune_ratio,
                    squeeze,
                    activation,
                    dropped: self.dropped * blocks.len() as f64 / count as f64,
                    norm,
                    bits,
                };
                blocks.push(config.init(device));
                input = output;
            }
        }
        Backbone {
            image: bits.map(|_| FakeQuantizer::of_activations(device)),
            stem: conv([3, self.stem], 3, self.stem_stride, bits.map(|_| WeightBits::Int8)),
            blocks,
            top: conv([input, self.top], 1, 1, bits),
        }
    }
}

impl Backbone {
    /// The stem, each block, and the last convolution.
    pub(super) fn segments(&self) -> usize {
        2 + self.blocks.len()
    }

    pub(super) fn forward_segment(&self, index: usize, maps: Tensor<4>) -> Tensor<4> {
        if index == 0 {
            assert_shape!(maps, [_, 3, _, _]);
            return self.stem.forward(match &self.image {
                Some(image) => image.activations(maps),
                None => maps,
            });
        }
        match self.blocks.get(index - 1) {
            Some(block) => block.forward(maps),
            None => self.top.forward(maps),
        }
    }

    pub(super) fn forward(&self, rgb: Tensor<4>) -> Tensor<4> {
        (0..self.segments()).fold(rgb, |maps, index| self.forward_segment(index, maps))
    }

    /// Takes the parameters of a wider backbone, and these channels of its last convolution.
    pub(super) fn take(&mut self, from: &Self, top: &Selection) {
        let all = |from: &ConvBlock| Selection::all(from.width());
        self.stem.take(&from.stem, &Selection::all(3), &all(&from.stem));
        for (block, from) in self.blocks.iter_mut().zip(&from.blocks) {
            block.take(from);
        }
        let inputs = from.top.conv.weight.lazy_shape()[1];
        self.top.take(&from.top, &Selection::all(inputs), top);
    }

    pub(super) fn multiply_adds(&self, image: [usize; 2]) -> usize {
        let (mut sum, mut size) = self.stem.multiply_adds(image);
        for block in &self.blocks {
            let (count, after) = block.multiply_adds(size);
            (sum, size) = (sum + count, after);
        }
        sum + self.top.multiply_adds(size).0
    }
}

/// A width times a factor, rounded to a multiple of eight that loses at most a tenth.
///
/// # Source
/// The rule of the published networks: Sandler et al. 2018, arXiv:1801.04381, and Tan and Le 2019,
/// arXiv:1905.11946, in their code.
pub(super) fn scaled_width(width: usize, factor: f64) -> usize {
    let exact = width as f64 * factor;
    let rounded = ((exact + 4.0) / 8.0).floor().max(1.0) as usize * 8;
    if (rounded as f64) < 0.9 * exact { rounded + 8 } else { rounded }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn widths_are_those_of_the_published_networks() {
        // MobileNetV2 1.4 and 0.35, and EfficientNet-B2 and B7, at 1.1 and 2.0.
        for (width, factor, right) in [
            (32, 1.4, 48),
            (24, 1.4, 32),
            (16, 0.35, 8),
            (320, 0.35, 112),
            (112, 1.1, 120),
            (40, 2.0, 80),
            (3, 0.1, 8),
        ] {
            assert_eq!(scaled_width(width, factor), right, "{width} {factor}");
        }
    }
}
