//! Quantiles of Student's t distribution.

/// The number that a variable with `freedom` degrees of freedom exceeds with probability `tail`,
/// which is below one half.
///
/// With `t = √ν·tan θ` the probability of `T > t` is half of `∫ cos^(ν−1)` from `θ` to `π/2` over the
/// same from `0`; `θ` is found by bisection.
pub(crate) fn upper_quantile(tail: f64, freedom: usize) -> f64 {
    let exponent = i32::try_from(freedom).unwrap_or(i32::MAX) - 1;
    let right = std::f64::consts::FRAC_PI_2;
    let from = |low: f64| simpson(|angle| angle.cos().max(0.0).powi(exponent), low, right);
    let half = from(0.0);
    let (mut low, mut high) = (0.0, right);
    for _ in 0..60 {
        let middle = (low + high) / 2.0;
        if from(middle) / half / 2.0 > tail {
            low = middle;
        } else {
            high = middle;
        }
    }
    (freedom as f64).sqrt() * low.tan()
}

/// The integral of a smooth function by Simpson's rule.
fn simpson(of: impl Fn(f64) -> f64, low: f64, high: f64) -> f64 {
    // The relative error at the tails used here is below 10⁻⁶ up to 100 degrees of freedom.
    const INTERVALS: usize = 400;
    let width = (high - low) / INTERVALS as f64;
    let inner = (1..INTERVALS).map(|index| {
        let weight = if index % 2 == 1 { 4.0 } else { 2.0 };
        weight * of(low + width * index as f64)
    });
    (of(low) + inner.sum::<f64>() + of(high)) * width / 3.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_the_printed_table() {
        for (tail, freedom, expected) in [
            (0.025, 1, 12.706),
            (0.01, 2, 6.965),
            (0.01, 4, 3.747),
            (0.0005, 5, 6.869),
            (0.0005, 10, 4.587),
            (0.05, 30, 1.697),
            (0.0005, 60, 3.460),
        ] {
            let found = upper_quantile(tail, freedom);
            assert!((found - expected).abs() < 6e-4, "{tail} {freedom}: {found}");
        }
    }
}
