//! A convolutional network behind a convolution that whitens patches.

use burn::module::{Initializer, Module, Param};
use burn::nn::conv::Conv2dConfig;
use burn::nn::pool::MaxPool2dConfig;
use burn::nn::{BatchNormConfig, Linear, LinearConfig, PaddingConfig2d};
use burn::tensor::{Device, Tensor, TensorData, assert_shape};
use serde::{Deserialize, Serialize};
use updraft_conv::{Activation, BatchNorm, Conv2d, MaxPool2d, activate};
use updraft_transformer::timed_linear;

use crate::error::WhitenedConfigError;
use crate::initialize::{initialize_parameters, with_partial_identity};
use crate::whitening::PatchMoments;

/// The largest width of a stage accepted: a convolution then has 2.25 GiB of weights in f32.
const MAX_WIDTH: usize = 8192;

/// The side of the whitened patches (arXiv:2404.00498, section 3.2).
const PATCH: usize = 2;

/// Filters of the whitening convolution: each eigenvector of an RGB patch, and its negative.
const FILTERS: usize = 2 * 3 * PATCH * PATCH;

/// The configuration of a [`WhitenedNet`].
///
/// # Example
/// ```
/// use updraft_models::WhitenedConfig;
///
/// let config = WhitenedConfig::new(10).with_widths([32, 64, 64]);
/// assert!(config.validate().is_ok());
/// assert!(config.with_head_scale(0.0).validate().is_err());
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct WhitenedConfig {
    /// The number of classes.
    pub classes: usize,
    /// The width of each stage.
    pub widths: [usize; 3],
    /// The weight of each batch's statistics in the running ones of the batch norms.
    pub norm_momentum: f64,
    /// What the logits are multiplied by.
    pub head_scale: f64,
    /// What is added to the eigenvalues of the whitening, see [`PatchMoments::whitening`].
    pub whitening_epsilon: f64,
}

impl WhitenedConfig {
    /// The smallest height and width of an image.
    pub const MIN_SIDE: usize = 9;

    /// The network of the paper: 1.97 million weights for 10 classes.
    #[must_use]
    pub const fn new(classes: usize) -> Self {
        Self {
            classes,
            widths: [64, 256, 256],
            norm_momentum: 0.4,
            head_scale: 1.0 / 9.0,
            whitening_epsilon: 5e-4,
        }
    }

    /// Sets [`widths`](Self::widths).
    #[must_use]
    pub const fn with_widths(mut self, widths: [usize; 3]) -> Self {
        self.widths = widths;
        self
    }

    /// Sets [`norm_momentum`](Self::norm_momentum).
    #[must_use]
    pub const fn with_norm_momentum(mut self, norm_momentum: f64) -> Self {
        self.norm_momentum = norm_momentum;
        self
    }

    /// Sets [`head_scale`](Self::head_scale).
    #[must_use]
    pub const fn with_head_scale(mut self, head_scale: f64) -> Self {
        self.head_scale = head_scale;
        self
    }

    /// Sets [`whitening_epsilon`](Self::whitening_epsilon).
    #[must_use]
    pub const fn with_whitening_epsilon(mut self, whitening_epsilon: f64) -> Self {
        self.whitening_epsilon = whitening_epsilon;
        self
    }

    /// Checks every value.
    ///
    /// # Errors
    /// The first value that is out of its range.
    pub fn validate(&self) -> Result<(), WhitenedConfigError> {
        use WhitenedConfigError as Error;

        let Self { classes, widths, norm_momentum, head_scale, whitening_epsilon } = *self;
        if classes < 2 {
            return Err(Error::Classes { classes });
        }
        for (stage, width) in widths.into_iter().enumerate() {
            if !(1..=MAX_WIDTH).contains(&width) {
                return Err(Error::Width { stage, width, max: MAX_WIDTH });
            }
        }
        if !(norm_momentum > 0.0 && norm_momentum <= 1.0) {
            return Err(Error::NormMomentum { norm_momentum });
        }
        if !(head_scale.is_finite() && head_scale > 0.0) {
            return Err(Error::HeadScale { head_scale });
        }
        if !(whitening_epsilon.is_finite() && whitening_epsilon > 0.0) {
            return Err(Error::WhiteningEpsilon { whitening_epsilon });
        }
        Ok(())
    }

