//! The configurations of transformers, and their checks.

use burn::tensor::Device;
use serde::{Deserialize, Serialize};

use super::error::TransformerConfigError;
use super::masked_autoencoder::MaskedAutoencoder;

/// The largest embedding: a block then has 12·2²⁸ weights.
const MAX_EMBEDDING: usize = 16_384;

/// The largest number of blocks.
const MAX_LAYERS: usize = 256;

/// The largest number of patches: the weights of one head are then 2⁴⁰ numbers.
const MAX_PATCHES: usize = 1 << 20;

/// The configuration of a [`PatchEncoder`](crate::PatchEncoder), for images or volumes.
///
/// # Example
/// ```
/// use updraft_models::EncoderConfig;
///
/// let config = EncoderConfig::new(1, &[64, 64], &[8, 8]).with_blocks(128, 4, 4);
/// assert_eq!(config.validate(), Ok(()));
/// assert_eq!(config.patches(), 64);
/// assert!(EncoderConfig::new(1, &[60, 64], &[8, 8]).validate().is_err());
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct EncoderConfig {
    /// Channels of an image.
    pub channels: usize,
    /// Height and width, or depth, height and width.
    pub sides: Vec<usize>,
    /// The sides of a patch, which is a token.
    pub patch: Vec<usize>,
    /// Features of a token.
    pub embedding: usize,
    /// The number of blocks.
    pub layers: usize,
    /// Heads of each attention.
    pub heads: usize,
    /// The embeddings of positions.
    pub positions: Positions,
}

/// The embeddings of positions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Positions {
    /// Sines and cosines of the coordinates, which are not trained.
    SineCosine,
    /// Parameters, from a normal distribution with standard deviation 0.02 without its tails.
    Learned,
}

impl EncoderConfig {
    /// Four blocks of 128 features with four heads, and sines and cosines of the coordinates.
    #[must_use]
    pub fn new(channels: usize, sides: &[usize], patch: &[usize]) -> Self {
        Self {
            channels,
            sides: sides.to_vec(),
            patch: patch.to_vec(),
            embedding: 128,
            layers: 4,
            heads: 4,
            positions: Positions::SineCosine,
        }
    }

    /// Sets [`embedding`](Self::embedding), [`layers`](Self::layers) and [`heads`](Self::heads).
    #[must_use]
    pub const fn with_blocks(mut self, embedding: usize, layers: usize, heads: usize) -> Self {
        (self.embedding, self.layers, self.heads) = (embedding, layers, heads);
        self
    }

    /// Sets [`positions`](Self::positions).
    #[must_use]
    pub const fn with_positions(mut self, positions: Positions) -> Self {
        self.positions = positions;
        self
    }

    /// The number of patches along each axis; only for valid configurations.
    #[must_use]
    pub fn grid(&self) -> Vec<usize> {
        self.sides.iter().zip(&self.patch).map(|(side, patch)| side / patch).collect()
    }

    /// The number of patches of an image; only for valid configurations.
    #[must_use]
    pub fn patches(&self) -> usize {
        self.grid().iter().product()
    }

    /// The numbers of a patch, over all channels.
    #[must_use]
    pub fn patch_numbers(&self) -> usize {
        self.channels * self.patch.iter().product::<usize>()
    }

    /// Checks every value.
    ///
    /// # Errors
    /// The first value that is out of its range.
    pub fn validate(&self) -> Result<(), TransformerConfigError> {
        use TransformerConfigError as Error;

        let axes = self.sides.len();
        if !matches!(axes, 2 | 3) || self.patch.len() != axes {
            return Err(Error::Axes { sides: axes, patch: self.patch.len() });
        }
        number("channels", self.channels, 1, 1 << 16)?;
        let names = ["depth", "height", "width"];
        for (axis, (&side, &patch)) in self.sides.iter().zip(&self.patch).enumerate() {
            number("patch", patch, 1, 4096)?;
            if side == 0 || side % patch != 0 {
                return Err(Error::Tiling { axis: names[3 - axes + axis], side, patch });
            }
        }
        let patches = self.grid().into_iter().fold(1_usize, usize::saturating_mul);
        number("patches", patches, 1, MAX_PATCHES)?;
        blocks(["embedding", "layers", "heads"], [self.embedding, self.layers, self.heads], axes)
    }
}

