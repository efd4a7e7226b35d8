//! The keys of `model` for networks of inverted residuals.

use updraft_models::{EfficientNetConfig, MobileActivation, MobileConfigError, MobileNetConfig};

use crate::config::{ConfigError, Edit, Key, Settings};

pub(super) const WIDTH_FACTOR: Key<f64> = Key::new(
    "model.width_factor",
    "mobile-net and efficient-net only: the factor of all published widths, which are rounded to multiples of eight",
)
.default("1.0")
.check("0.05 to 8", |factor| (0.05..=8.0).contains(factor));
pub(super) const DEPTH_FACTOR: Key<f64> = Key::new(
    "model.depth_factor",
    "efficient-net only: the factor of the blocks in each stage, rounded up",
)
.default("1.0")
.check("0.05 to 8", |factor| (0.05..=8.0).contains(factor));
pub(super) const ACTIVATION: Key<MobileActivation> =
    Key::new("model.activation", "mobile-net only: or `hard-swish`, or `silu`")
        .default(r#""relu6""#);
pub(super) const HIDDEN: Key<usize> = Key::new(
    "model.hidden",
    "efficient-net only: width of a hidden layer before the classifier, with batch norms before the pooling and after it; 0 has none of them",
)
.default("0")
.check("at most 65536", |hidden| *hidden <= 1 << 16);
pub(super) const DROP_PATH: Key<f64> = Key::new(
    "model.drop_path",
    "efficient-net only: probability that the last block is skipped for an image in training; it grows linearly from 0 at the first",
)
.default("0.2")
.edit(Edit::Reported)
.check("at least 0 and below 1", |share| (0.0..1.0).contains(share));

/// `MobileNetV2` with its own keys.
pub(super) fn mobile_net(
    settings: &Settings,
    classes: usize,
) -> Result<MobileNetConfig, ConfigError> {
    Ok(MobileNetConfig::new(classes)
        .with_width(settings.value(&WIDTH_FACTOR)?)
        .with_activation(settings.value(&ACTIVATION)?))
}

/// `EfficientNet` with its own keys.
pub(super) fn efficient_net(
    settings: &Settings,
    classes: usize,
) -> Result<EfficientNetConfig, ConfigError> {
    Ok(EfficientNetConfig::new(classes)
        .with_factors(settings.value(&WIDTH_FACTOR)?, settings.value(&DEPTH_FACTOR)?)
        .with_hidden(settings.value(&HIDDEN)?)
        .with_drop_path(settings.value(&DROP_PATH)?))
}

/// The key that gave the value of an error.
pub(super) const fn key_of(error: &MobileConfigError) -> &'static str {
    match error {
        MobileConfigError::Factor { .. } => "model.width_factor",
        MobileConfigError::StemStride { .. } => "model.stem_stride",
        MobileConfigError::Hidden { .. } => "model.hidden",
        MobileConfigError::Probability { .. } => "model.dropout",
        _ => "model",
    }
}
