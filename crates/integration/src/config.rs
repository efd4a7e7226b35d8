//! The configuration of a dual-pathway network, and its checks.

use std::collections::BTreeSet;
use std::fmt;

use burn::tensor::Device;
use serde::{Deserialize, Serialize};

use crate::brightness::BrightnessKind;
use crate::error::NetworkConfigError;
use crate::network::DualPathwayNet;

/// The largest width of a stage accepted: a 3×3 convolution then has 2.25 GiB of weights in f32.
const MOST_WIDTH: usize = 8192;

/// How many stages and blocks a network has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Depth {
    /// Two stages of one block, the second twice as wide.
    #[default]
    Shallow,
    /// Three stages of two blocks, each twice as wide as the one before.
    Medium,
    /// Four stages of 2, 3, 4 and 2 blocks, the first twice as wide as `channels`, each further one
    /// twice as wide as the one before.
    Deep,
}

impl Depth {
    /// The largest `channels` accepted.
    pub(crate) fn most_channels(self) -> usize {
        MOST_WIDTH / self.stages().iter().map(|(_, multiple)| multiple).max().unwrap_or(&1)
    }

    /// Blocks of each stage, and its width as a multiple of `channels`.
    pub(crate) const fn stages(self) -> &'static [(usize, usize)] {
        match self {
            Self::Shallow => &[(1, 1), (1, 2)],
            Self::Medium => &[(2, 1), (2, 2), (2, 4)],
            Self::Deep => &[(2, 2), (3, 4), (4, 8), (2, 16)],
        }
    }
}

/// A stage at whose end the pathways are integrated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum IntegrationPoint {
    /// The first stage.
    Early,
    /// The stage after half of them.
    Middle,
    /// The last stage.
    Late,
    /// Every stage.
    All,
}

impl fmt::Display for IntegrationPoint {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Early => "early",
            Self::Middle => "middle",
            Self::Late => "late",
            Self::All => "all",
        })
    }
}

/// Where an integration takes the weights of its streams from.
///
/// In a new network both kinds apply the same weights to every sample: the softmax of ½ for each
/// pathway and 0 for the stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum GateKind {
    /// One learned weight of each stream, the same for every sample: `softmax(logits)`.
    #[default]
    Static,
    /// The weights depend on the sample: `softmax(linear(relu(norm(linear(p)))))`, where `p` are
    /// the means of the feature maps of all streams that exist at the place. The hidden layer is as
    /// wide as one stream; the last layer begins with weights of 0 and a bias of ½ for each pathway
    /// and 0 for the stream.
    Adaptive,
}

/// How the images were normalized before they reach the network: `(rgb − mean) / std`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Normalization {
    /// Subtracted from red, green and blue.
    pub mean: [f64; 3],
    /// Divided by, after that.
    pub std: [f64; 3],
}

impl Default for Normalization {
    /// The images are not normalized.
    fn default() -> Self {
        Self { mean: [0.0; 3], std: [1.0; 3] }
    }
}

/// The configuration of a [`DualPathwayNet`].
///
/// # Example
/// ```
/// use updraft_integration::{DualPathwayConfig, IntegrationPoint};
///
/// let config = DualPathwayConfig::new(10, 16).with_stem_stride(2).with_dropout(0.1);
/// assert!(config.validate().is_ok());
/// assert!(config.with_stem_stride(3).validate().is_err());
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct DualPathwayConfig {
    /// The number of classes.
    pub classes: usize,
    /// The width of the first stage of each pathway, and of the stems; half of it for
    /// [`Depth::Deep`].
    pub channels: usize,
    /// How many stages and blocks there are.
    #[serde(default)]
    pub depth: Depth,
    /// 1 keeps the size of the image, 2 halves it before the first stage: a quarter of the work.
    #[serde(default = "one")]
    pub stem_stride: usize,
    /// The probability of dropping a feature before each layer of the classifier.
    #[serde(default)]
    pub dropout: f64,
    /// Where the pathways are integrated before the pooled integration, which is always there.
    #[serde(default = "all_points")]
    pub integration_points: Vec<IntegrationPoint>,
    /// Where the integrations take the weights of the streams from.
    #[serde(default)]
    pub gate: GateKind,
    /// How brightness is computed.
    #[serde(default)]
    pub brightness: BrightnessKind,
    /// How the images were normalized; brightness is computed on the original scale.
    #[serde(default)]
    pub normalization: Normalization,
}

const fn one() -> usize {
    1
}

fn all_points() -> Vec<IntegrationPoint> {
    vec![IntegrationPoint::All]
}

