//! `MobileNetV2`: inverted residuals with a choice of activations.

use burn::module::Module;
use burn::nn::{Dropout, DropoutConfig};
use burn::tensor::{Device, Tensor};
use serde::{Deserialize, Serialize};
use updraft_conv::Activation;

use super::backbone::{Backbone, BackboneConfig, Stage, scaled_width};
use super::error::MobileConfigError;
use crate::global_pooling::means;
use crate::initialize::initialize_parameters;
use crate::pruning::{Selection, remaining};
use crate::quantized::{NormConfig, QuantizedLinear, WeightBits};

/// Expansion, width, repetitions and stride of each stage: table 2 of the paper.
const STAGES: [[usize; 4]; 7] = [
    [1, 16, 1, 1],
    [6, 24, 2, 2],
    [6, 32, 3, 2],
    [6, 64, 4, 2],
    [6, 96, 3, 1],
    [6, 160, 3, 2],
    [6, 320, 1, 1],
];

/// The activation of a [`MobileNet`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MobileActivation {
    /// `min(max(x, 0), 6)`, as published.
    #[default]
    Relu6,
    /// `x·min(max(x + 3, 0), 6)/6`.
    HardSwish,
    /// `x·σ(x)`.
    Silu,
}

impl From<MobileActivation> for Activation {
    fn from(activation: MobileActivation) -> Self {
        match activation {
            MobileActivation::Relu6 => Self::Relu6,
            MobileActivation::HardSwish => Self::HardSwish,
            MobileActivation::Silu => Self::Silu,
        }
    }
}

/// The configuration of a [`MobileNet`].
///
/// # Example
/// ```
/// use updraft_models::{MobileActivation, MobileNetConfig};
///
/// let config = MobileNetConfig::new(10).with_width(0.5).with_activation(MobileActivation::Silu);
/// assert!(config.validate().is_ok());
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct MobileNetConfig {
    /// The number of classes.
    pub classes: usize,
    /// The factor of all widths, which are then rounded to multiples of eight; the last
    /// convolution has at least 1280 channels unless the factor is below 1.
    pub width: f64,
    /// The stride of the stem; 2 as published.
    pub stem_stride: usize,
    /// The activation.
    pub activation: MobileActivation,
    /// The dropout probability of each feature before the classifier.
    pub dropout: f64,
    /// The weights of quantization-aware training.
    pub quantization: Option<WeightBits>,
    /// The fraction of the channels inside each block that expands, and of the last convolution's,
    /// that is left out, rounded down to channels.
    pub prune_ratio: f64,
}

impl MobileNetConfig {
    /// The network as published.
    #[must_use]
    pub const fn new(classes: usize) -> Self {
        Self {
            classes,
            width: 1.0,
            stem_stride: 2,
            activation: MobileActivation::Relu6,
            dropout: 0.2,
            quantization: None,
            prune_ratio: 0.0,
        }
    }

    /// Sets [`width`](Self::width).
    #[must_use]
    pub const fn with_width(self, width: f64) -> Self {
        Self { width, ..self }
    }

    /// Sets [`stem_stride`](Self::stem_stride).
    #[must_use]
    pub const fn with_stem_stride(self, stem_stride: usize) -> Self {
        Self { stem_stride, ..self }
    }

    /// Sets [`activation`](Self::activation).
    #[must_use]
    pub const fn with_activation(self, activation: MobileActivation) -> Self {
        Self { activation, ..self }
    }

    /// Sets [`dropout`](Self::dropout).
    #[must_use]
    pub const fn with_dropout(self, dropout: f64) -> Self {
        Self { dropout, ..self }
    }

    /// Sets [`quantization`](Self::quantization).
    #[must_use]
    pub const fn with_quantization(self, quantization: Option<WeightBits>) -> Self {
        Self { quantization, ..self }
    }

    /// Sets [`prune_ratio`](Self::prune_ratio).
    #[must_use]
    pub const fn with_prune_ratio(self, prune_ratio: f64) -> Self {
        Self { prune_ratio, ..self }
    }

    /// Checks every value.
    ///
    /// # Errors
    /// The first value that is out of its range.
    pub fn validate(&self) -> Result<(), MobileConfigError> {
        use MobileConfigError as Error;

        Error::check_classes(self.classes)?;
        Error::check_factor("width", self.width)?;
        Error::check_stride(self.stem_stride)?;
        Error::check_probability("dropout", self.dropout)?;
        Error::check_probability("prune_ratio", self.prune_ratio)
    }

