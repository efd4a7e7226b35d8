//! `EfficientNet`: inverted residuals with squeeze and excitation.

use burn::module::Module;
use burn::nn::{BatchNormConfig, Dropout, DropoutConfig};
use burn::tensor::{Device, Tensor};
use serde::{Deserialize, Serialize};
use updraft_conv::{Activation, BatchNorm, activate};

use super::backbone::{Backbone, BackboneConfig, Stage, scaled_width};
use super::error::MobileConfigError;
use crate::global_pooling::means;
use crate::initialize::initialize_parameters;
use crate::pruning::{Selection, remaining, take_norm};
use crate::quantized::{NormConfig, QuantizedLinear, WeightBits};

/// The largest hidden layer accepted.
const MAX_HIDDEN: usize = 1 << 16;

/// Kernel, repetitions, width, expansion and stride of each stage: table 1 of the paper.
const STAGES: [[usize; 5]; 7] = [
    [3, 1, 16, 1, 1],
    [3, 2, 24, 6, 2],
    [5, 2, 40, 6, 2],
    [3, 3, 80, 6, 2],
    [5, 3, 112, 6, 1],
    [5, 4, 192, 6, 2],
    [3, 1, 320, 6, 1],
];

/// The configuration of an [`EfficientNet`].
///
/// # Example
/// ```
/// use updraft_models::EfficientNetConfig;
///
/// let config = EfficientNetConfig::new(100).with_factors(0.5, 0.5).with_stem_stride(1);
/// assert!(config.validate().is_ok());
/// assert!(config.with_drop_path(1.0).validate().is_err());
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct EfficientNetConfig {
    /// The number of classes.
    pub classes: usize,
    /// The factor of all widths, which are then rounded to multiples of eight.
    pub width: f64,
    /// The factor of the repetitions in each stage, rounded up.
    pub depth: f64,
    /// The stride of the stem; 2 as published.
    pub stem_stride: usize,
    /// The width of a hidden layer before the classifier, with batch norms before the pooling and
    /// after the layer; 0, as published, has none of these.
    pub hidden: usize,
    /// The dropout probability of each feature before the classifier, and before the hidden layer.
    pub dropout: f64,
    /// The probability that the last block is skipped in training; it grows linearly from 0.
    pub drop_path: f64,
    /// The weights of quantization-aware training.
    pub quantization: Option<WeightBits>,
    /// The fraction of the channels inside each block that expands, and of the last convolution's,
    /// that is left out, rounded down to channels; a hidden
    /// layer keeps the latter.
    pub prune_ratio: f64,
}

impl EfficientNetConfig {
    /// `EfficientNet-B0` as published.
    #[must_use]
    pub const fn new(classes: usize) -> Self {
        Self {
            classes,
            width: 1.0,
            depth: 1.0,
            stem_stride: 2,
            hidden: 0,
            dropout: 0.2,
            drop_path: 0.2,
            quantization: None,
            prune_ratio: 0.0,
        }
    }

    /// Sets [`width`](Self::width) and [`depth`](Self::depth).
    #[must_use]
    pub const fn with_factors(self, width: f64, depth: f64) -> Self {
        Self { width, depth, ..self }
    }

    /// Sets [`stem_stride`](Self::stem_stride).
    #[must_use]
    pub const fn with_stem_stride(self, stem_stride: usize) -> Self {
        Self { stem_stride, ..self }
    }

    /// Sets [`hidden`](Self::hidden).
    #[must_use]
    pub const fn with_hidden(self, hidden: usize) -> Self {
        Self { hidden, ..self }
    }

    /// Sets [`dropout`](Self::dropout).
    #[must_use]
    pub const fn with_dropout(self, dropout: f64) -> Self {
        Self { dropout, ..self }
    }

    /// Sets [`drop_path`](Self::drop_path).
    #[must_use]
    pub const fn with_drop_path(self, drop_path: f64) -> Self {
        Self { drop_path, ..self }
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
        Error::check_factor("depth", self.depth)?;
        Error::check_stride(self.stem_stride)?;
        if self.hidden > MAX_HIDDEN {
            return Err(Error::Hidden { hidden: self.hidden, max: MAX_HIDDEN });
        }
        Error::check_probability("dropout", self.dropout)?;
        Error::check_probability("drop_path", self.drop_path)?;
        Error::check_probability("prune_ratio", self.prune_ratio)
    }

