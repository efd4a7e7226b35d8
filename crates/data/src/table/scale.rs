//! Scaling of a column of numbers, fitted on the training rows only.

use std::f64::consts::FRAC_1_SQRT_2;

use serde::{Deserialize, Serialize};

use crate::digest::Digest;
use crate::table::encoder::moments;

/// The largest number of values that a quantile scale stores.
const MOST_KNOTS: usize = 1000;

/// Φ is within f64's steps of 0 and 1 beyond ±9.
const FARTHEST_SCORE: f64 = 9.0;

/// How numbers are scaled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scaling {
    /// `(x − mean) / std`.
    Standard,
    /// By rank, to a normal distribution, without outliers.
    #[default]
    Quantile,
}

/// A scale fitted on the training rows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
#[non_exhaustive]
pub enum NumberScale {
    /// `(x − mean) / std`.
    Standard {
        /// The mean of the training rows.
        mean: f64,
        /// Their standard deviation, over `n`; 1 if they are all equal.
        std: f64,
    },
    /// Interpolated linearly between `values`, and constant beyond the first and the last.
    Quantile {
        /// Ascending values of the training rows, at most 1000.
        values: Vec<f64>,
        /// For each, `Φ⁻¹` of the fraction of training rows below it, equal ones counted half.
        scores: Vec<f64>,
    },
}

impl NumberScale {
    /// Fits the numbers that are not NaN; `None` if there are none.
    pub(super) fn fit(
        scaling: Scaling,
        numbers: impl Iterator<Item = f64> + Clone,
    ) -> Option<Self> {
        let is_number = |number: &f64| !number.is_nan();
        if !numbers.clone().any(|number| is_number(&number)) {
            return None;
        }
        Some(match scaling {
            Scaling::Standard => {
                let (mean, std) = moments(numbers);
                Self::Standard { mean, std }
            }
            Scaling::Quantile => {
                let mut sorted: Vec<f64> = numbers.filter(is_number).collect();
                sorted.sort_unstable_by(f64::total_cmp);
                Self::of_sorted(&sorted)
            }
        })
    }

    fn of_sorted(sorted: &[f64]) -> Self {
        let count = sorted.len();
        let mut knots: Vec<f64> = sorted.to_vec();
        // −0 and 0 are one value.
        knots.dedup_by(|a, b| *a == *b);
        if knots.len() > MOST_KNOTS {
            let at = |knot: usize| sorted[knot * (count - 1) / (MOST_KNOTS - 1)];
            knots = (0..MOST_KNOTS).map(at).collect();
            knots.dedup_by(|a, b| *a == *b);
        }
        let score = |knot: &f64| {
            let below = sorted.partition_point(|value| value < knot);
            let through = sorted.partition_point(|value| value <= knot);
            normal_score((below + through) as f64 / (2 * count) as f64)
        };
        let scores = knots.iter().map(score).collect();
        Self::Quantile { values: knots, scores }
    }

    /// Whether it is a scale that [`fit`](Self::fit) makes: finite, and rising.
    pub(super) fn is_valid(&self) -> bool {
        match self {
            Self::Standard { mean, std } => mean.is_finite() && std.is_finite() && *std > 0.0,
            Self::Quantile { values, scores } => {
                let is_finite = values.iter().chain(scores).all(|number| number.is_finite());
                let is_rising = values.windows(2).all(|pair| pair[0] < pair[1]);
                !values.is_empty() && values.len() == scores.len() && is_finite && is_rising
            }
        }
    }

    /// The number on the scale.
    #[must_use]
    pub fn encode(&self, number: f64) -> f32 {
        match self {
            Self::Standard { mean, std } => ((number - mean) / std) as f32,
            Self::Quantile { values, scores } => {
                let after = values.partition_point(|value| *value <= number);
                let score = match (after.checked_sub(1), values.get(after)) {
                    (None, _) => scores.first().copied().unwrap_or(0.0),
                    (Some(before), None) => scores[before],
                    (Some(before), Some(next)) => {
                        let share = (number - values[before]) / (next - values[before]);
                        scores[before] + share * (scores[after] - scores[before])
                    }
                };
                score as f32
            }
        }
    }

