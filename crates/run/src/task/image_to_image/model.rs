//! The keys of `model`, and the networks that convert images.

use burn::module::Module;
use burn::tensor::{Device, Tensor};
use serde::{Deserialize, Serialize};
use updraft_models::{
    Downsampling, UNet2d, UNet3d, UNetBlock, UNetConfig, UNetFlow, UNetNormalization, Upsampling,
};
use updraft_trainer::Streams;

use super::data::Shape;
use super::data_plan::DataPlan;
use super::network::{Fresh, Network};
use crate::config::{ConfigError, Key, Keys, Settings};

const KIND: Key<ModelKind> =
    Key::new("model.kind", "`unet`, an encoder and a decoder").default(r#""unet""#);
const FILTERS: Key<Vec<usize>> = Key::new(
    "model.filters",
    "filters of each level, the finest first; each further level halves every side",
)
.default("[16, 32, 64]");
const BLOCK: Key<UNetBlock> =
    Key::new("model.block", "`residual`, or `plain`: two convolutions").default(r#""residual""#);
const NORMALIZATION: Key<NormalizationKind> =
    Key::new("model.normalization", "`instance`, `batch` or `group`").default(r#""instance""#);
const GROUPS: Key<usize> = Key::new("model.groups", "group normalization only: groups of channels")
    .default("8")
    .check("at least 1", |groups| *groups > 0);
const DOWNSAMPLING: Key<Downsampling> =
    Key::new("model.downsampling", "`strided` convolutions, or `max-pool`").default(r#""strided""#);
const UPSAMPLING: Key<Upsampling> = Key::new(
    "model.upsampling",
    "`transposed` convolutions, or `linear` interpolation behind a 1-wide convolution",
)
.default(r#""transposed""#);
const UPSAMPLING_BIAS: Key<bool> =
    Key::new("model.upsampling_bias", "whether those convolutions have a bias").default("false");
const NEGATIVE_SLOPE: Key<f64> =
    Key::new("model.negative_slope", "slope of the activation below 0; 0 is ReLU")
        .default("0.01")
        .check("at least 0 and below 1", |slope| (0.0..1.0).contains(slope));
const DEEP_SUPERVISION: Key<usize> = Key::new(
    "model.deep_supervision",
    "levels below the finest whose outputs have a loss of their own in training",
)
.default("0");

/// The keys of `model`.
pub(super) const KEYS: Keys = &[
    &KIND,
    &FILTERS,
    &BLOCK,
    &NORMALIZATION,
    &GROUPS,
    &DOWNSAMPLING,
    &UPSAMPLING,
    &UPSAMPLING_BIAS,
    &NEGATIVE_SLOPE,
    &DEEP_SUPERVISION,
];

/// The values of `model.kind`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum ModelKind {
    Unet,
}

/// The values of `model.normalization`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum NormalizationKind {
    Instance,
    Batch,
    Group,
}

/// The network; its channels come from the data.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum ModelPlan {
    UNet(UNetConfig),
}

impl ModelPlan {
    /// Reads the keys of the chosen kind.
    pub(super) fn read(settings: &Settings, data: &DataPlan) -> Result<Self, ConfigError> {
        let plan = match settings.value(&KIND)? {
            ModelKind::Unet => {
                let filters: Vec<usize> = settings.value(&FILTERS)?;
                let normalization = match settings.value(&NORMALIZATION)? {
                    NormalizationKind::Instance => UNetNormalization::Instance,
                    NormalizationKind::Batch => UNetNormalization::Batch,
                    NormalizationKind::Group => UNetNormalization::Group(settings.value(&GROUPS)?),
                };
                let upsampling = settings.value(&UPSAMPLING)?;
                let config = UNetConfig::new(1, 1, &filters)
                    .with_block(settings.value(&BLOCK)?)
                    .with_normalization(normalization)
                    .with_downsampling(settings.value(&DOWNSAMPLING)?)
                    .with_upsampling(upsampling, settings.value(&UPSAMPLING_BIAS)?)
                    .with_negative_slope(settings.value(&NEGATIVE_SLOPE)?)
                    .with_deep_supervision(settings.value(&DEEP_SUPERVISION)?);
                config.validate().map_err(|error| {
                    let expected = format!("a network that can be built: {error}");
                    settings.refuse_given("model", &expected)
                })?;
                Self::UNet(config)
            }
        };
        let stride = plan.stride();
        if data.patch.iter().any(|side| !side.is_multiple_of(stride)) {
            let better: Vec<usize> =
                data.patch.iter().map(|side| side.next_multiple_of(stride)).collect();
            let expected = format!(
                "sides that are multiples of {stride}, which the network halves down to 1, such \
                 as {better:?}"
            );
            return Err(settings.refuse("data.patch", format!("{:?}", data.patch), expected));
        }
        Ok(plan)
    }

    /// What the sides of an input must be multiples of.
    pub(super) fn stride(&self) -> usize {
        match self {
            Self::UNet(config) => config.stride(),
        }
    }

    /// Whether coarser levels have a loss of their own in training.
    pub(super) const fn is_deep(&self) -> bool {
        match self {
            Self::UNet(config) => config.deep_supervision > 0,
        }
    }

    /// The network for data of this shape and so many axes: one arm a model.
    pub(super) fn network(&self, shape: &Shape, axes: usize) -> Box<dyn Network> {
        match self {
            Self::UNet(config) => {
                let mut config = config.clone();
                (config.in_channels, config.out_channels) = (shape.inputs, shape.outputs);
                if axes == 2 {
                    Box::new(Fresh::<4, _>(move |device: &Device| config.init_2d(device)))
                } else {
                    Box::new(Fresh::<5, _>(move |device: &Device| config.init_3d(device)))
                }
            }
        }
    }
}

/// A network that converts images, where `D` is 4, or volumes, where it is 5.
pub(super) trait ImageNetwork<const D: usize>:
    Module + std::fmt::Debug + Send + 'static
{
    /// The name of its kind in a configuration.
    const KIND: &'static str;

    /// What flows from segment to segment.
    type Flow: Streams + 'static;

    /// `[batch, other channels, …sides]` of `[batch, channels, …sides]`.
    fn convert(&self, images: Tensor<D>) -> Tensor<D>;

    /// The output, then those of coarser levels, at the same sides.
    fn convert_deep(&self, images: Tensor<D>) -> Vec<Tensor<D>>;

    /// Into how many segments it can be cut.
    fn segment_count(&self) -> usize;

    /// What flows into the first segment.
    fn enter(&self, images: Tensor<D>) -> Self::Flow;

    /// Runs one segment.
    fn run_segment(&self, index: usize, flow: Self::Flow) -> Self::Flow;

    /// The output of what the last segment gives.
    fn leave(&self, flow: Self::Flow) -> Tensor<D>;

    /// Multiply-adds of the forward pass of one sample of these sides.
    fn multiply_adds(&self, sides: &[usize]) -> u64;
}

macro_rules! image_network {
    ($network:ty, $rank:literal) => {
        impl ImageNetwork<$rank> for $network {
            const KIND: &'static str = "unet";

            type Flow = UNetFlow<$rank>;

            fn convert(&self, images: Tensor<$rank>) -> Tensor<$rank> {
                self.forward(images)
            }

            fn convert_deep(&self, images: Tensor<$rank>) -> Vec<Tensor<$rank>> {
                self.forward_deep(images)
            }

            fn segment_count(&self) -> usize {
                self.segments()
            }

            fn enter(&self, images: Tensor<$rank>) -> Self::Flow {
                Self::enter(self, images)
            }

            fn run_segment(&self, index: usize, flow: Self::Flow) -> Self::Flow {
                self.segment(index, flow)
            }

            fn leave(&self, flow: Self::Flow) -> Tensor<$rank> {
                Self::leave(self, flow)
            }

            fn multiply_adds(&self, sides: &[usize]) -> u64 {
                Self::multiply_adds::<$rank>(self, sides)
            }
        }
    };
}

image_network!(UNet2d, 4);
image_network!(UNet3d, 5);
