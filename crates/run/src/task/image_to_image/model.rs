//! The keys of `model`, and the networks that convert images.

use std::path::PathBuf;

use burn::tensor::Device;
use serde::{Deserialize, Serialize};
use updraft_kan::Penalty;
use updraft_kan::slices::MAX_DEGREE;
use updraft_models::{
    CoreLayer, DenseTransformerConfig, Downsampling, DualAutoencoderConfig, EncoderConfig,
    LatentAttention, Positions, UNetBlock, UNetConfig, UNetNormalization, Upsampling,
};

use super::limits::{refuse_dual, refuse_unet};
use super::network::{Initializer, Network};
use crate::config::{ConfigError, Key, Keys, Settings};
use crate::error::RunError;
use crate::task::image_pairs::data::Shape;
use crate::task::image_pairs::data_plan::{DataPlan, TargetKind};
use crate::task::needed_encoder::NeededEncoder;
use crate::task::penalty::{penalty_key, read_penalty};
use crate::task::pretrained::refuse_encoder;

const DECIDED_BY_CORE: &[&str] = &["model.kind", "model.core"];

const KIND: Key<ModelKind> =
    Key::new(
    "model.kind",
    "`unet`, an encoder and a decoder; `dual-autoencoder`, with splines and attention, images only; or `vision-transformer`, attention between patches",
)
.default(r#""unet""#);
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
    .check("at least 1", |groups| *groups > 0)
    .decided_by(&["model.kind", "model.normalization"]);
const DOWNSAMPLING: Key<Downsampling> =
    Key::new("model.downsampling", "`strided` convolutions, or `max-pool`").default(r#""strided""#);
const UPSAMPLING: Key<Upsampling> = Key::new(
    "model.upsampling",
    "`transposed` convolutions, or `linear` interpolation after a convolution of kernel size 1",
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
    "number of levels below the finest with their own output and loss in training",
)
.default("0");
const WIDTHS: Key<[usize; 3]> = Key::new(
    "model.widths",
    "dual-autoencoder only: channels at a half, a quarter and an eighth of the sides",
)
.default("[384, 128, 64]")
.check("three whole numbers above 0, such as [64, 32, 16]", |widths| !widths.contains(&0));
const LATENT: Key<usize> =
    Key::new("model.latent", "dual-autoencoder only: channels of the latent").default("16");
const CORE: Key<CoreLayer> = Key::new(
    "model.core",
    "dual-autoencoder only: `kan`, KAN convolutions; `conv`, convolutions with as many parameters; `none`",
)
.default(r#""kan""#);
const ATTENTION: Key<LatentAttention> =
    Key::new("model.attention", "dual-autoencoder only: `bam`, `cbam`, `eca` or `none`")
        .default(r#""bam""#);
const INTERVALS: Key<usize> = Key::new(
    "model.intervals",
    "dual-autoencoder only: intervals of each spline; `conv` has as many parameters",
)
.default("3")
.check("1 to 4096", |intervals| (1..=4096).contains(intervals))
.decided_by(DECIDED_BY_CORE);
const DEGREE: Key<usize> = Key::new(
    "model.degree",
    "dual-autoencoder only: degree of the splines; `conv` has as many parameters",
)
.default("2")
.check("0 to 15", |degree| *degree <= MAX_DEGREE)
.decided_by(DECIDED_BY_CORE);
const BOUNDED_INPUTS: Key<bool> = Key::new(
    "model.bounded_inputs",
    "dual-autoencoder only: keep the inputs of splines inside their grid",
)
.default("true")
.decided_by(DECIDED_BY_CORE);
const OUTPUT_RANGE: Key<[f32; 2]> = Key::new(
    "model.output_range",
    "dual-autoencoder only: smallest and largest output, by a sigmoid",
);
const DECODER_SKIPS: Key<bool> = Key::new(
    "model.decoder_skips",
    "dual-autoencoder only: add the encoder's feature maps in the decoder",
)
.default("true");
const RESIDUAL: Key<bool> =
    Key::new("model.residual", "dual-autoencoder only: add the input of core layers")
        .default("false");
const CONV_BIAS: Key<bool> = Key::new(
    "model.conv_bias",
    "dual-autoencoder only: a bias before batch norms, which they cancel, as the original has it",
)
.default("false");
const DROPOUT: Key<f64> = Key::new(
    "model.dropout",
    "dual-autoencoder only: probability of core inputs and of the latent",
)
.default("0.0");
const PATCH: Key<Vec<usize>> = Key::new(
    "model.patch",
    "vision-transformer only: the sides of a patch that is one token, as many as `data.patch` has",
)
.depends("8 × 8, or 4 × 8 × 8 for volumes");
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
    "vision-transformer only: a run of `masked-images` with crops of these sides, or one of its checkpoints, with whose encoder training begins",
)
.check("a path", |path| !path.as_os_str().is_empty());
const PENALTY: Key<Penalty> = penalty_key(
    "dual-autoencoder only: the penalty of its splines, added to the loss and reported as `loss-penalty`",
)
.decided_by(DECIDED_BY_CORE);

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
    &WIDTHS,
    &LATENT,
    &CORE,
    &ATTENTION,
    &INTERVALS,
    &DEGREE,
    &BOUNDED_INPUTS,
    &OUTPUT_RANGE,
    &DECODER_SKIPS,
    &RESIDUAL,
    &CONV_BIAS,
    &DROPOUT,
    &PENALTY,
    &PATCH,
    &EMBEDDING,
    &LAYERS,
    &HEADS,
    &POSITIONS,
    &ENCODER,
];

/// The values of `model.kind`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum ModelKind {
    Unet,
    DualAutoencoder,
    VisionTransformer,
}

/// The values of `model.normalization`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum NormalizationKind {
    Instance,
    Batch,
    Group,
}