    /// The number of a scaled one, the nearest of the training rows beyond the ends of a quantile
    /// scale.
    #[must_use]
    pub fn decode(&self, scaled: f32) -> f64 {
        let scaled = f64::from(scaled);
        match self {
            Self::Standard { mean, std } => scaled * std + mean,
            Self::Quantile { values, scores } => {
                let after = scores.partition_point(|score| *score <= scaled);
                match (after.checked_sub(1), scores.get(after)) {
                    (None, _) => values.first().copied().unwrap_or(0.0),
                    (Some(before), None) => values[before],
                    (Some(before), Some(next)) => {
                        let share = (scaled - scores[before]) / (next - scores[before]);
                        values[before] + share * (values[after] - values[before])
                    }
                }
            }
        }
    }

    pub(super) fn add_to(&self, digest: Digest) -> Digest {
        let add = |digest: Digest, number: &f64| digest.bytes(&number.to_bits().to_le_bytes());
        match self {
            Self::Standard { mean, std } => [mean, std].into_iter().fold(digest, add),
            Self::Quantile { values, scores } => {
                let digest = digest.number(values.len());
                values.iter().chain(scores).fold(digest, add)
            }
        }
    }
}

/// `Φ⁻¹` of a share between 0 and 1, by bisection down to neighboring f64 values.
fn normal_score(share: f64) -> f64 {
    let (mut low, mut high) = (-FARTHEST_SCORE, FARTHEST_SCORE);
    loop {
        let middle = f64::midpoint(low, high);
        if middle <= low || middle >= high {
            return middle;
        }
        let below = 0.5 * libm::erfc(-middle * FRAC_1_SQRT_2);
        if below < share {
            low = middle;
        } else {
            high = middle;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_decoded_number_is_the_one_that_was_encoded() {
        let numbers = [3.0, 1.0, 1.0, 8.0, 2.5, 100.0];
        for scaling in [Scaling::Standard, Scaling::Quantile] {
            let scale = NumberScale::fit(scaling, numbers.into_iter()).expect("numbers");
            for number in [1.0, 2.0, 2.5, 7.0, 60.0, 100.0] {
                let found = scale.decode(scale.encode(number));
                assert!((found - number).abs() < 1e-4, "{scaling:?} {number}: {found}");
            }
        }
        let scale = NumberScale::fit(Scaling::Quantile, numbers.into_iter()).expect("numbers");
        assert_eq!((scale.decode(-9.0), scale.decode(9.0)), (1.0, 100.0));
    }

    fn fit(numbers: &[f64]) -> NumberScale {
        NumberScale::fit(Scaling::Quantile, numbers.iter().copied()).expect("numbers")
    }

    #[test]
    fn scores_are_those_of_tables_of_the_normal_distribution() {
        for (share, score) in [
            (0.5, 0.0),
            (0.841_344_746_068_542_9, 1.0),
            (0.975, 1.959_963_984_540_054),
            (0.001, -3.090_232_306_167_813),
        ] {
            assert!((normal_score(share) - score).abs() < 1e-12, "{share}");
        }
    }

    #[test]
    fn a_value_has_the_score_of_its_rank_and_ties_share_one() {
        let scale = fit(&[5.0, f64::NAN, 0.0, -0.0, 100.0]);
        // Shares 1/4, 5/8 and 7/8 of the four numbers.
        let expected = [-0.674_489_75, 0.318_639_36, 1.150_349_4_f32];
        for (number, expected) in [0.0, 5.0, 100.0].into_iter().zip(expected) {
            assert!((scale.encode(number) - expected).abs() < 1e-6, "{scale:?}");
        }
        assert!((scale.encode(2.5) - f32::midpoint(expected[0], expected[1])).abs() < 1e-6);
        for (far, near) in [(-1e300, 0.0), (1e300, 100.0)] {
            assert_eq!(scale.encode(far).to_bits(), scale.encode(near).to_bits());
        }
        assert!(fit(&[7.0, 7.0]).encode(7.0).abs() < 1e-15);
        assert!(NumberScale::fit(Scaling::Standard, [f64::NAN].into_iter()).is_none());
    }

    #[test]
    fn many_values_keep_their_order_on_few_knots() {
        let numbers: Vec<f64> = (0..5000).map(|at| f64::from(at * 7919 % 5000)).collect();
        let scale = fit(&numbers);
        let NumberScale::Quantile { values, .. } = &scale else { panic!("{scale:?}") };
        assert!(values.len() <= MOST_KNOTS && values[0] == 0.0 && values.ends_with(&[4999.0]));
        let scores: Vec<f32> = (0..5000).map(|at| scale.encode(f64::from(at))).collect();
        assert!(scores.windows(2).all(|pair| pair[0] < pair[1]));
        assert!(scores[2499].abs() < 1e-3, "{}", scores[2499]);
    }
}
