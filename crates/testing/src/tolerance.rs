//! The tolerances of comparisons by dtype, with the reason for each bound.

/// A bound that grows with the expected value: `absolute + relative · |expected|`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Tolerance {
    /// The absolute tolerance, in the unit of the compared values.
    pub absolute: f64,
    /// The additional relative tolerance, as a fraction of the expected value.
    pub relative: f64,
}

impl Tolerance {
    /// A tolerance from its two parts.
    pub const fn new(absolute: f64, relative: f64) -> Self {
        Self { absolute, relative }
    }

    /// The largest allowed distance from `expected`.
    pub fn bound(&self, expected: f64) -> f64 {
        self.absolute + self.relative * expected.abs()
    }

    /// Says whether `actual` is close enough to `expected`.
    ///
    /// Equal infinities are close; NaN is close to nothing, itself included.
    pub fn allows(&self, actual: f64, expected: f64) -> bool {
        let distance = (actual - expected).abs();
        actual == expected || (distance.is_finite() && distance <= self.bound(expected))
    }
}

/// Bit-equal values, apart from the sign of zero.
pub const EXACT: Tolerance = Tolerance::new(0.0, 0.0);

/// Values computed in f64: about 4,500 units in the last place, room for sums of some thousand
/// terms in any order.
pub const F64: Tolerance = Tolerance::new(1e-12, 1e-12);

/// Values computed in f32: about 84 units in the last place, room for sums of some thousand terms
/// and for a fused multiply-add on one side only.
pub const F32: Tolerance = Tolerance::new(1e-5, 1e-5);

/// Values that passed through several layers or a gradient in f32, where cancellation costs two
/// more digits than [`F32`] allows.
pub const F32_DEEP: Tolerance = Tolerance::new(1e-4, 1e-3);

/// Values stored in bf16: eight significant bits, so 2⁻⁸ for one rounding; room for five.
pub const BF16: Tolerance = Tolerance::new(2e-2, 2e-2);

/// Values stored in f16: eleven significant bits, so 2⁻¹¹ for one rounding; room for ten.
pub const F16: Tolerance = Tolerance::new(5e-3, 5e-3);

/// Gradients in f64 against central differences.
///
/// With the step ∛ε both the truncation and the rounding error of a central difference are about
/// ε^⅔ ≈ 4·10⁻¹¹ times the function's scale; four digits more are room for that scale.
pub const GRADIENT: Tolerance = Tolerance::new(1e-7, 1e-6);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bound_grows_with_the_expected_value() {
        let tolerance = Tolerance::new(0.5, 0.1);
        assert_eq!(tolerance.bound(0.0), 0.5);
        assert_eq!(tolerance.bound(-10.0), 1.5);
        assert!(tolerance.allows(-11.5, -10.0));
        assert!(!tolerance.allows(-11.6, -10.0));
    }

    #[test]
    fn nan_is_close_to_nothing_and_infinity_only_to_itself() {
        assert!(!F32.allows(f64::NAN, f64::NAN));
        assert!(!F32.allows(f64::NAN, 0.0));
        assert!(!F32.allows(0.0, f64::NAN));
        assert!(F32.allows(f64::INFINITY, f64::INFINITY));
        assert!(!F32.allows(f64::NEG_INFINITY, f64::INFINITY));
        assert!(!F32.allows(f64::INFINITY, 1.0));
    }
}
