//! Statistics of repeated timings: the median and the spread.

use serde::{Deserialize, Serialize};

/// Median and spread of a sample.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct Summary {
    pub(crate) median: f64,
    /// Half of the interquartile range, as a share of the median.
    pub(crate) spread: f64,
    pub(crate) least: f64,
}

impl Summary {
    /// The summary of at least one value; `None` of nothing.
    pub(crate) fn of(values: &[f64]) -> Option<Self> {
        let least = values.iter().copied().min_by(f64::total_cmp)?;
        let [low, median, high] = quartiles(values)?;
        Some(Self { median, spread: (high - low) / 2.0 / median, least })
    }
}

/// The lower quartile, the median and the upper quartile of at least one value; `None` of nothing.
pub(crate) fn quartiles(values: &[f64]) -> Option<[f64; 3]> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    (!sorted.is_empty()).then(|| [0.25, 0.5, 0.75].map(|share| quantile(&sorted, share)))
}

/// A quantile of sorted values, interpolated between neighbours (Hyndman and Fan 1996, type 7).
fn quantile(sorted: &[f64], share: f64) -> f64 {
    let at = share * (sorted.len() - 1) as f64;
    let (below, above) = (at.floor() as usize, at.ceil() as usize);
    sorted[below] + (sorted[above] - sorted[below]) * at.fract()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_does_not_see_an_outlier() {
        let summary = Summary::of(&[10.0, 12.0, 11.0, 900.0, 9.0]).expect("values");
        assert_eq!(summary, Summary { median: 11.0, spread: 1.0 / 11.0, least: 9.0 });
        assert_eq!(Summary::of(&[]), None);
        assert_eq!(Summary::of(&[1.0, 2.0]).expect("values").median, 1.5);
    }
}
