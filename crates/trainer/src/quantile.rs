//! Quantiles of measured times.

/// A quantile of sorted values, interpolated between neighbors; NaN without values.
pub(crate) fn quantile(sorted: &[f64], at: f64) -> f64 {
    let Some(last) = sorted.len().checked_sub(1) else { return f64::NAN };
    let place = at * last as f64;
    let (low, high) = (sorted[place.floor() as usize], sorted[place.ceil() as usize]);
    low + (high - low) * place.fract()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_interpolated() {
        let sorted = [1.0, 2.0, 4.0, 8.0];
        assert_eq!([0.0, 0.5, 1.0].map(|at| quantile(&sorted, at)), [1.0, 3.0, 8.0]);
        assert!(quantile(&[], 0.5).is_nan());
    }
}
