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
        let mut sums = ParitySums::default();
        sums.add(reference, result)?;
        Ok(sums.parity())
    }

    /// `|x − r| / |r|` with Euclidean norms, which [`sqnr_db`](Self::sqnr_db) is in decibels.
    #[must_use]
    pub fn relative_error(&self) -> f64 {
        10.0_f64.powf(-self.sqnr_db / 20.0)
    }
}

/// A [`Parity`] of results that arrive in parts.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct ParitySums {
    count: usize,
    max_abs: f64,
    peak: f64,
    noise: f64,
    signal: f64,
    power: f64,
    product: f64,
}

impl ParitySums {
    /// Adds a part of the result with its reference.
    ///
    /// # Errors
    /// [`PrecisionError::Length`] if they differ in length.
    pub fn add<T: Copy + Into<f64>>(
        &mut self,
        reference: &[T],
        result: &[T],
    ) -> Result<(), PrecisionError> {
        if reference.len() != result.len() {
            let (expected, found) = (reference.len(), result.len());
            return Err(PrecisionError::Length { expected, found });
        }
        for (&r, &x) in reference.iter().zip(result) {
            let (r, x): (f64, f64) = (r.into(), x.into());
            let same = r == x || (r.is_nan() && x.is_nan());
            let difference = if same { 0.0 } else { (x - r).abs() };
            // `f64::max` would swallow a NaN.
            if difference > self.max_abs || difference.is_nan() {
                self.max_abs = difference;
            }
            self.peak = self.peak.max(r.abs());
            self.noise += difference * difference;
            self.signal += r * r;
            self.power += x * x;
            self.product += r * x;
        }
        self.count += reference.len();
        Ok(())
    }

    /// The comparison of all parts.
    #[must_use]
    pub fn parity(&self) -> Parity {
        let Self { count, max_abs, peak, noise, signal, power, product } = *self;
        let mean_noise = noise / count.max(1) as f64;
        let cosine = if signal == 0.0 && power == 0.0 {
            1.0
        } else {
            product / (signal.sqrt() * power.sqrt())
        };
        Parity {
            max_abs,
            max_rel: if max_abs == 0.0 { 0.0 } else { max_abs / peak },
            cosine,
            sqnr_db: if noise == 0.0 { f64::INFINITY } else { 10.0 * (signal / noise).log10() },
            psnr_db: if noise == 0.0 {
                f64::INFINITY
            } else {
                20.0 * (peak / mean_noise.sqrt()).log10()
            },
        }
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
    fn parts_are_compared_as_the_whole() {
        let (reference, result) = ([3.0, 4.0, -1.0], [3.0, 5.0, -1.5]);
        let whole = Parity::between(&reference, &result).expect("same length");
        let mut sums = ParitySums::default();
        sums.add(&reference[..2], &result[..2]).expect("same length");
        sums.add(&reference[2..], &result[2..]).expect("same length");
        assert_eq!(sums.parity(), whole);
        assert!((whole.relative_error() - (1.25_f64 / 26.0).sqrt()).abs() < 1e-12, "{whole}");
        let equal = Parity::between(&reference, &reference).expect("same length");
        assert_eq!(equal.relative_error(), 0.0);
    }

    #[test]
    fn a_nan_is_not_lost_to_a_later_part() {
        let mut sums = ParitySums::default();
        sums.add(&[1.0], &[f64::NAN]).expect("same length");
        sums.add(&[1.0], &[3.0]).expect("same length");
        assert!(sums.parity().max_abs.is_nan());
    }

    #[test]
    fn different_lengths_are_refused() {
        let refused = Parity::between(&[1.0], &[]);
        assert_eq!(refused, Err(PrecisionError::Length { expected: 1, found: 0 }));
    }
}
