//! Fused multiply-adds that wait for nothing: the most that one thread can compute in f32.
#![expect(unsafe_code, reason = "calls what the CPU was asked for")]

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::{
    _mm_add_ps, _mm_cvtss_f32, _mm_hadd_ps, _mm256_add_ps, _mm256_castps256_ps128,
    _mm256_extractf128_ps, _mm256_fmadd_ps, _mm256_set1_ps, _mm512_add_ps, _mm512_fmadd_ps,
    _mm512_reduce_add_ps, _mm512_set1_ps,
};

/// Chains that run side by side: latency 4 on two units needs 8, and 12 fit the registers.
const CHAINS: u64 = 12;

/// The widest way of this CPU to multiply and add.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Width {
    Avx512,
    Avx2,
    Scalar,
}

impl Width {
    /// What this CPU has.
    pub(crate) fn detect() -> Self {
        #[cfg(target_arch = "x86_64")]
        {
            if is_x86_feature_detected!("avx512f") {
                return Self::Avx512;
            }
            if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
                return Self::Avx2;
            }
        }
        Self::Scalar
    }

    /// Operations of one round of [`run`].
    pub(crate) const fn operations(self) -> u64 {
        let lanes = match self {
            Self::Avx512 => 16,
            Self::Avx2 => 8,
            Self::Scalar => 1,
        };
        2 * lanes * CHAINS
    }
}

/// Runs so many rounds of [`Width::operations`] each; the result depends on all of them.
pub(crate) fn run(width: Width, rounds: u64) -> f32 {
    match width {
        #[cfg(target_arch = "x86_64")]
        Width::Avx512 if is_x86_feature_detected!("avx512f") => {
            // SAFETY: the feature was just detected.
            unsafe { avx512(rounds) }
        }
        #[cfg(target_arch = "x86_64")]
        Width::Avx2 if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") => {
            // SAFETY: both features were just detected.
            unsafe { avx2(rounds) }
        }
        _ => scalar(rounds),
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
fn avx512(rounds: u64) -> f32 {
    let mut sums = [_mm512_set1_ps(0.0); CHAINS as usize];
    let (a, b) = (_mm512_set1_ps(0.999), std::hint::black_box(_mm512_set1_ps(0.001)));
    for _ in 0..rounds {
        for sum in &mut sums {
            *sum = _mm512_fmadd_ps(*sum, a, b);
        }
    }
    let total = sums.into_iter().fold(_mm512_set1_ps(0.0), |a, b| _mm512_add_ps(a, b));
    _mm512_reduce_add_ps(total)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn avx2(rounds: u64) -> f32 {
    let mut sums = [_mm256_set1_ps(0.0); CHAINS as usize];
    let (a, b) = (_mm256_set1_ps(0.999), std::hint::black_box(_mm256_set1_ps(0.001)));
    for _ in 0..rounds {
        for sum in &mut sums {
            *sum = _mm256_fmadd_ps(*sum, a, b);
        }
    }
    let total = sums.into_iter().fold(_mm256_set1_ps(0.0), |a, b| _mm256_add_ps(a, b));
    let four = _mm_add_ps(_mm256_castps256_ps128(total), _mm256_extractf128_ps::<1>(total));
    let two = _mm_hadd_ps(four, four);
    _mm_cvtss_f32(_mm_hadd_ps(two, two))
}

fn scalar(rounds: u64) -> f32 {
    let mut sums = [0.0_f32; CHAINS as usize];
    let (a, b) = (0.999_f32, std::hint::black_box(0.001_f32));
    for _ in 0..rounds {
        for sum in &mut sums {
            *sum = *sum * a + b;
        }
    }
    sums.iter().sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_width_computes_the_same_recurrence() {
        // sum ← 0.999·sum + 0.001 from 0 is 1 − 0.999ⁿ, here on all lanes of all chains.
        let expected = 1.0 - 0.999_f32.powi(1000);
        for width in [Width::Avx512, Width::Avx2, Width::Scalar] {
            let sums = run(width, 1000);
            let lanes = [1.0, 8.0, 16.0].map(|lanes| lanes * CHAINS as f32 * expected);
            assert!(lanes.iter().any(|all| (sums / all - 1.0).abs() < 1e-4), "{width:?}: {sums}");
        }
    }
}