    /// Creates a network with random parameters. The filters of its first convolution are random
    /// too and are not trained: call [`WhitenedNet::with_whitening`] before training.
    ///
    /// All of them are initialized here, in module order, from the device's random state: the same
    /// configuration after the same `device.seed(…)` gives the same parameters.
    ///
    /// # Panics
    /// If [`validate`](Self::validate) returns an error; the message is the error's.
    #[must_use]
    pub fn init(&self, device: &Device) -> WhitenedNet {
        if let Err(error) = self.validate() {
            panic!("{error}");
        }
        WhitenedNet::new(self, device)
    }
}

/// Classifies images: a whitening convolution, three stages of two convolutions, the maximum over
/// all positions and a scaled linear layer.
///
/// Convolutions of the stages begin as partial identities, batch norms have no scale, and every
/// activation is `GELU`. The weights of the whitening convolution are not trained, its bias is.
/// The network computes on the device of its parameters and in the dtype of its input.
///
/// # Source
/// `airbench94`: Jordan 2024, arXiv:2404.00498, section 3 and appendix A. The maximum of the last
/// 3 × 3 positions is taken over all positions here, so that images of other sizes have one too.
#[derive(Module, Debug)]
pub struct WhitenedNet {
    whitening: Conv2d,
    stages: Vec<Stage>,
    classifier: Linear,
    #[module(skip)]
    head_scale: f64,
    #[module(skip)]
    whitening_epsilon: f64,
}

/// `gelu(norm(conv(gelu(norm(pool(conv(x)))))))`.
#[derive(Module, Debug)]
struct Stage {
    first: Conv2d,
    first_norm: BatchNorm,
    second: Conv2d,
    second_norm: BatchNorm,
}

impl Stage {
    fn new([input, output]: [usize; 2], config: &WhitenedConfig, device: &Device) -> Self {
        let conv = |input: usize| {
            let config = Conv2dConfig::new([input, output], [3, 3])
                .with_padding(PaddingConfig2d::Explicit(1, 1, 1, 1))
                .with_bias(false);
            with_partial_identity(Conv2d::new(&config, device))
        };
        // The variance of 1024 · 15² positions needs no ε; the paper's code has the same.
        let norm =
            BatchNormConfig::new(output).with_momentum(config.norm_momentum).with_epsilon(1e-12);
        let norm = || BatchNorm::new(&norm, device).without_scale();
        Self { first: conv(input), first_norm: norm(), second: conv(output), second_norm: norm() }
    }

    fn forward(&self, maps: Tensor<4>) -> Tensor<4> {
        let pool = MaxPool2d::new(MaxPool2dConfig::new([2, 2]).with_strides([2, 2]));
        let maps = pool.forward(self.first.forward(maps));
        let maps = self.first_norm.forward_activated(maps, Activation::Gelu);
        self.second_norm.forward_activated(self.second.forward(maps), Activation::Gelu)
    }
}

impl WhitenedNet {
    fn new(config: &WhitenedConfig, device: &Device) -> Self {
        let whitening =
            Conv2dConfig::new([3, FILTERS], [PATCH; 2]).with_padding(PaddingConfig2d::Valid);
        let mut whitening = Conv2d::new(&whitening, device);
        whitening.weight = whitening.weight.set_require_grad(false);
        whitening.bias = Some(Initializer::Zeros.init([FILTERS], device));
        let mut input = FILTERS;
        let stages = config
            .widths
            .iter()
            .map(|&width| Stage::new([std::mem::replace(&mut input, width), width], config, device))
            .collect();
        let net = Self {
            whitening,
            stages,
            classifier: LinearConfig::new(input, config.classes).with_bias(false).init(device),
            head_scale: config.head_scale,
            whitening_epsilon: config.whitening_epsilon,
        };
        initialize_parameters(&net);
        net
    }