impl DualPathwayConfig {
    /// A shallow network integrated after every stage by static gates, without dropout, at full
    /// image size.
    pub fn new(classes: usize, channels: usize) -> Self {
        Self {
            classes,
            channels,
            depth: Depth::default(),
            stem_stride: one(),
            dropout: 0.0,
            integration_points: all_points(),
            gate: GateKind::default(),
            brightness: BrightnessKind::default(),
            normalization: Normalization::default(),
        }
    }

    /// Sets [`depth`](Self::depth).
    #[must_use]
    pub fn with_depth(mut self, depth: Depth) -> Self {
        self.depth = depth;
        self
    }

    /// Sets [`stem_stride`](Self::stem_stride).
    #[must_use]
    pub fn with_stem_stride(mut self, stem_stride: usize) -> Self {
        self.stem_stride = stem_stride;
        self
    }

    /// Sets [`dropout`](Self::dropout).
    #[must_use]
    pub fn with_dropout(mut self, dropout: f64) -> Self {
        self.dropout = dropout;
        self
    }

    /// Sets [`integration_points`](Self::integration_points).
    #[must_use]
    pub fn with_integration_points(mut self, points: Vec<IntegrationPoint>) -> Self {
        self.integration_points = points;
        self
    }

    /// Sets [`gate`](Self::gate).
    #[must_use]
    pub fn with_gate(mut self, gate: GateKind) -> Self {
        self.gate = gate;
        self
    }

    /// Sets [`brightness`](Self::brightness).
    #[must_use]
    pub fn with_brightness(mut self, brightness: BrightnessKind) -> Self {
        self.brightness = brightness;
        self
    }

    /// Sets [`normalization`](Self::normalization).
    #[must_use]
    pub fn with_normalization(mut self, normalization: Normalization) -> Self {
        self.normalization = normalization;
        self
    }

    /// Checks every value.
    ///
    /// # Errors
    /// The first value out of its range, by name.
    pub fn validate(&self) -> Result<(), NetworkConfigError> {
        use NetworkConfigError as Error;

        let Self { classes, channels, stem_stride, dropout, .. } = *self;
        if classes < 2 {
            return Err(Error::Classes { classes });
        }
        let most = self.depth.most_channels();
        if !(1..=most).contains(&channels) {
            return Err(Error::Channels { channels, most });
        }
        if !(1..=2).contains(&stem_stride) {
            return Err(Error::StemStride { stem_stride });
        }
        if !(0.0..1.0).contains(&dropout) {
            return Err(Error::Dropout { dropout });
        }
        self.validate_points()?;
        let Normalization { mean, std } = self.normalization;
        for channel in 0..3 {
            if !mean[channel].is_finite() {
                return Err(Error::Mean { channel, mean: mean[channel] });
            }
            if !(std[channel].is_finite() && std[channel] > 0.0) {
                return Err(Error::Std { channel, std: std[channel] });
            }
        }
        Ok(())
    }

    /// Makes a network with fresh parameters.
    ///
    /// Every parameter is drawn here, in module order, from the device's random state: after the
    /// same `device.seed(…)` the same configuration gives the same parameters.
    ///
    /// # Panics
    /// If [`validate`](Self::validate) finds a fault; the message is the error's.
    pub fn init(&self, device: &Device) -> DualPathwayNet {
        if let Err(error) = self.validate() {
            panic!("{error}");
        }
        DualPathwayNet::new(self, device)
    }

    /// The width of the stems.
    pub(crate) fn stem_width(&self) -> usize {
        self.depth.stages()[0].1 * self.channels
    }

    /// The stages that end in an integration, from 0.
    pub(crate) fn integrated_stages(&self) -> BTreeSet<usize> {
        let stages = self.depth.stages().len();
        self.integration_points
            .iter()
            .flat_map(|point| match point {
                IntegrationPoint::Early => 0..1,
                IntegrationPoint::Middle => stages / 2..stages / 2 + 1,
                IntegrationPoint::Late => stages - 1..stages,
                IntegrationPoint::All => 0..stages,
            })
            .collect()
    }

    fn validate_points(&self) -> Result<(), NetworkConfigError> {
        let points = &self.integration_points;
        let has_all = points.contains(&IntegrationPoint::All);
        for (index, &point) in points.iter().enumerate() {
            let covered = has_all && point != IntegrationPoint::All;
            if covered || points[..index].contains(&point) {
                return Err(NetworkConfigError::RepeatedPoint { point });
            }
        }
        Ok(())
    }
}
