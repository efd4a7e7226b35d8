//! Mixup: mixes each image with another one of its batch.

use serde::{Deserialize, Serialize};

use crate::digest::Digest;
use crate::error::DataError;
use crate::random::{Purpose, Random};

/// Mixes each sample of a batch with the one after it (the last with the first): `λ · x + (1 − λ) ·
/// x'`, and the classes likewise.
///
/// λ is drawn for each sample from the symmetric beta distribution with parameter `alpha`, as a
/// function of (seed, epoch, sample index); in a shuffled order the partner is random.
///
/// # Source
/// H. Zhang et al., "mixup: beyond empirical risk minimization", 2018, equation 1; there λ and the
/// partners are drawn per batch.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MixUp {
    /// Above 0, at most 10: near 0 few samples are mixed visibly, at 1 every λ is equally likely.
    pub alpha: f32,
}

impl MixUp {
    /// Checks `alpha`.
    ///
    /// # Errors
    /// [`DataError::Setting`] for an `alpha` that is not above 0 and at most 10.
    pub fn validate(self) -> Result<(), DataError> {
        if self.alpha > 0.0 && self.alpha <= 10.0 {
            return Ok(());
        }
        let (value, expected) = (self.alpha.to_string(), "above 0, at most 10".to_owned());
        Err(DataError::Setting { name: "mix_up.alpha", value, expected })
    }

    /// The sample's own share, λ.
    pub(crate) fn share(self, seed: u64, epoch: u64, index: usize) -> f32 {
        let mut random = Random::new(Purpose::MixUp, seed, epoch, index as u64);
        let alpha = f64::from(self.alpha);
        // X / (X + Y) is beta distributed when X and Y are gamma distributed; computed by the
        // difference of logarithms, which small alphas do not underflow.
        let difference = log_gamma_draw(alpha, &mut random) - log_gamma_draw(alpha, &mut random);
        (1.0 / (1.0 + (-difference).exp())) as f32
    }

    /// Mixes samples that lie one after the other, each `shares.len()`-th of `values`.
    pub(crate) fn mix(values: &mut [f32], shares: &[f32]) {
        let length = values.len() / shares.len();
        let first = values[..length].to_vec();
        for (at, &share) in shares.iter().enumerate() {
            let (own, rest) = values[at * length..].split_at_mut(length);
            let other = if at + 1 < shares.len() { &rest[..length] } else { &first };
            for (value, &other) in own.iter_mut().zip(other) {
                *value = other + share * (*value - other);
            }
        }
    }

    pub(crate) fn describe(self, digest: Digest) -> Digest {
        digest.text("mix up").float(self.alpha)
    }
}

/// The logarithm of a gamma distributed number.
///
/// # Source
/// G. Marsaglia, W. Tsang, "A simple method for generating gamma variables", 2000; shapes below 1
/// by `Γ(a) = Γ(a + 1) · U^(1/a)` of its section 6.
fn log_gamma_draw(shape: f64, random: &mut Random) -> f64 {
    let boost = if shape < 1.0 { random.open_unit().ln() / shape } else { 0.0 };
    let shape = if shape < 1.0 { shape + 1.0 } else { shape };
    let d = shape - 1.0 / 3.0;
    let c = 1.0 / (9.0 * d).sqrt();
    loop {
        let x = random.normal();
        let v = (1.0 + c * x).powi(3);
        let u = random.open_unit();
        if v > 0.0 && u.ln() < 0.5 * x * x + d - d * v + d * v.ln() {
            return boost + (d * v).ln();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shares(alpha: f32) -> Vec<f64> {
        let mix = MixUp { alpha };
        (0..20_000).map(|index| f64::from(mix.share(1, 0, index))).collect()
    }

    #[test]
    fn shares_have_the_moments_of_the_beta_distribution() {
        for alpha in [0.2_f32, 1.0, 4.0] {
            let shares = shares(alpha);
            let mean = shares.iter().sum::<f64>() / 20_000.0;
            let variance = shares.iter().map(|s| (s - mean).powi(2)).sum::<f64>() / 20_000.0;
            let expected = 1.0 / (4.0 * (2.0 * f64::from(alpha) + 1.0));
            // Four standard errors of 20,000 draws are below 0.013 and 0.004.
            assert!((mean - 0.5).abs() < 0.013, "{alpha}: {mean}");
            assert!((variance - expected).abs() < 0.004, "{alpha}: {variance} {expected}");
            assert!(shares.iter().all(|share| (0.0..=1.0).contains(share)));
        }
    }

    #[test]
    fn each_sample_is_mixed_with_the_unmixed_next_one() {
        let mut values = [0.0, 10.0, 100.0, 200.0, 4.0, 8.0];
        MixUp::mix(&mut values, &[0.5, 0.75, 0.25]);
        assert_eq!(values, [50.0, 105.0, 76.0, 152.0, 1.0, 9.5]);
        let mut alone = [3.0, 4.0];
        MixUp::mix(&mut alone, &[0.3]);
        assert_eq!(alone, [3.0, 4.0]);
    }

    #[test]
    fn the_first_shares_are_golden() {
        let shares: Vec<u32> = (0..4)
            .map(|index| (MixUp { alpha: 0.4 }.share(7, 0, index) * 1e6).round() as u32)
            .collect();
        assert_eq!(shares, [37_375, 161_366, 20_667, 158_241]);
    }
}
