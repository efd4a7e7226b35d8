//! Comparison of a result with its reference.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::error::PrecisionError;

/// How far a result is from its reference; all arithmetic is in f64.
///
/// # Example
/// ```
/// use updraft_precision::Parity;
///
/// let parity = Parity::between(&[1.0, 2.0], &[1.0, 2.002])?;
/// assert!((parity.max_abs - 0.002).abs() < 1e-6);
/// assert!(parity.sqnr_db > 60.0);
/// # Ok::<(), updraft_precision::PrecisionError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Parity {
    /// `max |x − r|`; NaN if one of them has a NaN that the other does not have.
    pub max_abs: f64,
    /// `max |x − r| / max |r|`.
    pub max_rel: f64,
    /// `x·r / (|x||r|)`; 1 for two zero results.
    pub cosine: f64,
    /// `10·log₁₀(Σr² / Σ(x − r)²)` in decibels; infinite for equal results.
    pub sqnr_db: f64,
    /// `20·log₁₀(max |r| / sqrt(mean (x − r)²))` in decibels; infinite for equal results.
    pub psnr_db: f64,
}

impl Parity {
    /// Compares a result with its reference, both in f32 or both in f64.
    ///
    /// # Errors
    /// [`PrecisionError::Length`] if they differ in length.
    pub fn between<T: Copy + Into<f64>>(
        reference: &[T],
        result: &[T],
    ) -> Result<Self, PrecisionError> {
        if reference.len() != result.len() {
            let (expected, found) = (reference.len(), result.len());
            return Err(PrecisionError::Length { expected, found });
        }
        let (mut max_abs, mut peak) = (0.0_f64, 0.0_f64);
        let (mut noise, mut signal, mut power, mut product) = (0.0, 0.0, 0.0, 0.0);
        for (&r, &x) in reference.iter().zip(result) {
            let (r, x): (f64, f64) = (r.into(), x.into());
            let same = r == x || (r.is_nan() && x.is_nan());
            let difference = if same { 0.0 } else { (x - r).abs() };
            // `f64::max` would swallow a NaN.
            max_abs =
                if difference > max_abs || difference.is_nan() { difference } else { max_abs };
            peak = peak.max(r.abs());
            noise += difference * difference;
            signal += r * r;
            power += x * x;
            product += r * x;
        }
        let mean_noise = noise / reference.len().max(1) as f64;
        let cosine = if signal == 0.0 && power == 0.0 {
            1.0
        } else {
            product / (signal.sqrt() * power.sqrt())
        };
        Ok(Self {
            max_abs,
            max_rel: if max_abs == 0.0 { 0.0 } else { max_abs / peak },
            cosine,
            sqnr_db: if noise == 0.0 { f64::INFINITY } else { 10.0 * (signal / noise).log10() },
            psnr_db: if noise == 0.0 {
                f64::INFINITY
            } else {
                20.0 * (peak / mean_noise.sqrt()).log10()
            },
        })
    }
}

impl fmt::Display for Parity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "max abs {:.2e}, max rel {:.2e}, cosine {:.6}, SQNR {:.1} dB, PSNR {:.1} dB",
            self.max_abs, self.max_rel, self.cosine, self.sqnr_db, self.psnr_db
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_results_are_infinitely_close() {
        let parity = Parity::between(&[1.0, -2.0, f32::NAN], &[1.0, -2.0, f32::NAN]);
        let parity = parity.expect("same length");
        assert_eq!((parity.max_abs, parity.max_rel), (0.0, 0.0));
        assert_eq!(parity.sqnr_db, f64::INFINITY);
    }

    #[test]
    fn values_follow_the_formulae() {
        let parity = Parity::between(&[3.0, 4.0], &[3.0, 5.0]).expect("same length");
        assert_eq!((parity.max_abs, parity.max_rel), (1.0, 0.25));
        assert!((parity.cosine - 29.0 / (5.0 * 34.0_f64.sqrt())).abs() < 1e-12);
        assert!((parity.sqnr_db - 10.0 * 25.0_f64.log10()).abs() < 1e-9);
        assert!((parity.psnr_db - 20.0 * (4.0 / 0.5_f64.sqrt()).log10()).abs() < 1e-9);
    }

    #[test]
    fn a_nan_in_one_result_alone_shows() {
        let parity = Parity::between(&[1.0, 2.0], &[f32::NAN, 2.0]).expect("same length");
        assert!(parity.max_abs.is_nan(), "{parity}");
    }

    #[test]
    fn different_lengths_are_refused() {
        let refused = Parity::between(&[1.0], &[]);
        assert_eq!(refused, Err(PrecisionError::Length { expected: 1, found: 0 }));
    }
}
