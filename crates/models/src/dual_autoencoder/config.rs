//! The configuration of a dual autoencoder, its compatible variant and its ablations.

use burn::tensor::Device;
use serde::{Deserialize, Serialize};

use super::core::spline_config;
use super::error::DualAutoencoderConfigError;
use super::network::DualAutoencoder;

/// Height and width of images have to be multiples of this: they are halved three times.
pub(super) const SIDE_MULTIPLE: usize = 8;

/// The weights of wider layers do not fit into memory.
const MAX_CHANNELS: usize = 4096;

/// The layer at the lowest resolution of the encoder and of the decoder, and the last one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum CoreLayer {
    /// A KAN convolution.
    #[default]
    Kan,
    /// Two convolutions with `ELU` between them, with as many parameters as the KAN convolution.
    Conv,
    /// No layer.
    None,
}

/// The attention before and in the latent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum LatentAttention {
    /// [`Bam`](crate::Bam): one weight for each value.
    #[default]
    Bam,
    /// [`Cbam`](crate::Cbam): weights for channels, then for positions.
    Cbam,
    /// [`Eca`](crate::Eca): weights for channels.
    Eca,
    /// No weights.
    None,
}

/// The configuration of a [`DualAutoencoder`].
///
/// The default is the published network without its defects: convolutions before batch norms have
/// no bias, the decoder adds the encoder's feature maps, the inputs of splines stay inside their
/// grid, and the output is bounded. [`compatible`](Self::compatible) computes what the published
/// code computes.
///
/// Ablations:
///
/// | Network | Configuration |
/// |---|---|
/// | without splines | `with_core(CoreLayer::Conv)` |
/// | splines only | `with_attention(LatentAttention::None)` |
/// | attention only | `with_core(CoreLayer::None)` |
/// | plain convolutions with as many parameters as splines | `with_core(CoreLayer::Conv)` and `with_attention(LatentAttention::None)` |
/// | no splines, no attention | `with_core(CoreLayer::None)` and `with_attention(LatentAttention::None)` |
///
/// # Example
/// ```
/// use updraft_models::{CoreLayer, DualAutoencoderConfig};
///
/// let config = DualAutoencoderConfig::new().with_widths([32, 16, 8]).with_latent(4);
/// assert!(config.validate().is_ok());
/// assert!(config.check_image([64, 96]).is_ok());
/// assert!(config.check_image([64, 100]).is_err());
/// assert!(config.with_core(CoreLayer::Conv).with_dropout(1.0).validate().is_err());
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct DualAutoencoderConfig {
    /// Channels of the images.
    pub channels: usize,
    /// Channels of the feature maps at a half, a quarter and an eighth of the image's sides.
    pub widths: [usize; 3],
    /// Channels of the latent, at an eighth of the image's sides.
    pub latent: usize,
    /// The layer at the lowest resolution of encoder and decoder, and the last one.
    pub core: CoreLayer,
    /// The attention before and in the latent.
    pub attention: LatentAttention,
    /// Pieces of each spline at the lowest resolution; the last layer has two.
    pub intervals: usize,
    /// Their degree; that of the last layer is 1.
    pub degree: usize,
    /// Whether the blocks before splines end in `tanh` instead of `ELU`, so that the inputs of
    /// splines are inside their grid, −1 to 1.
    pub bounded_inputs: bool,
    /// The smallest and the largest output: the last layer ends in a sigmoid between them.
    /// `None` leaves the output as it is.
    pub output_range: Option<[f32; 2]>,
    /// Whether the decoder adds the encoder's feature maps of the same size to its own.
    pub decoder_skips: bool,
    /// Whether core layers add their input to their output.
    pub residual: bool,
    /// Whether convolutions before batch norms have a bias, which the norms cancel.
    pub conv_bias: bool,
    /// The dropout probability of the inputs of the two inner core layers and of the latent.
    pub dropout: f64,
}

impl Default for DualAutoencoderConfig {
    fn default() -> Self {
        Self::new()
    }
}