    /// Creates a network with random parameters, initialized in module order from the device's
    /// random state.
    ///
    /// # Panics
    /// If [`validate`](Self::validate) returns an error; the message is the error's.
    #[must_use]
    pub fn init(&self, device: &Device) -> EfficientNet {
        if let Err(error) = self.validate() {
            panic!("{error}");
        }
        let width = |width| scaled_width(width, self.width);
        let stages = STAGES.map(|[kernel, repeats, output, expansion, stride]| Stage {
            kernel,
            repeats: (repeats as f64 * self.depth).ceil() as usize,
            output: width(output),
            expansion,
            stride,
        });
        let top = match self.hidden {
            0 => remaining(width(1280), self.prune_ratio),
            _ => width(1280),
        };
        let backbone = BackboneConfig {
            stem: width(32),
            stem_stride: self.stem_stride,
            stages: stages.to_vec(),
            top,
            squeeze: Some(4),
            activation: Activation::Silu,
            dropped: self.drop_path,
            norm: NORM,
            bits: self.quantization,
            prune_ratio: self.prune_ratio,
        };
        let has_quantizer = self.quantization.is_some();
        let hidden = (self.hidden > 0).then(|| {
            let norm = |channels| {
                let config = BatchNormConfig::new(channels)
                    .with_epsilon(NORM.epsilon)
                    .with_momentum(NORM.momentum);
                BatchNorm::new(&config, device)
            };
            HiddenLayer {
                before: norm(top),
                dropout: DropoutConfig::new(self.dropout).init(),
                linear: QuantizedLinear::new([top, self.hidden], has_quantizer, device),
                after: norm(self.hidden),
            }
        });
        let features = if self.hidden > 0 { self.hidden } else { top };
        let net = EfficientNet {
            backbone: backbone.init(device),
            hidden,
            dropout: DropoutConfig::new(self.dropout).init(),
            classifier: QuantizedLinear::new([features, self.classes], has_quantizer, device),
        };
        initialize_parameters(&net);
        net
    }
}

/// As published: TensorFlow's momentum 0.99 is the weight 0.01 of a batch.
const NORM: NormConfig = NormConfig { epsilon: 1e-3, momentum: 0.01 };

/// Classifies images by inverted residuals with squeeze and excitation.
///
/// The network computes on the device of its parameters and in the dtype of its input.
///
/// # Source
/// Tan and Le 2019, arXiv:1905.11946, table 1; widths, repetitions and stochastic depth as in the
/// authors' code.
#[derive(Module, Debug)]
pub struct EfficientNet {
    backbone: Backbone,
    hidden: Option<HiddenLayer>,
    dropout: Dropout,
    classifier: QuantizedLinear,
}

/// A norm, the pooling, dropout, a linear layer with `SiLU`, and a norm.
#[derive(Module, Debug)]
struct HiddenLayer {
    before: BatchNorm,
    dropout: Dropout,
    linear: QuantizedLinear,
    after: BatchNorm,
}

impl HiddenLayer {
    fn after_width(&self) -> usize {
        self.after.gamma.lazy_shape()[0]
    }

    /// Takes the parameters of a layer of the same widths.
    fn take(&mut self, from: &Self) {
        let inputs = Selection::all(from.before.gamma.lazy_shape()[0]);
        let outputs = Selection::all(from.after_width());
        take_norm(&mut self.before, &from.before, &inputs);
        self.linear.take(&from.linear, &inputs);
        take_norm(&mut self.after, &from.after, &outputs);
    }
}

impl EfficientNet {
    /// The same network with the parameters of a wider one, of whose channels those stay that
    /// contribute most; the means of the others move into norms and biases.
    ///
    /// Take `self` from the configuration of `from` with a
    /// [`prune_ratio`](EfficientNetConfig::prune_ratio). It needs no data, and the result is then
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
        if let (Some(hidden), Some(wide)) = (&mut self.hidden, &from.hidden) {
            // It reads what the last convolution writes, all of which stays.
            hidden.take(wide);
            self.backbone.take(&from.backbone, &Selection::all(from.backbone.top.width()));
            self.classifier.take(&from.classifier, &Selection::all(wide.after_width()));
            return self;
        }
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

    /// Computes the head: global average pooling, the hidden layer if there is one, dropout and
    /// the classifier.
    ///
    /// # Shapes
    /// - `maps`: the last segment's result
    /// - returns: logits, `[batch, classes]`
    ///
    /// # Panics
    /// If `maps` has another number of channels than the last segment's result.
    #[must_use]
    pub fn forward_head(&self, maps: Tensor<4>) -> Tensor<2> {
        let features = match &self.hidden {
            None => means(maps),
            Some(HiddenLayer { before, dropout, linear, after }) => {
                // The mean of a scaled and shifted map is its scaled and shifted mean, but the
                // statistics are those of all pixels.
                let features = dropout.forward(means(before.forward(maps)));
                after.forward(activate(linear.forward(features), Activation::Silu))
            }
        };
        self.classifier.forward(self.dropout.forward(features))
    }

