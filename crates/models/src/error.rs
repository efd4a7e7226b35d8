//! Why a network cannot be built or changed.

/// Why a [`SeparableConfig`](crate::SeparableConfig) is invalid.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum SeparableConfigError {
    /// There are fewer than two classes.
    #[error("`classes` is {classes}; a classifier needs at least 2")]
    Classes {
        /// The number of classes given.
        classes: usize,
    },
    /// The width of the stem is out of range.
    #[error("`channels` is {channels}; expected 1 to {max}")]
    Channels {
        /// The width given.
        channels: usize,
        /// The largest width accepted.
        max: usize,
    },
    /// The stride of the stem is neither 1 nor 2.
    #[error("`stem_stride` is {stem_stride}; expected 1 (full size) or 2 (half size)")]
    StemStride {
        /// The stride given.
        stem_stride: usize,
    },
    /// The probability is out of range or not a number.
    #[error("`dropout` is {dropout}; expected at least 0 and less than 1")]
    Dropout {
        /// The probability given.
        dropout: f64,
    },
}

/// Why outlier channels cannot be made: the factor is not positive and finite, or its reciprocal is
/// not a normal number.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
#[error("the factor of outlier channels is {factor}; expected a positive number such as 64")]
pub struct OutlierError {
    /// The factor given.
    pub factor: f32,
}

/// Why a [`PerceptronConfig`](crate::PerceptronConfig) is invalid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PerceptronConfigError {
    /// There is no width of the inputs, or none of the outputs.
    #[error("`widths` needs at least 2 entries, inputs and outputs; got {count}")]
    TooFewWidths {
        /// The number of widths given.
        count: usize,
    },
    /// A layer would have no features.
    #[error("`widths[{index}]` is 0; expected at least 1")]
    ZeroWidth {
        /// The position of the width, from 0.
        index: usize,
    },
}
