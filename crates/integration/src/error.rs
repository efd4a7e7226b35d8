//! Errors of a configuration.

use crate::config::IntegrationPoint;

/// Why a [`DualPathwayConfig`](crate::DualPathwayConfig) or a
/// [`SinglePathwayConfig`](crate::SinglePathwayConfig) is invalid.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum NetworkConfigError {
    /// There are fewer than two classes.
    #[error("`classes` is {classes}; a classifier needs at least 2")]
    Classes {
        /// The number of classes asked for.
        classes: usize,
    },
    /// The width is out of range.
    #[error("`channels` is {channels}; expected 1 to {most}")]
    Channels {
        /// The width of the first stage asked for.
        channels: usize,
        /// The largest width accepted.
        most: usize,
    },
    /// The width of a stage is out of range.
    #[error("`widths[{stage}]` is {width}; expected 1 to {most}")]
    Width {
        /// The index of the stage.
        stage: usize,
        /// Its width.
        width: usize,
        /// The largest width accepted.
        most: usize,
    },
    /// There is not one width for each stage.
    #[error("`widths` has {stages} widths; expected {expected}, one for each stage of the depth")]
    Stages {
        /// The number of widths given.
        stages: usize,
        /// The number of stages.
        expected: usize,
    },
    /// The stride of the stem is neither 1 nor 2.
    #[error("`stem_stride` is {stem_stride}; expected 1 (full size) or 2 (half size)")]
    StemStride {
        /// The stride asked for.
        stem_stride: usize,
    },
    /// The probability is out of range or not a number.
    #[error("`dropout` is {dropout}; expected at least 0 and less than 1")]
    Dropout {
        /// The probability asked for.
        dropout: f64,
    },
    /// An integration point is listed twice, or together with `all`.
    #[error("`integration_points` lists `{point}` although another entry covers it; remove one")]
    RepeatedPoint {
        /// The redundant entry.
        point: IntegrationPoint,
    },
    /// The input's standard deviation cannot be divided by.
    #[error("`normalization.std[{channel}]` is {std}; expected a finite value above 0")]
    Std {
        /// Which of red, green and blue, from 0.
        channel: usize,
        /// The value given.
        std: f64,
    },
    /// The input's mean is not a number that can be subtracted.
    #[error("`normalization.mean[{channel}]` is {mean}; expected a finite value")]
    Mean {
        /// Which of red, green and blue, from 0.
        channel: usize,
        /// The value given.
        mean: f64,
    },
}