    /// The moments of no patches, to be added for [`with_whitening`](Self::with_whitening).
    #[must_use]
    pub fn patch_moments() -> PatchMoments {
        PatchMoments::new(3, PATCH)
    }

    /// Sets the weights of the whitening convolution from the patches of training images,
    /// normalized as those that the network is trained on.
    ///
    /// # Panics
    /// As [`PatchMoments::whitening`], and for moments of other patches than those of
    /// [`patch_moments`](Self::patch_moments).
    #[must_use]
    pub fn with_whitening(mut self, moments: &PatchMoments) -> Self {
        let data =
            TensorData::new(moments.whitening(self.whitening_epsilon), [FILTERS, 3, PATCH, PATCH]);
        let old = &self.whitening.weight;
        let weight = Tensor::from_data(data, (&old.device(), old.base().dtype()));
        let (id, _, mapper) = old.clone().consume();
        let weight = weight.set_require_grad(false);
        self.whitening.weight = Param::from_mapped_value(id, weight, mapper);
        self
    }

    /// Classifies images.
    ///
    /// # Shapes
    /// - `rgb`: `[batch, 3, height, width]`, both sides at least [`WhitenedConfig::MIN_SIDE`]
    /// - returns: logits, `[batch, classes]`
    ///
    /// # Panics
    /// If the second axis of `rgb` is not 3, the images are too small, or their dtype is not that
    /// of the parameters.
    pub fn forward(&self, rgb: Tensor<4>) -> Tensor<2> {
        assert_shape!(rgb, [_, 3, _, _]);
        let maps = (0..self.segments()).fold(rgb, |maps, index| self.forward_segment(index, maps));
        self.forward_head(maps)
    }

    /// The number of segments: the whitening, then each stage.
    ///
    /// [`forward_segment`](Self::forward_segment) for each of them in order and then
    /// [`forward_head`](Self::forward_head) compute what [`forward`](Self::forward) does; a trainer
    /// that recomputes activations keeps only what is passed between them.
    pub fn segments(&self) -> usize {
        1 + self.stages.len()
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
        match index.checked_sub(1) {
            None => activate(self.whitening.forward(maps), Activation::Gelu),
            Some(stage) => self.stages[stage].forward(maps),
        }
    }

    /// Computes the head: the maximum over all positions and the scaled linear layer.
    ///
    /// # Shapes
    /// - `maps`: the last segment's result
    /// - returns: logits, `[batch, classes]`
    ///
    /// # Panics
    /// If `maps` has another number of channels than the last segment's result.
    pub fn forward_head(&self, maps: Tensor<4>) -> Tensor<2> {
        let [batch, channels, height, width] = maps.dims();
        let whole = MaxPool2dConfig::new([height, width]).with_strides([height, width]);
        let largest = MaxPool2d::new(whole).forward(maps).reshape([batch, channels]);
        timed_linear(&self.classifier, largest).mul_scalar(self.head_scale)
    }

    /// Multiply-adds of the forward pass of one image of this height and width.
    ///
    /// Counts convolutions and the linear layer only; normalizations and activations are left out,
    /// as is usual.
    pub fn multiply_adds(&self, image: [usize; 2]) -> u64 {
        let weights = |conv: &Conv2d| conv.weight.lazy_shape().num_elements();
        let mut size = image.map(|side| (side + 1).saturating_sub(PATCH));
        let mut sum = weights(&self.whitening) * size[0] * size[1];
        for stage in &self.stages {
            sum += weights(&stage.first) * size[0] * size[1];
            size = size.map(|side| side / 2);
            sum += weights(&stage.second) * size[0] * size[1];
        }
        (sum + self.classifier.weight.lazy_shape().num_elements()) as u64
    }
}

#[cfg(test)]
mod tests {
    use updraft_testing::{Numbers, assert_close, autodiff_devices, tolerance};

    use super::*;

