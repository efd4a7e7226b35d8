//! The configuration of a U-Net, and its checks.

use burn::tensor::Device;
use serde::{Deserialize, Serialize};
use updraft_conv::{Activation, Slope};

use super::network::{UNet2d, UNet3d};
use crate::error::UNetConfigError;

/// The largest number of filters of a level.
const MAX_FILTERS: usize = 4096;

/// The largest number of levels: the input's sides are then multiples of 2¹¹.
const MAX_LEVELS: usize = 12;

/// The configuration of a U-Net; see [`UNet`](crate::UNet).
///
/// # Example
/// ```
/// use updraft_models::UNetConfig;
///
/// let config = UNetConfig::new(1, 2, &[16, 32, 64]);
/// assert!(config.validate().is_ok());
/// assert_eq!(config.stride(), 4);
/// assert!(UNetConfig::new(1, 2, &[16]).validate().is_err());
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct UNetConfig {
    /// Channels of the input.
    pub in_channels: usize,
    /// Channels of the output.
    pub out_channels: usize,
    /// Filters of each level, the finest first; each further level halves every side.
    pub filters: Vec<usize>,
    /// The blocks of the encoder; those of the decoder are always plain.
    pub block: UNetBlock,
    /// The normalization after each convolution.
    pub normalization: UNetNormalization,
    /// How a level halves the sides.
    pub downsampling: Downsampling,
    /// How the decoder doubles them.
    pub upsampling: Upsampling,
    /// Whether transposed convolutions have a bias.
    pub upsampling_bias: bool,
    /// The slope of the activation below 0; 0 is `ReLU`.
    pub negative_slope: f64,
    /// How many levels below the finest have an output of their own, for
    /// [`forward_deep`](crate::UNet::forward_deep).
    pub deep_supervision: usize,
}

/// The two convolutions of a level.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum UNetBlock {
    /// The block's input is added before its last activation.
    Residual,
    /// Only the two convolutions.
    Plain,
}

/// The normalization after a convolution, with a learned scale and shift for each channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum UNetNormalization {
    /// Over each sample and channel.
    Instance,
    /// Over each sample and group of channels, for this many groups.
    Group(usize),
    /// Over the batch; with running statistics for inference.
    Batch,
}

/// How a level halves the sides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Downsampling {
    /// The first convolution of the level has stride 2.
    Strided,
    /// The maximum of every block of 2 positions along every axis, before the level.
    MaxPool,
}

/// How the decoder doubles the sides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Upsampling {
    /// A transposed convolution of kernel and stride 2.
    Transposed,
    /// A convolution of kernel size 1, then linear interpolation.
    Linear,
}

impl UNetConfig {
    /// Residual blocks with instance normalization, strided convolutions, transposed convolutions
    /// without bias, leaky `ReLU` of slope 0.01: MONAI 1.6.1's `DynUNet` with `res_block=True`.
    #[must_use]
    pub fn new(in_channels: usize, out_channels: usize, filters: &[usize]) -> Self {
        Self {
            in_channels,
            out_channels,
            filters: filters.to_vec(),
            block: UNetBlock::Residual,
            normalization: UNetNormalization::Instance,
            downsampling: Downsampling::Strided,
            upsampling: Upsampling::Transposed,
            upsampling_bias: false,
            negative_slope: 0.01,
            deep_supervision: 0,
        }
    }

    /// Sets [`block`](Self::block).
    #[must_use]
    pub const fn with_block(mut self, block: UNetBlock) -> Self {
        self.block = block;
        self
    }

    /// Sets [`normalization`](Self::normalization).
    #[must_use]
    pub const fn with_normalization(mut self, normalization: UNetNormalization) -> Self {
        self.normalization = normalization;
        self
    }

    /// Sets [`downsampling`](Self::downsampling).
    #[must_use]
    pub const fn with_downsampling(mut self, downsampling: Downsampling) -> Self {
        self.downsampling = downsampling;
        self
    }

    /// Sets [`upsampling`](Self::upsampling) and [`upsampling_bias`](Self::upsampling_bias).
    #[must_use]
    pub const fn with_upsampling(mut self, upsampling: Upsampling, bias: bool) -> Self {
        (self.upsampling, self.upsampling_bias) = (upsampling, bias);
        self
    }

    /// Sets [`negative_slope`](Self::negative_slope).
    #[must_use]
    pub const fn with_negative_slope(mut self, slope: f64) -> Self {
        self.negative_slope = slope;
        self
    }

    /// Sets [`deep_supervision`](Self::deep_supervision).
    #[must_use]
    pub const fn with_deep_supervision(mut self, levels: usize) -> Self {
        self.deep_supervision = levels;
        self
    }

    /// What every side of an input must be a multiple of: `2^(levels − 1)`.
    #[must_use]
    pub fn stride(&self) -> usize {
        1 << self.filters.len().saturating_sub(1).min(MAX_LEVELS)
    }

    /// Checks every value.
    ///
    /// # Errors
    /// The first value that is out of its range.
    pub fn validate(&self) -> Result<(), UNetConfigError> {
        use UNetConfigError as Error;

        for (name, channels) in
            [("in_channels", self.in_channels), ("out_channels", self.out_channels)]
        {
            if !(1..=MAX_FILTERS).contains(&channels) {
                return Err(Error::Channels { name, channels, max: MAX_FILTERS });
            }
        }
        let levels = self.filters.len();
        if !(2..=MAX_LEVELS).contains(&levels) {
            return Err(Error::Levels { levels, max: MAX_LEVELS });
        }
        for (level, &filters) in self.filters.iter().enumerate() {
            if !(1..=MAX_FILTERS).contains(&filters) {
                return Err(Error::Filters { level, filters, max: MAX_FILTERS });
            }
            if let UNetNormalization::Group(groups) = self.normalization
                && (groups == 0 || !filters.is_multiple_of(groups))
            {
                return Err(Error::Groups { level, filters, groups });
            }
        }
        if !(0.0..1.0).contains(&self.negative_slope) {
            return Err(Error::NegativeSlope { slope: self.negative_slope });
        }
        if self.deep_supervision > levels - 2 {
            return Err(Error::DeepSupervision { outputs: self.deep_supervision, levels });
        }
        Ok(())
    }

    /// Creates a network for images with random parameters.
    ///
    /// All of them are initialized here, in module order, from the device's random state: the same
    /// configuration after the same `device.seed(…)` gives the same parameters.
    ///
    /// # Panics
    /// If [`validate`](Self::validate) returns an error; the message is the error's.
    #[must_use]
    pub fn init_2d(&self, device: &Device) -> UNet2d {
        UNet2d::new::<4>(self, device)
    }

    /// Creates a network for volumes with random parameters.
    ///
    /// # Panics
    /// As [`init_2d`](Self::init_2d).
    #[must_use]
    pub fn init_3d(&self, device: &Device) -> UNet3d {
        UNet3d::new::<5>(self, device)
    }

    pub(super) fn activation(&self) -> Activation {
        match self.negative_slope {
            0.0 => Activation::Relu,
            slope => Activation::LeakyRelu(Slope::new(slope as f32)),
        }
    }
}
