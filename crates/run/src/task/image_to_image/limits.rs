//! What the networks cannot do, and the keys that decide this.

use updraft_models::{CoreLayer, DualAutoencoderConfigError, UNetConfigError, UNetNormalization};

use super::model::ModelPlan;
use crate::config::{ConfigError, Settings};

impl ModelPlan {
    /// The key that decides whether the network has batch norms, if another value gives it some.
    pub(super) const fn norms_key(&self) -> Option<&'static str> {
        match self {
            Self::UNet(_) => Some("model.normalization"),
            Self::Dual { .. } => None,
            Self::Transformer { .. } => Some("model.kind"),
        }
    }

    /// The key that decides whether the network is cut into segments, if another value allows it.
    pub(super) const fn segments_key(&self) -> Option<&'static str> {
        match self {
            Self::UNet(_) | Self::Transformer { .. } => None,
            Self::Dual { .. } => Some("model.kind"),
        }
    }

    /// The reason why the network has no int8 form for windows with this many axes: its first
    /// layer without one; `None` if all layers have one.
    pub(super) fn without_int8(&self, axes: usize) -> Option<&'static str> {
        match self {
            Self::Dual { config, .. } if config.core == CoreLayer::Kan => {
                Some("int8 has no KAN convolutions, and `model.core` is `kan`")
            }
            Self::UNet(_) if axes == 3 => Some(
                "int8 has no convolutions of volumes, so that none of its products would be of \
                 integers, and `data.patch` has three sides",
            ),
            Self::Dual { .. } | Self::Transformer { .. } => None,
            Self::UNet(config) => match config.normalization {
                UNetNormalization::Batch => None,
                _ => Some(
                    "int8 has no instance or group normalization: `model.normalization` must be \
                     `batch`",
                ),
            },
        }
    }
}

/// The error of a network that cannot be built, about the key that gave the value.
pub(super) fn refuse_unet(settings: &Settings, error: &UNetConfigError) -> ConfigError {
    use UNetConfigError as Error;

    let (key, expected) = match error {
        Error::Levels { max, .. } => ("model.filters", format!("a list of 2 to {max} levels")),
        Error::Filters { max, .. } => {
            ("model.filters", format!("a list of 1 to {max} filters in each level"))
        }
        Error::Groups { groups, .. } => (
            "model.filters",
            format!(
                "a list of multiples of `model.groups`, which is {groups}, \
                                       as `model.normalization` is `group`"
            ),
        ),
        Error::NegativeSlope { .. } => {
            ("model.negative_slope", "at least 0 and below 1".to_owned())
        }
        Error::DeepSupervision { levels, .. } => {
            let most = levels - 2;
            let why = "the levels of `model.filters` without the first and the last";
            ("model.deep_supervision", format!("at most {most}, {why}"))
        }
        other => ("model", format!("a network that can be built: {other}")),
    };
    settings.refuse_given(key, &expected)
}

/// The same for an autoencoder.
pub(super) fn refuse_dual(settings: &Settings, error: &DualAutoencoderConfigError) -> ConfigError {
    use DualAutoencoderConfigError as Error;

    let (key, expected) = match error {
        Error::Channels { name: "latent", max, .. } => ("model.latent", format!("1 to {max}")),
        Error::Channels { max, .. } => {
            ("model.widths", format!("a list of three widths of 1 to {max}"))
        }
        Error::OutputRange { .. } => {
            ("model.output_range", "a list of two finite numbers, the smaller first".to_owned())
        }
        Error::Dropout { .. } => ("model.dropout", "at least 0 and below 1".to_owned()),
        other => ("model", format!("a network that can be built: {other}")),
    };
    settings.refuse_given(key, &expected)
}