/// The configuration of a decoder, which predicts masked patches.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct DecoderConfig {
    /// How masked tokens see visible ones.
    pub kind: DecoderKind,
    /// Features of a token.
    pub embedding: usize,
    /// The number of blocks.
    pub layers: usize,
    /// Heads of each attention.
    pub heads: usize,
}

/// How masked tokens see visible ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum DecoderKind {
    /// Visible and masked tokens attend to each other (MAE).
    SelfAttention,
    /// Masked tokens attend to visible ones only (`CrossMAE`).
    CrossAttention,
}

impl DecoderConfig {
    /// Two blocks of 64 features with four heads.
    #[must_use]
    pub const fn new(kind: DecoderKind) -> Self {
        Self { kind, embedding: 64, layers: 2, heads: 4 }
    }

    /// Sets [`embedding`](Self::embedding), [`layers`](Self::layers) and [`heads`](Self::heads).
    #[must_use]
    pub const fn with_blocks(mut self, embedding: usize, layers: usize, heads: usize) -> Self {
        (self.embedding, self.layers, self.heads) = (embedding, layers, heads);
        self
    }
}

/// The configuration of a [`MaskedAutoencoder`].
///
/// # Example
/// ```
/// use updraft_models::{EncoderConfig, MaskedAutoencoderConfig, TransformerConfigError};
///
/// let config = MaskedAutoencoderConfig::new(EncoderConfig::new(1, &[64, 64], &[8, 8]));
/// assert_eq!(config.visible(), 16);
/// let none = config.with_mask_ratio(1.0).validate();
/// assert!(matches!(none, Err(TransformerConfigError::MaskRatio { .. })));
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct MaskedAutoencoderConfig {
    /// The encoder of visible patches.
    pub encoder: EncoderConfig,
    /// The share of patches that are masked.
    pub mask_ratio: f64,
    /// The decoder of masked patches.
    pub decoder: DecoderConfig,
}

impl MaskedAutoencoderConfig {
    /// A mask of three quarters of the patches, and a decoder with self-attention.
    #[must_use]
    pub const fn new(encoder: EncoderConfig) -> Self {
        Self { encoder, mask_ratio: 0.75, decoder: DecoderConfig::new(DecoderKind::SelfAttention) }
    }

    /// Sets [`mask_ratio`](Self::mask_ratio).
    #[must_use]
    pub const fn with_mask_ratio(mut self, mask_ratio: f64) -> Self {
        self.mask_ratio = mask_ratio;
        self
    }

    /// Sets [`decoder`](Self::decoder).
    #[must_use]
    pub const fn with_decoder(mut self, decoder: DecoderConfig) -> Self {
        self.decoder = decoder;
        self
    }

    /// The number of patches that stay visible: the rounded share of all; only for valid
    /// configurations.
    #[must_use]
    pub fn visible(&self) -> usize {
        ((1.0 - self.mask_ratio) * self.encoder.patches() as f64).round() as usize
    }

    /// Checks every value.
    ///
    /// # Errors
    /// The first value that is out of its range.
    pub fn validate(&self) -> Result<(), TransformerConfigError> {
        self.encoder.validate()?;
        let (patches, visible) = (self.encoder.patches(), self.visible());
        let is_share = self.mask_ratio > 0.0 && self.mask_ratio < 1.0;
        if !is_share || visible == 0 || visible >= patches {
            let ratio = self.mask_ratio;
            return Err(TransformerConfigError::MaskRatio { ratio, visible, patches });
        }
        let names = ["decoder.embedding", "decoder.layers", "decoder.heads"];
        let DecoderConfig { embedding, layers, heads, .. } = self.decoder;
        blocks(names, [embedding, layers, heads], self.encoder.sides.len())
    }