impl DualAutoencoderConfig {
    /// The published network without its defects, for images of three channels with values from 0
    /// to 1.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            channels: 3,
            widths: [384, 128, 64],
            latent: 16,
            core: CoreLayer::Kan,
            attention: LatentAttention::Bam,
            intervals: 3,
            degree: 2,
            bounded_inputs: true,
            output_range: Some([0.0, 1.0]),
            decoder_skips: true,
            residual: false,
            conv_bias: false,
            dropout: 0.0,
        }
    }

    /// The published network, with the same parameters and outputs.
    ///
    /// The inputs of splines may leave their grid, the output has no bounds, and the decoder adds
    /// no feature maps of the encoder. The encoder runs once per pass: the published code runs its
    /// first two layers twice, does not use the second result, and updates the running statistics
    /// of their batch norms twice.
    #[must_use]
    pub const fn compatible() -> Self {
        Self {
            bounded_inputs: false,
            output_range: None,
            decoder_skips: false,
            conv_bias: true,
            ..Self::new()
        }
    }

    /// Sets [`channels`](Self::channels).
    #[must_use]
    pub const fn with_channels(mut self, channels: usize) -> Self {
        self.channels = channels;
        self
    }

    /// Sets [`widths`](Self::widths).
    #[must_use]
    pub const fn with_widths(mut self, widths: [usize; 3]) -> Self {
        self.widths = widths;
        self
    }

    /// Sets [`latent`](Self::latent).
    #[must_use]
    pub const fn with_latent(mut self, latent: usize) -> Self {
        self.latent = latent;
        self
    }

    /// Sets [`core`](Self::core).
    #[must_use]
    pub const fn with_core(mut self, core: CoreLayer) -> Self {
        self.core = core;
        self
    }

    /// Sets [`attention`](Self::attention).
    #[must_use]
    pub const fn with_attention(mut self, attention: LatentAttention) -> Self {
        self.attention = attention;
        self
    }

    /// Sets [`intervals`](Self::intervals).
    #[must_use]
    pub const fn with_intervals(mut self, intervals: usize) -> Self {
        self.intervals = intervals;
        self
    }

    /// Sets [`degree`](Self::degree).
    #[must_use]
    pub const fn with_degree(mut self, degree: usize) -> Self {
        self.degree = degree;
        self
    }

    /// Sets [`bounded_inputs`](Self::bounded_inputs).
    #[must_use]
    pub const fn with_bounded_inputs(mut self, bounded: bool) -> Self {
        self.bounded_inputs = bounded;
        self
    }

    /// Sets [`output_range`](Self::output_range).
    #[must_use]
    pub const fn with_output_range(mut self, range: Option<[f32; 2]>) -> Self {
        self.output_range = range;
        self
    }

    /// Sets [`decoder_skips`](Self::decoder_skips).
    #[must_use]
    pub const fn with_decoder_skips(mut self, skips: bool) -> Self {
        self.decoder_skips = skips;
        self
    }

    /// Sets [`residual`](Self::residual).
    #[must_use]
    pub const fn with_residual(mut self, residual: bool) -> Self {
        self.residual = residual;
        self
    }

    /// Sets [`dropout`](Self::dropout).
    #[must_use]
    pub const fn with_dropout(mut self, dropout: f64) -> Self {
        self.dropout = dropout;
        self
    }

    /// Checks every value.
    ///
    /// # Errors
    /// [`DualAutoencoderConfigError`] for the first value that is out of its range.
    pub fn validate(&self) -> Result<(), DualAutoencoderConfigError> {
        use DualAutoencoderConfigError as Error;

        let [wide, middle, narrow] = self.widths;
        for (name, value) in [
            ("channels", self.channels),
            ("widths[0]", wide),
            ("widths[1]", middle),
            ("widths[2]", narrow),
            ("latent", self.latent),
        ] {
            if !(1..=MAX_CHANNELS).contains(&value) {
                return Err(Error::Channels { name, value, max: MAX_CHANNELS });
            }
        }
        // The spline layer that plain convolutions replace must be valid too: it determines their
        // size.
        spline_config(narrow, 3, self.intervals, self.degree)
            .validate()
            .map_err(|cause| Error::Splines { cause })?;
        if let Some([low, high]) = self.output_range
            && !(low.is_finite() && high.is_finite() && low < high)
        {
            return Err(Error::OutputRange { low, high });
        }
        if !(0.0..1.0).contains(&self.dropout) {
            return Err(Error::Dropout { dropout: self.dropout });
        }
        Ok(())
    }

    /// Checks whether the network takes images of this height and width.
    ///
    /// # Errors
    /// [`DualAutoencoderConfigError::Image`] if a side is 0 or cannot be halved three times.
    pub fn check_image(
        &self,
        [height, width]: [usize; 2],
    ) -> Result<(), DualAutoencoderConfigError> {
        let fits = |side: usize| side > 0 && side.is_multiple_of(SIDE_MULTIPLE);
        if fits(height) && fits(width) {
            Ok(())
        } else {
            Err(DualAutoencoderConfigError::Image { height, width })
        }
    }

    /// Creates a network with random parameters.
    ///
    /// All of them are initialized here, in module order, from the device's random state: the same
    /// configuration after the same `device.seed(…)` gives the same parameters.
    ///
    /// # Panics
    /// If [`validate`](Self::validate) returns an error; the message is the error's.
    #[must_use]
    pub fn init(&self, device: &Device) -> DualAutoencoder {
        if let Err(error) = self.validate() {
            panic!("{error}");
        }
        DualAutoencoder::new(self, device)
    }
}
