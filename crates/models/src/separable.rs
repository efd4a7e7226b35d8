//! A network of depthwise-separable convolutions: stem, blocks, pooling and a linear classifier.

use burn::module::Module;
use burn::nn::{Dropout, DropoutConfig};
use burn::tensor::{Device, Tensor, assert_shape};
use serde::{Deserialize, Serialize};
use updraft_conv::Activation;

use crate::error::SeparableConfigError;
use crate::global_pooling::means;
use crate::initialize::initialize_parameters;
use crate::pruning::{Selection, remaining};
use crate::quantized::{
    BlockConfig, ConvBlock, FakeQuantizer, NormConfig, QuantizedLinear, WeightBits,
};

/// The largest stem width accepted: the last pointwise convolution then has 2³⁰ weights, 4 GiB in
/// f32.
const MAX_CHANNELS: usize = 4096;

/// The width of each block as a multiple of the stem's, and its stride: the first five blocks of
/// table 1 of the paper, the first of them already at half the image's size.
const BLOCKS: [(usize, usize); 5] = [(2, 1), (4, 2), (4, 1), (8, 2), (8, 1)];

/// The configuration of a [`SeparableNet`].
///
/// # Example
/// ```
/// use updraft_models::SeparableConfig;
///
/// let config = SeparableConfig::new(10, 16).with_stem_stride(2);
/// assert!(config.validate().is_ok());
/// assert!(SeparableConfig::new(1, 16).validate().is_err());
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct SeparableConfig {
    /// The number of classes.
    pub classes: usize,
    /// The width of the stem; the last block is eight times as wide.
    pub channels: usize,
    /// The stride of the stem: 1 keeps the image's size, 2 halves height and width before the
    /// first block, which then costs a quarter of the multiply-adds.
    pub stem_stride: usize,
    /// The dropout probability of each feature before the classifier.
    pub dropout: f64,
    /// The weights of quantization-aware training.
    pub quantization: Option<WeightBits>,
    /// The fraction of the channels of the stem and of each block that is left out, rounded down
    /// to channels.
    pub prune_ratio: f64,
}

impl SeparableConfig {
    /// A network with stem stride 1 and without dropout.
    #[must_use]
    pub const fn new(classes: usize, channels: usize) -> Self {
        Self {
            classes,
            channels,
            stem_stride: 1,
            dropout: 0.0,
            quantization: None,
            prune_ratio: 0.0,
        }
    }

    /// Sets [`stem_stride`](Self::stem_stride).
    #[must_use]
    pub const fn with_stem_stride(mut self, stem_stride: usize) -> Self {
        self.stem_stride = stem_stride;
        self
    }

    /// Sets [`dropout`](Self::dropout).
    #[must_use]
    pub const fn with_dropout(mut self, dropout: f64) -> Self {
        self.dropout = dropout;
        self
    }

    /// Sets [`quantization`](Self::quantization).
    #[must_use]
    pub const fn with_quantization(mut self, quantization: Option<WeightBits>) -> Self {
        self.quantization = quantization;
        self
    }

    /// Sets [`prune_ratio`](Self::prune_ratio).
    #[must_use]
    pub const fn with_prune_ratio(mut self, prune_ratio: f64) -> Self {
        self.prune_ratio = prune_ratio;
        self
    }

    /// Checks every value.
    ///
    /// # Errors
    /// The first value that is out of its range.
    pub fn validate(&self) -> Result<(), SeparableConfigError> {
        use SeparableConfigError as Error;

        let Self { classes, channels, stem_stride, dropout, prune_ratio, .. } = *self;
        if classes < 2 {
            return Err(Error::Classes { classes });
        }
        if !(1..=MAX_CHANNELS).contains(&channels) {
            return Err(Error::Channels { channels, max: MAX_CHANNELS });
        }
        if !(1..=2).contains(&stem_stride) {
            return Err(Error::StemStride { stem_stride });
        }
        if !(0.0..1.0).contains(&dropout) {
            return Err(Error::Dropout { dropout });
        }
        if !(0.0..1.0).contains(&prune_ratio) {
            return Err(Error::PruneRatio { prune_ratio });
        }
        Ok(())
    }

