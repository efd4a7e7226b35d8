//! The map between real numbers and 8-bit codes.

use crate::kernels::{Isa, dequantize, quantize};

/// Unsigned 8-bit activations: `real = (q − zero_point)·scale`.
///
/// Zero has an exact code, so that padding and rectification cost nothing.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ActivationScheme {
    scale: f32,
    zero_point: u8,
}

/// Errors of a quantization scheme.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum SchemeError {
    /// The scale is not a positive normal number.
    #[error("scale {scale} is not a positive normal number; a range wider than 0 gives one")]
    Scale {
        /// What was given.
        scale: f32,
    },
    /// An end of the range is NaN or infinite.
    #[error("the range [{low}, {high}] is not finite; look for NaN or infinity in the data")]
    NotFinite {
        /// Its lower end.
        low: f32,
        /// Its upper end.
        high: f32,
    },
    /// The lower end lies above the upper.
    #[error("the range [{low}, {high}] is empty; `low` must not be above `high`")]
    Reversed {
        /// Its lower end.
        low: f32,
        /// Its upper end.
        high: f32,
    },
    /// Only zero, or numbers too small for a scale.
    #[error(
        "the range [{low}, {high}] contains only zero; a tensor that never differs from zero has no scale"
    )]
    OnlyZero {
        /// Its lower end.
        low: f32,
        /// Its upper end.
        high: f32,
    },
}

impl ActivationScheme {
    /// A scheme with the given scale and zero point.
    ///
    /// # Errors
    /// [`SchemeError::Scale`] for a scale that is not positive and normal.
    pub fn try_new(scale: f32, zero_point: u8) -> Result<Self, SchemeError> {
        if scale.is_normal() && scale > 0.0 {
            Ok(Self { scale, zero_point })
        } else {
            Err(SchemeError::Scale { scale })
        }
    }

    /// The scheme whose codes cover a range, widened to contain zero.
    ///
    /// # Errors
    /// [`SchemeError`] for a range that is not finite, reversed, or only zero.
    ///
    /// # Source
    /// Jacob et al. 2018, arXiv:1712.05877, section 3.
    pub fn try_from_range(low: f32, high: f32) -> Result<Self, SchemeError> {
        if !low.is_finite() || !high.is_finite() {
            return Err(SchemeError::NotFinite { low, high });
        }
        if low > high {
            return Err(SchemeError::Reversed { low, high });
        }
        let (least, most) = (f64::from(low.min(0.0)), f64::from(high.max(0.0)));
        let scale = ((most - least) / 255.0) as f32;
        if !scale.is_normal() {
            return Err(SchemeError::OnlyZero { low, high });
        }
        let zero_point = (-least / f64::from(scale)).round().clamp(0.0, 255.0) as u8;
        Self::try_new(scale, zero_point)
    }

    /// The scheme after multiplication by a positive factor.
    pub(crate) fn times(&self, factor: f32) -> Result<Self, SchemeError> {
        Self::try_new(self.scale * factor, self.zero_point)
    }

    /// Real units of one step.
    #[must_use]
    pub const fn scale(&self) -> f32 {
        self.scale
    }

    /// The code of zero.
    #[must_use]
    pub const fn zero_point(&self) -> u8 {
        self.zero_point
    }

    /// The real numbers of the codes 0 and 255.
    #[must_use]
    pub fn range(&self) -> [f32; 2] {
        [0, 255].map(|code| self.real(code))
    }

    /// The code nearest to a number; halves go to the even number of steps, NaN to the lowest code.
    #[must_use]
    pub fn code(&self, value: f32) -> u8 {
        let mut code = [0];
        quantize(Isa::Portable, *self, &[value], &mut code);
        code[0]
    }

    /// The number of a code.
    #[must_use]
    pub fn real(&self, code: u8) -> f32 {
        let mut value = [0.0];
        dequantize(Isa::Portable, *self, &[code], &mut value);
        value[0]
    }
}

/// The output of a layer: a scheme, and the bounds of the fused activation function.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct OutputScheme {
    scheme: ActivationScheme,
    least: u8,
    greatest: u8,
}

impl OutputScheme {
    /// All codes of a scheme.
    #[must_use]
    pub const fn new(scheme: ActivationScheme) -> Self {
        Self { scheme, least: 0, greatest: 255 }
    }

    /// At least zero: a rectified linear unit.
    #[must_use]
    pub const fn rectified(scheme: ActivationScheme) -> Self {
        Self { scheme, least: scheme.zero_point, greatest: 255 }
    }

    /// Within the codes of `low` and `high`; `low` if they cross.
    #[must_use]
    pub fn clipped(scheme: ActivationScheme, low: f32, high: f32) -> Self {
        let least = scheme.code(low);
        Self { scheme, least, greatest: scheme.code(high).max(least) }
    }

    /// The scheme.
    #[must_use]
    pub const fn scheme(&self) -> ActivationScheme {
        self.scheme
    }

    /// The lowest and the highest code that is written.
    #[must_use]
    pub const fn bounds(&self) -> [u8; 2] {
        [self.least, self.greatest]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_by_hand() {
        let scheme = ActivationScheme::try_from_range(-1.0, 4.1).expect("valid");
        assert!((scheme.scale() - 0.02).abs() < 1e-7);
        assert_eq!(scheme.zero_point(), 50);
        assert_eq!(scheme.code(-1.0), 0);
        assert_eq!(scheme.code(0.0), 50);
        assert_eq!(scheme.code(0.031), 52);
        assert_eq!(scheme.code(99.0), 255);
        assert_eq!(scheme.real(50), 0.0);
        assert_eq!(scheme.code(f32::NAN), 0);
    }

    #[test]
    fn a_range_is_widened_to_hold_zero() {
        let above = ActivationScheme::try_from_range(2.0, 5.1).expect("valid");
        assert_eq!((above.zero_point(), above.real(0)), (0, 0.0));
        let below = ActivationScheme::try_from_range(-5.1, -2.0).expect("valid");
        assert_eq!((below.zero_point(), below.real(255)), (255, 0.0));
    }

    #[test]
    fn what_is_no_range_is_refused_with_its_reason() {
        for (low, high, said) in [
            (f32::NAN, 1.0, "not finite"),
            (0.0, f32::INFINITY, "not finite"),
            (1.0, -1.0, "`low` must not be above `high`"),
            (0.0, 0.0, "only zero"),
            (0.0, 1e-39, "only zero"),
        ] {
            let message = ActivationScheme::try_from_range(low, high).expect_err(said).to_string();
            assert!(message.contains(said), "{message}");
        }
        let widest = ActivationScheme::try_from_range(f32::MIN, f32::MAX).expect("finite");
        assert!(widest.scale().is_finite());
    }

    #[test]
    fn a_rectifier_is_a_bound_at_the_zero_point() {
        let scheme = ActivationScheme::try_from_range(-1.0, 4.1).expect("valid");
        assert_eq!(OutputScheme::rectified(scheme).bounds(), [50, 255]);
        assert_eq!(OutputScheme::clipped(scheme, 0.0, 2.0).bounds(), [50, 150]);
        assert_eq!(OutputScheme::clipped(scheme, 3.0, 2.0).bounds(), [200, 200]);
    }
}