    /// Creates a network with random parameters, initialized in module order from the device's
    /// random state.
    ///
    /// # Panics
    /// If [`validate`](Self::validate) returns an error; the message is the error's.
    #[must_use]
    pub fn init(&self, device: &Device) -> MobileNet {
        if let Err(error) = self.validate() {
            panic!("{error}");
        }
        let width = |width| scaled_width(width, self.width);
        let stages = STAGES.map(|[expansion, output, repeats, stride]| Stage {
            kernel: 3,
            repeats,
            output: width(output),
            expansion,
            stride,
        });
        let top = remaining(width(1280), self.prune_ratio);
        let backbone = BackboneConfig {
            stem: width(32),
            stem_stride: self.stem_stride,
            stages: stages.to_vec(),
            top,
            squeeze: None,
            activation: self.activation.into(),
            dropped: 0.0,
            norm: NormConfig::default(),
            bits: self.quantization,
            prune_ratio: self.prune_ratio,
        };
        let has_quantizer = self.quantization.is_some();
        let net = MobileNet {
            backbone: backbone.init(device),
            dropout: DropoutConfig::new(self.dropout).init(),
            classifier: QuantizedLinear::new([top, self.classes], has_quantizer, device),
        };
        initialize_parameters(&net);
        net
    }
}

/// Classifies images by inverted residuals: many thin layers with wide ranges, which make it hard
/// to quantize.
///
/// The network computes on the device of its parameters and in the dtype of its input.
///
/// # Source
/// Sandler et al. 2018, arXiv:1801.04381, table 2; hard swish from Howard et al. 2019,
/// arXiv:1905.02244.
#[derive(Module, Debug)]
pub struct MobileNet {
    backbone: Backbone,
    dropout: Dropout,
    classifier: QuantizedLinear,
}

impl MobileNet {
    /// The same network with the parameters of a wider one, of whose channels those stay that
    /// contribute most; the means of the others move into norms and biases.
    ///
    /// Take `self` from the configuration of `from` with a
    /// [`prune_ratio`](MobileNetConfig::prune_ratio). It needs no data, and the result is then
    /// trained further.
    ///
    /// # Panics
    /// If `from` is narrower in some layer, or has another number of blocks.
    ///
    /// # Source
    /// As [`SeparableNet::pruned_from`](crate::SeparableNet::pruned_from).
    #[must_use]
    pub fn pruned_from(mut self, from: &Self) -> Self {
        assert_eq!(self.segments(), from.segments(), "the number of blocks");
        let (moments, norms) = (from.backbone.top.output_moments(), from.classifier.input_norms());
        let top = Selection::of_largest(self.backbone.top.width(), &moments, &norms);
        self.backbone.take(&from.backbone, &top);
        self.classifier.take(&from.classifier, &top);
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
    #[must_use]
    pub fn forward(&self, rgb: Tensor<4>) -> Tensor<2> {
        self.forward_head(self.backbone.forward(rgb))
    }

    /// The number of segments: the stem, each block, and the last convolution.
    #[must_use]
    pub fn segments(&self) -> usize {
        self.backbone.segments()
    }

    /// Computes one segment; all of them in order, then [`forward_head`](Self::forward_head),
    /// compute what [`forward`](Self::forward) does.
    ///
    /// # Shapes
    /// - `maps`: `[batch, 3, height, width]` for segment 0, then the previous segment's result
    /// - returns: `[batch, channels, height, width]`
    ///
    /// # Panics
    /// If `maps` has another shape.
    #[must_use]
    pub fn forward_segment(&self, index: usize, maps: Tensor<4>) -> Tensor<4> {
        self.backbone.forward_segment(index, maps)
    }

    /// Computes the head: global average pooling, dropout and the classifier.
    ///
    /// # Shapes
    /// - `maps`: the last segment's result
    /// - returns: logits, `[batch, classes]`
    ///
    /// # Panics
    /// If `maps` has another number of channels than the last segment's result.
    #[must_use]
    pub fn forward_head(&self, maps: Tensor<4>) -> Tensor<2> {
        self.classifier.forward(self.dropout.forward(means(maps)))
    }

    /// Multiply-adds of the forward pass of one image of this height and width: of convolutions
    /// and the linear layer.
    #[must_use]
    pub fn multiply_adds(&self, image: [usize; 2]) -> u64 {
        (self.backbone.multiply_adds(image) + self.classifier.multiply_adds()) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_has_the_published_parameters_and_multiply_adds() {
        let _alone = updraft_testing::alone();
        let net = MobileNetConfig::new(1000).init(&Device::flex());
        // 3,504,872 learnt ones, as torchvision's, and two statistics for each of 17,056 channels.
        assert_eq!(net.num_params(), 3_504_872 + 2 * 17_056);
        // 300 million in table 4 of the paper.
        let millions = net.multiply_adds([224, 224]) as f64 / 1e6;
        assert!((295.0..=305.0).contains(&millions), "{millions}");
    }

    #[test]
    fn every_value_out_of_range_is_named() {
        let good = MobileNetConfig::new(2);
        assert_eq!(good.validate(), Ok(()));
        for (config, name) in [
            (MobileNetConfig::new(0), "classes"),
            (good.clone().with_width(9.0), "width"),
            (good.clone().with_stem_stride(0), "stem_stride"),
            (good.with_dropout(1.5), "dropout"),
        ] {
            let message = config.validate().expect_err(name).to_string();
            assert!(message.starts_with(&format!("`{name}` is ")), "{message}");
        }
    }
}