    /// Creates a network with random parameters.
    ///
    /// All of them are initialized here, in module order, from the device's random state: the same
    /// configuration after the same `device.seed(…)` gives the same parameters.
    ///
    /// # Panics
    /// If [`validate`](Self::validate) returns an error; the message is the error's.
    #[must_use]
    pub fn init(&self, device: &Device) -> SeparableNet {
        if let Err(error) = self.validate() {
            panic!("{error}");
        }
        SeparableNet::new(self, device)
    }
}

/// Classifies images by depthwise-separable convolutions, each followed by batch normalization
/// and `ReLU`.
///
/// The network computes on the device of its parameters and in the dtype of its input.
///
/// # Source
/// `MobileNet` v1: Howard et al. 2017, arXiv:1704.04861, section 3 and figure 3, with the first
/// five blocks of its thirteen.
#[derive(Module, Debug)]
pub struct SeparableNet {
    /// Rounds the images.
    image: Option<FakeQuantizer>,
    pub(crate) stem: ConvBlock,
    pub(crate) blocks: Vec<SeparableBlock>,
    dropout: Dropout,
    classifier: QuantizedLinear,
}

/// A depthwise 3×3 convolution, then a pointwise one.
#[derive(Module, Debug)]
pub(crate) struct SeparableBlock {
    pub(crate) depthwise: ConvBlock,
    pub(crate) pointwise: ConvBlock,
}

impl SeparableNet {
    fn new(config: &SeparableConfig, device: &Device) -> Self {
        let bits = config.quantization;
        let conv_norm_relu = |channels, kernel, stride, groups, bits| {
            let (activation, norm) = (Activation::Relu, NormConfig::default());
            BlockConfig { channels, kernel, stride, groups, activation, norm, bits }.init(device)
        };
        let of_stem = bits.map(|_| WeightBits::Int8);
        let left = |channels| remaining(channels, config.prune_ratio);
        let mut input = left(config.channels);
        let stem = conv_norm_relu([3, input], 3, config.stem_stride, 1, of_stem);
        let mut blocks = Vec::new();
        for (multiple, stride) in BLOCKS {
            let output = left(multiple * config.channels);
            blocks.push(SeparableBlock {
                depthwise: conv_norm_relu([input; 2], 3, stride, input, bits),
                pointwise: conv_norm_relu([input, output], 1, 1, 1, bits),
            });
            input = output;
        }
        let net = Self {
            image: bits.map(|_| FakeQuantizer::of_activations(device)),
            stem,
            blocks,
            dropout: DropoutConfig::new(config.dropout).init(),
            classifier: QuantizedLinear::new([input, config.classes], bits.is_some(), device),
        };
        initialize_parameters(&net);
        net
    }

    /// The same network with the parameters of a wider one, of whose channels those stay that
    /// contribute most; the means of the others move into norms and biases.
    ///
    /// Take `self` from the configuration of `from` with a
    /// [`prune_ratio`](SeparableConfig::prune_ratio). It needs no data, and the result is then
    /// trained further.
    ///
    /// # Panics
    /// If `from` is narrower in some layer.
    ///
    /// # Source
    /// Removal of whole filters: Li et al. 2017, arXiv:1608.08710; ranked by what their removal
    /// changes, from the moments of batch norms: Nagel et al. 2019, arXiv:1906.04721, section 4.2.
    #[must_use]
    pub fn pruned_from(mut self, from: &Self) -> Self {
        let widths: Vec<usize> = std::iter::once(&self.stem)
            .chain(self.blocks.iter().map(|block| &block.pointwise))
            .map(ConvBlock::width)
            .collect();
        let read: Vec<_> = from
            .blocks
            .iter()
            .map(|block| (block.depthwise.output_moments(), block.pointwise.input_norms()))
            .chain(
                from.blocks
                    .last()
                    .map(|block| (block.pointwise.output_moments(), from.classifier.input_norms())),
            )
            .collect();
        let chosen: Vec<Selection> = std::iter::zip(&widths, &read)
            .map(|(&width, (moments, norms))| Selection::of_largest(width, moments, norms))
            .collect();
        self.stem.take(&from.stem, &Selection::all(3), &chosen[0]);
        for (index, (block, from)) in self.blocks.iter_mut().zip(&from.blocks).enumerate() {
            block.depthwise.take_depthwise(&from.depthwise, &chosen[index]);
            block.pointwise.take(&from.pointwise, &chosen[index], &chosen[index + 1]);
        }
        self.classifier.take(&from.classifier, &chosen[self.blocks.len()]);
        self
    }