    /// Creates a network with random parameters, in module order, from the device's random state.
    ///
    /// # Panics
    /// If [`validate`](Self::validate) returns an error; the message is the error's.
    #[must_use]
    pub fn init(&self, device: &Device) -> MaskedAutoencoder {
        if let Err(error) = self.validate() {
            panic!("{error}");
        }
        MaskedAutoencoder::new(self, device)
    }
}

/// Checks the sizes of blocks; positions need a sine and a cosine for each axis.
fn blocks(
    [embedding_name, layers_name, heads_name]: [&'static str; 3],
    [embedding, layers, heads]: [usize; 3],
    axes: usize,
) -> Result<(), TransformerConfigError> {
    number(embedding_name, embedding, 2 * axes, MAX_EMBEDDING)?;
    number(layers_name, layers, 1, MAX_LAYERS)?;
    number(heads_name, heads, 1, MAX_EMBEDDING)?;
    if !embedding.is_multiple_of(heads) {
        return Err(TransformerConfigError::Heads { name: heads_name, heads, embedding });
    }
    Ok(())
}

fn number(
    name: &'static str,
    value: usize,
    least: usize,
    most: usize,
) -> Result<(), TransformerConfigError> {
    if (least..=most).contains(&value) {
        return Ok(());
    }
    Err(TransformerConfigError::Number { name, value, least, most })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn small() -> MaskedAutoencoderConfig {
        MaskedAutoencoderConfig::new(EncoderConfig::new(1, &[16, 24], &[8, 8]).with_blocks(8, 1, 2))
    }

    #[test]
    fn every_value_out_of_range_is_named_with_what_is_accepted() {
        assert_eq!(small().validate(), Ok(()));
        let with = |change: &dyn Fn(&mut MaskedAutoencoderConfig)| {
            let mut config = small();
            change(&mut config);
            config.validate().expect_err("refused").to_string()
        };
        for (said, part) in [
            (
                with(&|config| config.encoder.sides = vec![16, 60]),
                "the width of an image is 60, which patches of 8 do not tile; the nearest are 56 \
                 and 64",
            ),
            (
                with(&|config| {
                    (config.encoder.sides, config.encoder.patch) = (vec![3, 8, 8], vec![4, 8, 8])
                }),
                "the depth of an image is 3, which patches of 4 do not tile; the nearest are 4",
            ),
            (with(&|config| config.encoder.patch = vec![8]), "`sides` has 2 entries and `patch` 1"),
            (
                with(&|config| config.encoder.heads = 3),
                "`heads` is 3; expected a divisor of the embedding of 8",
            ),
            (with(&|config| config.decoder.heads = 5), "`decoder.heads` is 5; expected a divisor"),
            (with(&|config| config.encoder.layers = 0), "`layers` is 0; expected 1 to 256"),
            (
                with(&|config| config.decoder.embedding = 2),
                "`decoder.embedding` is 2; expected 4 to",
            ),
            (with(&|config| config.encoder.channels = 0), "`channels` is 0"),
            (
                with(&|config| config.mask_ratio = 0.0),
                "`mask_ratio` is 0, which leaves 6 of 6 patches",
            ),
            (with(&|config| config.mask_ratio = 1.0), "`mask_ratio` is 1, which leaves 0 of 6"),
            (with(&|config| config.mask_ratio = 0.95), "`mask_ratio` is 0.95, which leaves 0 of 6"),
            (with(&|config| config.mask_ratio = 0.05), "`mask_ratio` is 0.05, which leaves 6 of 6"),
            (with(&|config| config.mask_ratio = f64::NAN), "`mask_ratio` is NaN"),
        ] {
            assert!(said.starts_with(part), "{said}\n{part}");
        }
    }
}