/// The network; its channels depend on the data.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum ModelPlan {
    UNet(UNetConfig),
    Dual {
        config: DualAutoencoderConfig,
        penalty: Option<Penalty>,
    },
    /// With the run or the checkpoint whose encoder it begins with.
    Transformer {
        config: DenseTransformerConfig,
        encoder: Option<PathBuf>,
    },
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
                config.validate().map_err(|error| refuse_unet(settings, &error))?;
                Self::UNet(config)
            }
            ModelKind::DualAutoencoder => Self::read_dual(settings, data)?,
            // Its own check of `data.patch` names the axis.
            ModelKind::VisionTransformer => return Self::read_transformer(settings, data),
        };
        let stride = plan.stride();
        if data.patch.iter().any(|side| !side.is_multiple_of(stride)) {
            let better: Vec<usize> =
                data.patch.iter().map(|side| side.next_multiple_of(stride)).collect();
            let halved = match &plan {
                Self::UNet(config) => {
                    format!("as `model.filters` has {} levels", config.filters.len())
                }
                _ => "as `model.kind` is `dual-autoencoder`".to_owned(),
            };
            let expected =
                format!("sides that are multiples of {stride}, {halved}, such as {better:?}");
            return Err(settings.refuse("data.patch", format!("{:?}", data.patch), expected));
        }
        Ok(plan)
    }

    fn read_transformer(settings: &Settings, data: &DataPlan) -> Result<Self, ConfigError> {
        let own_patch = || if data.patch.len() == 2 { vec![8, 8] } else { vec![4, 8, 8] };
        let patch = settings.value_or(&PATCH, own_patch)?;
        let (embedding, layers) = (settings.value(&EMBEDDING)?, settings.value(&LAYERS)?);
        let encoder = EncoderConfig::new(1, &data.patch, &patch)
            .with_blocks(embedding, layers, settings.value(&HEADS)?)
            .with_positions(settings.value(&POSITIONS)?);
        encoder.validate().map_err(|error| refuse_encoder(settings, &encoder, &error))?;
        let config = DenseTransformerConfig::new(1, encoder);
        Ok(Self::Transformer { config, encoder: settings.option(&ENCODER)? })
    }

    /// The encoder with which a new network begins, if it is that of another run, for images with
    /// this many channels, if the data is open.
    pub(super) fn encoder(&self, channels: Option<usize>) -> Option<NeededEncoder<'_>> {
        match self {
            Self::Transformer { config, encoder } => Some(NeededEncoder {
                path: encoder.as_deref()?,
                config: &config.encoder,
                sides_key: "data.patch",
                channels,
            }),
            Self::UNet(_) | Self::Dual { .. } => None,
        }
    }

    /// Whether the network takes windows of the training's sides only.
    pub(super) const fn has_fixed_window(&self) -> bool {
        matches!(self, Self::Transformer { .. })
    }

    fn read_dual(settings: &Settings, data: &DataPlan) -> Result<Self, ConfigError> {
        if data.target == TargetKind::Labels || data.patch.len() != 2 {
            let expected = "`unet` for masks and for volumes: an autoencoder returns images";
            return Err(settings.refuse("model.kind", "\"dual-autoencoder\"", expected));
        }
        let core = settings.value(&CORE)?;
        let has_splines = core == CoreLayer::Kan;
        let mut config = DualAutoencoderConfig::new()
            .with_widths(settings.value(&WIDTHS)?)
            .with_latent(settings.value(&LATENT)?)
            .with_core(core)
            .with_attention(settings.value(&ATTENTION)?);
        // Convolutions in place of splines have as many parameters as these.
        if core != CoreLayer::None {
            config = config
                .with_intervals(settings.value(&INTERVALS)?)
                .with_degree(settings.value(&DEGREE)?);
        }
        if has_splines {
            config = config.with_bounded_inputs(settings.value(&BOUNDED_INPUTS)?);
        }
        config = config
            .with_output_range(settings.option(&OUTPUT_RANGE)?)
            .with_decoder_skips(settings.value(&DECODER_SKIPS)?)
            .with_residual(settings.value(&RESIDUAL)?)
            .with_dropout(settings.value(&DROPOUT)?);
        config.conv_bias = settings.value(&CONV_BIAS)?;
        config.validate().map_err(|error| refuse_dual(settings, &error))?;
        let coefficients = config.intervals + config.degree;
        let penalty = match has_splines {
            true => read_penalty(settings, &PENALTY, coefficients)?,
            false => None,
        };
        Ok(Self::Dual { config, penalty })
    }

    /// The penalty that is added to the loss.
    pub(super) const fn penalty(&self) -> Option<Penalty> {
        match self {
            Self::UNet(_) | Self::Transformer { .. } => None,
            Self::Dual { penalty, .. } => *penalty,
        }
    }

    /// Returns an error for data with targets that the network cannot predict.
    pub(super) fn check(&self, shape: &Shape) -> Result<(), RunError> {
        if matches!(self, Self::Dual { .. }) && shape.inputs != shape.outputs {
            let reason = format!(
                "the autoencoder returns as many channels as it sees, and the data has {} and {}; \
                 set `model.kind = \"unet\"`",
                shape.inputs, shape.outputs
            );
            return Err(RunError::Unusable { reason });
        }
        Ok(())
    }

    /// The number that the sides of an input must be multiples of.
    pub(super) fn stride(&self) -> usize {
        match self {
            Self::UNet(config) => config.stride(),
            Self::Dual { .. } => 8,
            // Windows have the sides of the training.
            Self::Transformer { .. } => 1,
        }
    }

    /// Whether coarser levels have their own loss in training.
    pub(super) const fn is_deep(&self) -> bool {
        match self {
            Self::UNet(config) => config.deep_supervision > 0,
            Self::Dual { .. } | Self::Transformer { .. } => false,
        }
    }

    /// The network for data of this shape and rank: one arm per model.
    pub(super) fn network(&self, shape: &Shape, axes: usize) -> Box<dyn Network> {
        match self {
            Self::UNet(config) => {
                let mut config = config.clone();
                (config.in_channels, config.out_channels) = (shape.inputs, shape.outputs);
                if axes == 2 {
                    Box::new(Initializer::<4, _>(move |device: &Device| config.init_2d(device)))
                } else {
                    Box::new(Initializer::<5, _>(move |device: &Device| config.init_3d(device)))
                }
            }
            Self::Dual { config, .. } => {
                let config = config.clone().with_channels(shape.inputs);
                Box::new(Initializer::<4, _>(move |device: &Device| config.init(device)))
            }
            Self::Transformer { config, .. } => {
                let mut config = config.clone();
                (config.encoder.channels, config.out_channels) = (shape.inputs, shape.outputs);
                if axes == 2 {
                    Box::new(Initializer::<4, _>(move |device: &Device| config.init(device)))
                } else {
                    Box::new(Initializer::<5, _>(move |device: &Device| config.init(device)))
                }
            }
        }
    }
}