    #[test]
    fn the_network_costs_what_its_layers_cost_by_hand() {
        let _alone = updraft_testing::alone();
        let net = WhitenedConfig::new(10).init(&Device::flex());
        let whitening = 12 * 24 * 31 * 31;
        let stages = 9 * (24 * 64 * 31 * 31 + 64 * 64 * 15 * 15)
            + 9 * (64 * 256 * 15 * 15 + 256 * 256 * 7 * 7)
            + 9 * (256 * 256 * 7 * 7 + 256 * 256 * 3 * 3);
        assert_eq!(net.multiply_adds([32, 32]), whitening + stages + 2560);
        let weights = 24 * 12 + 9 * (24 * 64 + 64 * 64 + 64 * 256 + 3 * 256 * 256) + 2560;
        // A bias, then γ, β and running statistics of each batch norm.
        let bias = net.whitening.bias.as_ref().expect("a bias").val();
        assert!(bias.to_data().iter::<f32>().all(|number| number == 0.0));
        assert_eq!(net.num_params(), weights + 24 + 4 * (2 * 64 + 4 * 256));
    }

    #[test]
    fn the_first_filters_of_a_stage_pass_their_channels_through() {
        for device in autodiff_devices() {
            let stage = Stage::new([3, 5], &WhitenedConfig::new(2), &device);
            let maps = Tensor::<4>::random([2, 3, 6, 5], Default::default(), &device);
            let passed = stage.first.forward(maps.clone()).narrow(1, 0, 3);
            assert_close(&passed, &maps, tolerance::F32);
            let whole = Tensor::<4>::random([2, 5, 6, 5], Default::default(), &device);
            assert_close(&stage.second.forward(whole.clone()), &whole, tolerance::F32);
            assert!(stage.first.weight.is_require_grad());
        }
    }

    #[test]
    fn whitening_and_scales_have_no_gradient_and_everything_else_has() {
        for device in autodiff_devices() {
            let net = WhitenedConfig::new(3).with_widths([4, 5, 6]).init(&device);
            let mut moments = WhitenedNet::patch_moments();
            let images = Tensor::<4>::random([4, 3, 12, 12], Default::default(), &device);
            moments.add(&images.clone().into_data().iter().collect::<Vec<f32>>(), [4, 3, 12, 12]);
            let before = net.whitening.weight.val().numbers();
            let net = net.with_whitening(&moments);
            assert_ne!(net.whitening.weight.val().numbers(), before);
            let logits = net.forward(images);
            let gradients = logits.slice([0..4, 0..1]).sum().backward();
            assert!(net.whitening.weight.val().grad(&gradients).is_none());
            assert!(
                net.whitening.bias.as_ref().is_some_and(|b| b.val().grad(&gradients).is_some())
            );
            assert!(net.classifier.weight.val().grad(&gradients).is_some());
            for stage in &net.stages {
                for norm in [&stage.first_norm, &stage.second_norm] {
                    assert!(norm.gamma.val().grad(&gradients).is_none());
                    assert!(norm.beta.val().grad(&gradients).is_some());
                }
                for conv in [&stage.first, &stage.second] {
                    assert!(conv.weight.val().grad(&gradients).is_some());
                }
            }
        }
    }

    #[test]
    fn every_value_out_of_range_is_named() {
        let good = WhitenedConfig::new(2);
        assert_eq!(good.validate(), Ok(()));
        for (config, name) in [
            (WhitenedConfig::new(1), "classes"),
            (good.clone().with_widths([1, 0, 1]), "widths[1]"),
            (good.clone().with_widths([1, 1, MAX_WIDTH + 1]), "widths[2]"),
            (good.clone().with_norm_momentum(0.0), "norm_momentum"),
            (good.clone().with_head_scale(f64::NAN), "head_scale"),
            (good.with_whitening_epsilon(0.0), "whitening_epsilon"),
        ] {
            let message = config.validate().expect_err(name).to_string();
            assert!(message.starts_with(&format!("`{name}` is ")), "{message}");
        }
    }
}
