//! The keys of `model`: a masked autoencoder.

use serde::{Deserialize, Serialize};
use updraft_models::{
    DecoderConfig, DecoderKind, EncoderConfig, MaskedAutoencoderConfig, Positions,
    TransformerConfigError,
};

use super::super::pretrained::refuse_encoder;
use crate::config::{ConfigError, Key, Keys, Settings};
use crate::task::image_pairs::data_plan::DataPlan;

const PATCH: Key<Vec<usize>> =
    Key::new("model.patch", "the sides of a patch that is one token, as many as `data.patch` has")
        .depends("8 × 8, or 4 × 8 × 8 for volumes");
const MASK_RATIO: Key<f64> =
    Key::new("model.mask_ratio", "share of the tokens that are masked and predicted")
        .default("0.75");
const EMBEDDING: Key<usize> =
    Key::new("model.embedding", "features of a token in the encoder").default("128");
const LAYERS: Key<usize> = Key::new("model.layers", "blocks of the encoder").default("4");
const HEADS: Key<usize> =
    Key::new("model.heads", "heads of each attention of the encoder").default("4");
const POSITIONS: Key<Positions> = Key::new(
    "model.positions",
    "`sine-cosine`, sines and cosines of the coordinates, or `learned` parameters",
)
.default(r#""sine-cosine""#);
const DECODER: Key<DecoderTable> = Key::new(
    "model.decoder",
    "or `cross-attention`, where masked tokens attend to visible ones only, instead of all to all",
)
.default(r#"{ kind = "self-attention" }"#)
.with(&[
    ("embedding", "64", "features of a token in the decoder"),
    ("layers", "2", "blocks of the decoder"),
    ("heads", "4", "heads of each of its attentions"),
]);
const TARGET: Key<PatchTarget> = Key::new(
    "model.target",
    "what is predicted: `pixels`, or `normalized-pixels`, each token by its own mean and standard deviation",
)
.default(r#""pixels""#);

/// The keys of `model`.
pub(super) const KEYS: Keys =
    &[&PATCH, &MASK_RATIO, &EMBEDDING, &LAYERS, &HEADS, &POSITIONS, &DECODER, &TARGET];

/// The value of `model.decoder`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct DecoderTable {
    kind: DecoderKind,
    #[serde(default = "default_embedding")]
    embedding: usize,
    #[serde(default = "default_layers")]
    layers: usize,
    #[serde(default = "default_heads")]
    heads: usize,
}

const fn default_embedding() -> usize {
    64
}

const fn default_layers() -> usize {
    2
}

const fn default_heads() -> usize {
    4
}

/// What is predicted of a masked token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum PatchTarget {
    /// Its values, after the normalization of the image.
    Pixels,
    /// The same by its own mean and standard deviation.
    NormalizedPixels,
}

/// The network; its channels depend on the data.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ModelPlan {
    config: MaskedAutoencoderConfig,
    pub(super) target: PatchTarget,
}

impl ModelPlan {
    pub(super) fn read(settings: &Settings, data: &DataPlan) -> Result<Self, ConfigError> {
        let own_patch = || if data.patch.len() == 2 { vec![8, 8] } else { vec![4, 8, 8] };
        let patch = settings.value_or(&PATCH, own_patch)?;
        let blocks =
            [settings.value(&EMBEDDING)?, settings.value(&LAYERS)?, settings.value(&HEADS)?];
        let encoder = EncoderConfig::new(1, &data.patch, &patch)
            .with_blocks(blocks[0], blocks[1], blocks[2])
            .with_positions(settings.value(&POSITIONS)?);
        let DecoderTable { kind, embedding, layers, heads } = settings.value(&DECODER)?;
        let config = MaskedAutoencoderConfig::new(encoder)
            .with_mask_ratio(settings.value(&MASK_RATIO)?)
            .with_decoder(DecoderConfig::new(kind).with_blocks(embedding, layers, heads));
        config.validate().map_err(|error| refuse(settings, &config, &error))?;
        Ok(Self { config, target: settings.value(&TARGET)? })
    }

    /// The network for images with this many channels.
    pub(super) fn network(&self, channels: usize) -> MaskedAutoencoderConfig {
        let mut config = self.config.clone();
        config.encoder.channels = channels;
        config
    }
}

/// The error of a network that cannot be built, about the key that gave the value.
fn refuse(
    settings: &Settings,
    config: &MaskedAutoencoderConfig,
    error: &TransformerConfigError,
) -> ConfigError {
    match error {
        TransformerConfigError::MaskRatio { ratio, visible, patches } => {
            let expected = format!(
                "above 0 and below 1, with at least one token visible and one masked; it leaves \
                 {visible} of {patches} visible"
            );
            settings.refuse("model.mask_ratio", ratio, expected)
        }
        other => refuse_encoder(settings, &config.encoder, other),
    }
}