    /// Classifies images.
    ///
    /// # Shapes
    /// - `rgb`: `[batch, 3, height, width]`
    /// - returns: logits, `[batch, classes]`
    ///
    /// # Panics
    /// If the second axis of `rgb` is not 3, or its dtype is not that of the parameters.
    pub fn forward(&self, rgb: Tensor<4>) -> Tensor<2> {
        assert_shape!(rgb, [_, 3, _, _]);
        let maps = (0..self.segments()).fold(rgb, |maps, index| self.forward_segment(index, maps));
        self.forward_head(maps)
    }

    /// The number of segments: the stem, then each block.
    ///
    /// [`forward_segment`](Self::forward_segment) for each of them in order and then
    /// [`forward_head`](Self::forward_head) compute what [`forward`](Self::forward) does; a trainer
    /// that recomputes activations keeps only what is passed between them.
    pub fn segments(&self) -> usize {
        1 + self.blocks.len()
    }

    /// Computes one segment.
    ///
    /// # Shapes
    /// - `maps`: `[batch, 3, height, width]` for segment 0, then the previous segment's result
    /// - returns: `[batch, channels, height, width]`
    ///
    /// # Panics
    /// If `index` is not less than [`segments`](Self::segments), or `maps` has another shape.
    #[must_use]
    pub fn forward_segment(&self, index: usize, maps: Tensor<4>) -> Tensor<4> {
        let Some(block) = index.checked_sub(1) else {
            return self.stem.forward(match &self.image {
                Some(image) => image.activations(maps),
                None => maps,
            });
        };
        let SeparableBlock { depthwise, pointwise } = &self.blocks[block];
        pointwise.forward(depthwise.forward(maps))
    }

    /// Computes the head: global average pooling, dropout and the linear classifier.
    ///
    /// # Shapes
    /// - `maps`: the last segment's result
    /// - returns: logits, `[batch, classes]`
    ///
    /// # Panics
    /// If `maps` has another number of channels than the last segment's result.
    pub fn forward_head(&self, maps: Tensor<4>) -> Tensor<2> {
        self.classifier.forward(self.dropout.forward(means(maps)))
    }

    /// Multiply-adds of the forward pass of one image of this height and width.
    ///
    /// Counts convolutions and the linear layer only; normalizations and activations are left out,
    /// as is usual.
    pub fn multiply_adds(&self, image: [usize; 2]) -> u64 {
        let blocks = self.blocks.iter().flat_map(|block| [&block.depthwise, &block.pointwise]);
        let mut size = image;
        let mut sum = 0;
        for block in std::iter::once(&self.stem).chain(blocks) {
            let (count, after) = block.multiply_adds(size);
            (sum, size) = (sum + count, after);
        }
        (sum + self.classifier.multiply_adds()) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_network_costs_what_its_layers_cost_by_hand() {
        let _alone = updraft_testing::alone();
        let net = SeparableConfig::new(3, 2).with_stem_stride(2).init(&Device::flex());
        // 16 × 16 behind the stem are 8 × 8, then 4 × 4, then 2 × 2.
        let stem = 3 * 2 * 9 * 64_u64;
        let block =
            |input: u64, output: u64, positions: u64| (input * 9 + input * output) * positions;
        let blocks = block(2, 4, 64)
            + block(4, 8, 16)
            + block(8, 8, 16)
            + block(8, 16, 4)
            + block(16, 16, 4);
        assert_eq!(net.multiply_adds([16, 16]), stem + blocks + 16 * 3);
        assert_eq!(net.multiply_adds([15, 16]), net.multiply_adds([16, 16]));
    }

    #[test]
    fn every_value_out_of_range_is_named() {
        let good = SeparableConfig::new(2, 1);
        assert_eq!(good.validate(), Ok(()));
        for (config, name) in [
            (SeparableConfig::new(1, 1), "classes"),
            (SeparableConfig::new(2, 0), "channels"),
            (SeparableConfig::new(2, MAX_CHANNELS + 1), "channels"),
            (good.clone().with_stem_stride(3), "stem_stride"),
            (good.clone().with_dropout(1.0), "dropout"),
            (good.with_prune_ratio(1.0), "prune_ratio"),
        ] {
            let message = config.validate().expect_err(name).to_string();
            assert!(message.starts_with(&format!("`{name}` is ")), "{message}");
        }
    }
}
