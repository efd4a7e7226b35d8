//! The keys of `model`: the network that classifies images.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use updraft_integration::{
    DualPathwayConfig, DualPathwayNet, Normalization, SinglePathwayConfig, SinglePathwayNet,
    WeightPenalty,
};
use updraft_models::{
    EfficientNet, EfficientNetConfig, EncoderConfig, MobileNet, MobileNetConfig, Positions,
    SeparableConfig, VisionTransformer, VisionTransformerConfig, WeightBits, WhitenedConfig,
    WhitenedNet,
};

use super::classifier::{Classifier, no_place_for_outliers};
use super::data_plan::DataPlan;
use super::mobile_model;
use super::model_error::{key_of_pathways, key_of_separable, key_of_transformer, key_of_whitened};
use super::network::{Network, Uninitialized};
use super::pathways;
use super::prune;
use crate::config::{ABOVE_0_IN_F32, ConfigError, Edit, Key, Keys, Settings, is_above_0_in_f32};
use crate::error::RunError;
use crate::task::needed_encoder::NeededEncoder;

const KIND: Key<ModelKind> =
    Key::new(
    "model.kind",
    "or `single-pathway`: the same blocks without the brightness, with widths chosen for equal multiply-adds; or `separable`: depthwise-separable convolutions; or `whitened`: three stages of convolutions behind one that whitens patches of training images; or `vision-transformer`: attention between patches; or `mobile-net`: MobileNetV2; or `efficient-net`: EfficientNet, B0 by default",
)
        .default(r#""dual-pathway""#);
const CHANNELS: Key<usize> = Key::new(
    "model.channels",
    "width of the first stage, or of the stem; of `single-pathway` that of the dual-pathway network with as many multiply-adds",
)
    .default("16")
    .check("1 to 4096", |channels| (1..=4096).contains(channels));
const STEM_STRIDE: Key<usize> =
    Key::new("model.stem_stride", "2 halves the image before the first stage")
        .default("1")
        .check("1 or 2", |stride| [1, 2].contains(stride));
const DROPOUT: Key<f64> = Key::new("model.dropout", "before each layer of the classifier")
    .default("0.0")
    .edit(Edit::Reported)
    .check("at least 0 and below 1", |share| (0.0..1.0).contains(share));
const WIDTHS: Key<[usize; 3]> = Key::new("model.widths", "whitened only: width of each stage")
    .default("[64, 256, 256]")
    .check("three widths of 1 to 8192", |widths| {
        widths.iter().all(|width| (1..=8192).contains(width))
    });
const NORM_MOMENTUM: Key<f64> = Key::new(
    "model.norm_momentum",
    "whitened only: weight of each batch in the running statistics of batch norms",
)
.default("0.4")
.edit(Edit::Reported)
.check("above 0 and at most 1", |momentum| *momentum > 0.0 && *momentum <= 1.0);
const HEAD_SCALE: Key<f64> =
    Key::new("model.head_scale", "whitened only: what the logits are multiplied by")
        .default("0.1111111111111111")
        .check(ABOVE_0_IN_F32, is_above_0_in_f32);
const WHITENING_EPSILON: Key<f64> = Key::new(
    "model.whitening_epsilon",
    "whitened only: added to the eigenvalues of the patches, so that rare directions are amplified less",
)
.default("0.0005")
.check(ABOVE_0_IN_F32, is_above_0_in_f32);
const PATCH: Key<[usize; 2]> = Key::new(
    "model.patch",
    "vision-transformer only: height and width of a patch that is one token",
)
.default("[4, 4]");
const EMBEDDING: Key<usize> =
    Key::new("model.embedding", "vision-transformer only: features of a token").default("128");
const LAYERS: Key<usize> =
    Key::new("model.layers", "vision-transformer only: the number of blocks").default("4");
const HEADS: Key<usize> =
    Key::new("model.heads", "vision-transformer only: heads of each attention").default("4");
const POSITIONS: Key<Positions> = Key::new(
    "model.positions",
    "vision-transformer only: `sine-cosine`, sines and cosines of the coordinates, or `learned` parameters",
)
.default(r#""sine-cosine""#);
const ENCODER: Key<PathBuf> = Key::new(
    "model.encoder",
    "vision-transformer only: a run of `masked-images` with colored images of this size, or one of its checkpoints, with whose encoder training begins",
)
.check("a path", |path| !path.as_os_str().is_empty());

/// The keys of `model`.
pub(super) const KEYS: Keys = &[
    &KIND,
    &pathways::DEPTH,
    &CHANNELS,
    &STEM_STRIDE,
    &DROPOUT,
    &pathways::BRIGHTNESS,
    &pathways::POINTS,
    &pathways::GATE,
    &pathways::PENALTY,
    &WIDTHS,
    &NORM_MOMENTUM,
    &HEAD_SCALE,
    &WHITENING_EPSILON,
    &PATCH,
    &EMBEDDING,
    &LAYERS,
    &HEADS,
    &POSITIONS,
    &ENCODER,
    &mobile_model::WIDTH_FACTOR,
    &mobile_model::DEPTH_FACTOR,
    &mobile_model::ACTIVATION,
    &mobile_model::HIDDEN,
    &mobile_model::DROP_PATH,
];

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum ModelKind {
    DualPathway,
    SinglePathway,
    Separable,
    Whitened,
    VisionTransformer,
    MobileNet,
    EfficientNet,
}

/// The network; its number of classes depends on the data.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum ModelPlan {
    /// With the penalty of the weights of its integrations.
    DualPathway(DualPathwayConfig, Option<WeightPenalty>),
    SinglePathway(SinglePathwayConfig),
    Separable(SeparableConfig),
    Whitened(WhitenedConfig),
    /// With the run or the checkpoint whose encoder it begins with.
    VisionTransformer(VisionTransformerConfig, Option<PathBuf>),
    MobileNet(MobileNetConfig),
    EfficientNet(EfficientNetConfig),
}

impl ModelPlan {
    /// The bits of quantization-aware training.
    pub(super) fn quantization(&self) -> Option<WeightBits> {
        match self {
            Self::Separable(config) => config.quantization,
            Self::MobileNet(config) => config.quantization,
            Self::EfficientNet(config) => config.quantization,
            _ => None,
        }
    }

    /// Reads the keys of the chosen kind; `quantization` is that of training.
    pub(super) fn read(
        settings: &Settings,
        data: &DataPlan,
        quantization: Option<WeightBits>,
    ) -> Result<Self, ConfigError> {
        // Two classes as a placeholder: the number depends on the data.
        const CLASSES: usize = 2;
        let kind = settings.value(&KIND)?;
        let refuse = |key, error: &dyn std::fmt::Display| {
            settings.refuse_given(key, &format!("one of a network that can be built: {error}"))
        };
        let read_dual = || -> Result<_, ConfigError> {
            Ok(pathways::dual_pathway(settings, CLASSES, settings.value(&CHANNELS)?)?
                .with_stem_stride(settings.value(&STEM_STRIDE)?)
                .with_dropout(settings.value(&DROPOUT)?))
        };
        let plan = match kind {
            ModelKind::DualPathway => Self::DualPathway(
                read_dual()?
                    .with_brightness(settings.value(&pathways::BRIGHTNESS)?)
                    .with_normalization(Normalization { mean: data.mean, std: data.std }),
                settings.option(&pathways::PENALTY)?,
            ),
            ModelKind::SinglePathway => {
                let (dual, (height, width)) = (read_dual()?, data.size());
                dual.validate().map_err(|error| refuse(key_of_pathways(&error), &error))?;
                // The number of classes changes the cost of the classifier only, by far less than
                // 1 %.
                Self::SinglePathway(SinglePathwayConfig::twin(&dual, [height, width]))
            }
            ModelKind::Separable => Self::Separable(
                SeparableConfig::new(CLASSES, settings.value(&CHANNELS)?)
                    .with_stem_stride(settings.value(&STEM_STRIDE)?)
                    .with_dropout(settings.value(&DROPOUT)?)
                    .with_quantization(quantization)
                    .with_prune_ratio(settings.value(&prune::RATIO)?),
            ),
            ModelKind::MobileNet => {
                let config = mobile_model::mobile_net(settings, CLASSES)?
                    .with_stem_stride(settings.value(&STEM_STRIDE)?)
                    .with_dropout(settings.value(&DROPOUT)?);
                let ratio = settings.value(&prune::RATIO)?;
                Self::MobileNet(config.with_quantization(quantization).with_prune_ratio(ratio))
            }
            ModelKind::EfficientNet => {
                let config = mobile_model::efficient_net(settings, CLASSES)?
                    .with_stem_stride(settings.value(&STEM_STRIDE)?)
                    .with_dropout(settings.value(&DROPOUT)?);
                let ratio = settings.value(&prune::RATIO)?;
                Self::EfficientNet(config.with_quantization(quantization).with_prune_ratio(ratio))
            }
            ModelKind::Whitened => Self::Whitened(
                WhitenedConfig::new(CLASSES)
                    .with_widths(settings.value(&WIDTHS)?)
                    .with_norm_momentum(settings.value(&NORM_MOMENTUM)?)
                    .with_head_scale(settings.value(&HEAD_SCALE)?)
                    .with_whitening_epsilon(settings.value(&WHITENING_EPSILON)?),
            ),
            ModelKind::VisionTransformer => {
                let (height, width) = data.size();
                let patch = settings.value(&PATCH)?;
                let blocks = (settings.value(&EMBEDDING)?, settings.value(&LAYERS)?);
                let encoder = EncoderConfig::new(3, &[height, width], &patch)
                    .with_blocks(blocks.0, blocks.1, settings.value(&HEADS)?)
                    .with_positions(settings.value(&POSITIONS)?);
                let config = VisionTransformerConfig::new(CLASSES, encoder);
                Self::VisionTransformer(config, settings.option(&ENCODER)?)
            }
        };
        let is_quantized =
            matches!(plan, Self::Separable(_) | Self::MobileNet(_) | Self::EfficientNet(_));
        if quantization.is_some() && !is_quantized {
            let expected = "left out with this `model.kind`; `separable`, `mobile-net` and \
                            `efficient-net` are trained with it";
            return Err(settings.refuse_given("train.quantization", expected));
        }
        match &plan {
            Self::DualPathway(config, _) => {
                config.validate().map_err(|error| refuse(key_of_pathways(&error), &error))?;
            }
            Self::SinglePathway(config) => {
                config.validate().map_err(|error| refuse(key_of_pathways(&error), &error))?;
            }
            Self::Separable(config) => {
                config.validate().map_err(|error| refuse(key_of_separable(&error), &error))?;
            }
            Self::MobileNet(config) => {
                config.validate().map_err(|error| refuse(mobile_model::key_of(&error), &error))?;
            }
            Self::EfficientNet(config) => {
                config.validate().map_err(|error| refuse(mobile_model::key_of(&error), &error))?;
            }
            Self::VisionTransformer(config, _) => {
                config.validate().map_err(|error| refuse(key_of_transformer(&error), &error))?;
            }
            Self::Whitened(config) => {
                config.validate().map_err(|error| refuse(key_of_whitened(&error), &error))?;
                let (height, width) = data.size();
                for (key, side) in [("data.height", height), ("data.width", width)] {
                    let least = WhitenedConfig::MIN_SIDE;
                    if side < least {
                        let expected = format!("at least {least} for `model.kind = \"whitened\"`");
                        return Err(settings.refuse(key, side, expected));
                    }
                }
            }
        }
        Ok(plan)
    }

    /// Whether outlier channels can be added to the network.
    pub(super) fn check_outliers(&self) -> Result<(), RunError> {
        match self {
            Self::DualPathway(..) => Err(no_place_for_outliers(DualPathwayNet::KIND)),
            Self::SinglePathway(_) => Err(no_place_for_outliers(SinglePathwayNet::KIND)),
            Self::Whitened(_) => Err(no_place_for_outliers(WhitenedNet::KIND)),
            Self::VisionTransformer(..) => Err(no_place_for_outliers(VisionTransformer::KIND)),
            Self::MobileNet(_) => Err(no_place_for_outliers(MobileNet::KIND)),
            Self::EfficientNet(_) => Err(no_place_for_outliers(EfficientNet::KIND)),
            Self::Separable(config) => match config.quantization {
                None => Ok(()),
                Some(_) => Err(RunError::model(
                    "outlier channels do not fit the steps that were learnt with \
                     `train.quantization`; leave out --outliers",
                )),
            },
        }
    }

    /// The network for a number of classes: one arm per model.
    pub(super) fn network(&self, classes: usize) -> Box<dyn Network> {
        match self {
            Self::DualPathway(config, _) => {
                let mut config = config.clone();
                config.classes = classes;
                Box::new(Uninitialized::new(move |device| config.init(device)))
            }
            Self::SinglePathway(config) => {
                let mut config = config.clone();
                config.classes = classes;
                Box::new(Uninitialized::new(move |device| config.init(device)))
            }
            Self::Separable(config) => {
                let mut config = config.clone();
                config.classes = classes;
                let source = config.clone().with_quantization(None);
                Box::new(Uninitialized::prunable(
                    move |device| config.init(device),
                    move |device, ratio| source.clone().with_prune_ratio(ratio).init(device),
                ))
            }
            Self::MobileNet(config) => {
                let mut config = config.clone();
                config.classes = classes;
                let source = config.clone().with_quantization(None);
                Box::new(Uninitialized::prunable(
                    move |device| config.init(device),
                    move |device, ratio| source.clone().with_prune_ratio(ratio).init(device),
                ))
            }
            Self::EfficientNet(config) => {
                let mut config = config.clone();
                config.classes = classes;
                let source = config.clone().with_quantization(None);
                Box::new(Uninitialized::prunable(
                    move |device| config.init(device),
                    move |device, ratio| source.clone().with_prune_ratio(ratio).init(device),
                ))
            }
            Self::Whitened(config) => {
                let mut config = config.clone();
                config.classes = classes;
                Box::new(Uninitialized::new(move |device| config.init(device)))
            }
            Self::VisionTransformer(config, _) => {
                let mut config = config.clone();
                config.classes = classes;
                Box::new(Uninitialized::new(move |device| config.init(device)))
            }
        }
    }

    /// The encoder with which a new network begins, if it is that of another run.
    pub(super) fn encoder(&self) -> Option<NeededEncoder<'_>> {
        match self {
            Self::VisionTransformer(VisionTransformerConfig { encoder: config, .. }, encoder) => {
                Some(NeededEncoder {
                    path: encoder.as_deref()?,
                    config,
                    sides_key: "[data.height, data.width]",
                    channels: Some(config.channels),
                })
            }
            _ => None,
        }
    }

    /// The penalty that is added to the loss.
    pub(super) const fn penalty(&self) -> Option<WeightPenalty> {
        match self {
            Self::DualPathway(_, penalty) => *penalty,
            _ => None,
        }
    }

    /// Whether channels can be left out of it.
    pub(super) const fn is_prunable(&self) -> bool {
        matches!(self, Self::Separable(_) | Self::MobileNet(_) | Self::EfficientNet(_))
    }

    /// Whether it has batch norms.
    pub(super) const fn has_batch_norms(&self) -> bool {
        !matches!(self, Self::VisionTransformer(..))
    }
}
