//! Errors of configurations of networks of inverted residuals.

/// Why an [`EfficientNetConfig`](crate::EfficientNetConfig) or a
/// [`MobileNetConfig`](crate::MobileNetConfig) is invalid.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum MobileConfigError {
    /// There are too few classes.
    #[error("`classes` is {classes}; expected at least 2")]
    Classes {
        /// The number given.
        classes: usize,
    },
    /// A factor of widths or repetitions is out of range or not a number.
    #[error("`{name}` is {factor}; expected 0.05 to 8")]
    Factor {
        /// The setting.
        name: &'static str,
        /// The factor given.
        factor: f64,
    },
    /// The stem's stride is neither 1 nor 2.
    #[error("`stem_stride` is {stem_stride}; expected 1 or 2")]
    StemStride {
        /// The stride given.
        stem_stride: usize,
    },
    /// The hidden layer is too wide.
    #[error("`hidden` is {hidden}; expected at most {max}")]
    Hidden {
        /// The width given.
        hidden: usize,
        /// The largest accepted.
        max: usize,
    },
    /// A probability is out of range or not a number.
    #[error("`{name}` is {probability}; expected at least 0 and less than 1")]
    Probability {
        /// The setting.
        name: &'static str,
        /// The probability given.
        probability: f64,
    },
}

impl MobileConfigError {
    pub(super) fn check_classes(classes: usize) -> Result<(), Self> {
        if classes >= 2 { Ok(()) } else { Err(Self::Classes { classes }) }
    }

    pub(super) fn check_factor(name: &'static str, factor: f64) -> Result<(), Self> {
        if (0.05..=8.0).contains(&factor) { Ok(()) } else { Err(Self::Factor { name, factor }) }
    }

    pub(super) fn check_stride(stem_stride: usize) -> Result<(), Self> {
        if (1..=2).contains(&stem_stride) { Ok(()) } else { Err(Self::StemStride { stem_stride }) }
    }

    pub(super) fn check_probability(name: &'static str, probability: f64) -> Result<(), Self> {
        let is_fit = (0.0..1.0).contains(&probability);
        if is_fit { Ok(()) } else { Err(Self::Probability { name, probability }) }
    }
}