    /// Multiply-adds of the forward pass of one image of this height and width: of convolutions
    /// and linear layers.
    #[must_use]
    pub fn multiply_adds(&self, image: [usize; 2]) -> u64 {
        let hidden = self.hidden.as_ref().map_or(0, |hidden| hidden.linear.multiply_adds());
        (self.backbone.multiply_adds(image) + hidden + self.classifier.multiply_adds()) as u64
    }
}

#[cfg(test)]
mod tests {
    use burn::module::{ModuleVisitor, Param};

    use super::*;

    /// Learnt parameters and running statistics.
    #[derive(Default)]
    struct Counts {
        learnt: usize,
        statistics: usize,
        path: Vec<String>,
    }

    impl ModuleVisitor for Counts {
        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
            let count = param.lazy_shape().num_elements();
            match self.path.last().is_some_and(|name| name.starts_with("running_")) {
                true => self.statistics += count,
                false => self.learnt += count,
            }
        }

        fn enter_module(&mut self, name: &str, _container_type: &str) {
            self.path.push(name.to_owned());
        }

        fn exit_module(&mut self, _name: &str, _container_type: &str) {
            self.path.pop();
        }
    }

    fn counts(module: &impl Module) -> [usize; 2] {
        let mut counts = Counts::default();
        module.visit(&mut counts);
        [counts.learnt, counts.statistics]
    }

    #[test]
    fn every_layer_of_b0_has_as_many_parameters_as_the_published_one() {
        let _alone = updraft_testing::alone();
        let net = EfficientNetConfig::new(1000).init(&Device::flex());
        let Backbone { stem, blocks, top, .. } = &net.backbone;
        // Learnt parameters and running statistics, by the table of the paper: a block of input
        // `i`, width inside `e`, output `o` and kernel `k` has `i·e + k²·e + e·o` weights, `e·s +
        // s + s·e + e` of squeeze and excitation with `s = i/4`, and four numbers for each channel
        // of a norm, two of them statistics.
        let stages = [
            vec![[1_448, 96]],
            vec![[6_004, 432], [10_710, 624]],
            vec![[15_350, 656], [31_290, 1_040]],
            vec![[37_130, 1_120], [102_900, 2_080], [102_900, 2_080]],
            vec![[126_004, 2_144], [208_572, 2_912], [208_572, 2_912]],
            vec![[262_492, 3_072], [587_952, 4_992], [587_952, 4_992], [587_952, 4_992]],
            vec![[717_232, 5_248]],
        ];
        let expected: Vec<_> = stages.into_iter().flatten().collect();
        let found: Vec<_> = blocks.iter().map(counts).collect();
        assert_eq!(found, expected);
        assert_eq!(counts(stem), [928, 64]);
        assert_eq!(counts(top), [412_160, 2_560]);
        assert_eq!(counts(&net.backbone), [4_007_548, 42_016]);
        assert_eq!(counts(&net), [5_288_548, 42_016]);
    }

    #[test]
    fn b0_costs_what_the_paper_says() {
        let _alone = updraft_testing::alone();
        // 0.39 billion in table 2 of the paper; 385.9 million by counting its layers at 224.
        let net = EfficientNetConfig::new(1000).init(&Device::flex());
        let millions = net.multiply_adds([224, 224]) as f64 / 1e6;
        assert!((380.0..=400.0).contains(&millions), "{millions}");
    }

    #[test]
    fn every_value_out_of_range_is_named() {
        let good = EfficientNetConfig::new(2);
        assert_eq!(good.validate(), Ok(()));
        for (config, name) in [
            (EfficientNetConfig::new(1), "classes"),
            (good.clone().with_factors(0.0, 1.0), "width"),
            (good.clone().with_factors(1.0, f64::NAN), "depth"),
            (good.clone().with_stem_stride(3), "stem_stride"),
            (good.clone().with_hidden(MAX_HIDDEN + 1), "hidden"),
            (good.clone().with_dropout(1.0), "dropout"),
            (good.with_drop_path(-0.1), "drop_path"),
        ] {
            let message = config.validate().expect_err(name).to_string();
            assert!(message.starts_with(&format!("`{name}` is ")), "{message}");
        }
    }
}
