//! Errors of the configuration of a layer of functions in closed form.

use std::fmt;

use crate::basis::BasisError;
use crate::kernels::ConvError;

/// Errors of the configuration of a [`BasisLinear`](crate::BasisLinear), a convolution like it or a
/// network of them.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum BasisConfigError {
    /// The basis is invalid.
    Basis(BasisError),
    /// There are no inputs or no outputs.
    Features {
        /// Inputs.
        in_features: usize,
        /// Outputs.
        out_features: usize,
    },
    /// The groups do not divide the inputs.
    Groups {
        /// Groups of inputs.
        groups: usize,
        /// Inputs.
        in_features: usize,
    },
    /// The convolution is invalid.
    Conv(ConvError),
    /// A network needs the features of its input and of its output.
    Widths {
        /// How many widths were given.
        count: usize,
    },
    /// The scale of the coefficients is negative or not finite.
    Scale {
        /// What was asked for.
        scale: f64,
    },
}

impl fmt::Display for BasisConfigError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Basis(error) => error.fmt(formatter),
            Self::Features { in_features, out_features } => write!(
                formatter,
                "a layer needs inputs and outputs, got {in_features} and {out_features}"
            ),
            Self::Groups { groups, in_features } => {
                write!(formatter, "{groups} groups do not divide {in_features} inputs")
            }
            Self::Conv(error) => error.fmt(formatter),
            Self::Widths { count } => {
                write!(formatter, "a network needs at least 2 widths, got {count}")
            }
            Self::Scale { scale } => {
                write!(formatter, "scale {scale} is negative or not finite")
            }
        }
    }
}

impl std::error::Error for BasisConfigError {}

impl BasisConfigError {
    pub(super) fn check_features(inputs: usize, outputs: usize) -> Result<(), Self> {
        if inputs > 0 && outputs > 0 {
            return Ok(());
        }
        Err(Self::Features { in_features: inputs, out_features: outputs })
    }

    pub(super) fn check_groups(groups: usize, in_features: usize) -> Result<(), Self> {
        if groups > 0 && in_features.is_multiple_of(groups) {
            return Ok(());
        }
        Err(Self::Groups { groups, in_features })
    }

    pub(super) fn check_scale(scale: f64) -> Result<(), Self> {
        if scale.is_finite() && scale >= 0.0 { Ok(()) } else { Err(Self::Scale { scale }) }
    }
}
