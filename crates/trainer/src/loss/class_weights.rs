//! Weights for rare classes.

/// A weight for each class, `samples / (classes · count)`: all classes together count the same.
///
/// A class without samples has weight 0. This is scikit-learn's `class_weight="balanced"`.
#[must_use]
pub fn balanced_weights(counts: &[u64]) -> Vec<f32> {
    let samples: u64 = counts.iter().sum();
    let share = samples as f64 / counts.len().max(1) as f64;
    weights(counts, |count| share / count as f64)
}

/// A weight for each class, `(1 − β) / (1 − βⁿ)` for `n` samples, scaled to a mean of 1 over the
/// classes that have samples: between no weights at `beta` 0 and
/// [`balanced_weights`] as `beta` goes to 1.
///
/// A class without samples has weight 0.
///
/// # Panics
/// If `beta` is not at least 0 and below 1.
///
/// # Source
/// Cui et al. 2019, arXiv:1901.05555, equation 2.
#[must_use]
pub fn effective_number_weights(counts: &[u64], beta: f64) -> Vec<f32> {
    assert!((0.0..1.0).contains(&beta), "beta is at least 0 and below 1, not {beta}");
    let raw = |count: u64| {
        // 1 − βⁿ, without cancellation for powers close to 1.
        (1.0 - beta) / -(count as f64 * beta.ln()).exp_m1()
    };
    let present: Vec<f64> =
        counts.iter().filter(|count| **count > 0).map(|&count| raw(count)).collect();
    let mean = present.iter().sum::<f64>() / present.len().max(1) as f64;
    weights(counts, |count| raw(count) / mean)
}

fn weights(counts: &[u64], weight: impl Fn(u64) -> f64) -> Vec<f32> {
    counts.iter().map(|&count| if count == 0 { 0.0 } else { weight(count) as f32 }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_known_by_hand() {
        // sklearn.utils.class_weight.compute_class_weight("balanced") of 6, 3 and 1 samples.
        let balanced = balanced_weights(&[6, 3, 1]);
        for (weight, expected) in balanced.iter().zip([10.0 / 18.0, 10.0 / 9.0, 10.0 / 3.0]) {
            assert!((f64::from(*weight) - expected).abs() < 1e-6, "{balanced:?}");
        }
        assert_eq!(balanced_weights(&[4, 0]), [0.5, 0.0]);
        assert_eq!(effective_number_weights(&[6, 3, 0], 0.0), [1.0, 1.0, 0.0]);
        // β = ½: ½/(1 − ¼) = ⅔ and ½/½ = 1, of mean ⅚.
        let half = effective_number_weights(&[2, 1], 0.5);
        assert!((half[0] - 0.8).abs() < 1e-6 && (half[1] - 1.2).abs() < 1e-6, "{half:?}");
        let nearly = effective_number_weights(&[2_000_000, 1_000_000], 0.999_999_999_9);
        assert!((nearly[1] / nearly[0] - 2.0).abs() < 1e-3, "{nearly:?}");
    }
}
