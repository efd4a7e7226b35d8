//! Observes a tensor batch by batch, and determines its scheme.

use serde::{Deserialize, Serialize};

use super::histogram::Histogram;
use super::range;
use crate::scheme::{ActivationScheme, SchemeError};

/// The method that determines a range from the observed numbers.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Calibration {
    /// From the least number to the greatest.
    MinMax,
    /// The middle part of all numbers, as a fraction: `0.9999` excludes one in 20 000 on each
    /// side.
    #[serde(with = "fraction")]
    Percentile(f64),
    /// The range whose codes lose the least information, by the Kullback–Leibler divergence.
    Entropy,
    /// The range whose codes have the least mean squared error.
    MeanSquaredError,
}

/// A fraction in JSON to its last bit.
mod fraction {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use crate::network::Exact;

    pub(super) fn serialize<S: Serializer>(value: &f64, to: S) -> Result<S::Ok, S::Error> {
        Exact(*value).serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
        Exact::deserialize(from).map(|Exact(value)| value)
    }
}

/// Errors of an observer.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ObserveError {
    /// NaN or infinity.
    #[error("number {index} of the batch is {value}; calibration data must be finite")]
    NotFinite {
        /// Its index in the batch.
        index: usize,
        /// The value.
        value: f32,
    },
    /// There were no numbers.
    #[error("no number was seen; calibrate with at least one batch")]
    Empty,
    /// The percentile is not a fraction.
    #[error(
        "the percentile {fraction} is not between 0 and 1; 0.9999 keeps 99.99 % of all numbers"
    )]
    Percentile {
        /// What was asked for.
        fraction: f64,
    },
    /// The range has no scheme.
    #[error(transparent)]
    Scheme(#[from] SchemeError),
}

/// The observed statistics of one tensor: a few numbers, and 32 KiB for a histogram.
///
/// The result depends on the numbers, not on their order or batches.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Observer {
    calibration: Calibration,
    count: u64,
    low: f32,
    high: f32,
    histogram: Option<Histogram>,
}

impl Observer {
    /// An empty observer.
    ///
    /// # Errors
    /// [`ObserveError::Percentile`] for a fraction that is not above 0 and at most 1.
    pub(crate) fn try_new(calibration: Calibration) -> Result<Self, ObserveError> {
        if let Calibration::Percentile(fraction) = calibration
            && !(fraction > 0.0 && fraction <= 1.0)
        {
            return Err(ObserveError::Percentile { fraction });
        }
        let histogram = (calibration != Calibration::MinMax).then(Histogram::new);
        Ok(Self { calibration, count: 0, low: f32::INFINITY, high: f32::NEG_INFINITY, histogram })
    }

    /// Adds a batch.
    ///
    /// # Errors
    /// [`ObserveError::NotFinite`] for NaN or infinity; the batch is then ignored.
    pub(crate) fn observe(&mut self, values: &[f32]) -> Result<(), ObserveError> {
        let Some([low, high]) = ends(values) else {
            let index = values.iter().position(|value| !value.is_finite()).unwrap_or_default();
            return Err(ObserveError::NotFinite { index, value: values[index] });
        };
        (self.low, self.high) = (self.low.min(low), self.high.max(high));
        self.count += values.len() as u64;
        if let Some(histogram) = &mut self.histogram {
            histogram.add(values);
        }
        Ok(())
    }

    /// The number of values.
    pub(crate) const fn count(&self) -> u64 {
        self.count
    }

    /// The minimum and the maximum, if there are numbers.
    pub(crate) fn seen(&self) -> Option<[f32; 2]> {
        (self.count > 0).then_some([self.low, self.high])
    }

    /// The scheme of the observed numbers.
    ///
    /// # Errors
    /// [`ObserveError::Empty`] if there were no numbers, [`ObserveError::Scheme`] if all were zero.
    pub(crate) fn scheme(&self) -> Result<ActivationScheme, ObserveError> {
        let [low, high] = self.seen().ok_or(ObserveError::Empty)?;
        // Ranges that the histogram cannot improve or represent.
        let whole = ActivationScheme::try_from_range(low, high)?;
        let Some(histogram) = &self.histogram else { return Ok(whole) };
        let [low, high] = match self.calibration {
            Calibration::MinMax => [low, high],
            Calibration::Percentile(fraction) => {
                range::percentile(histogram, [low, high], self.count, fraction)
            }
            Calibration::Entropy => range::best(histogram, [low, high], range::divergence),
            Calibration::MeanSquaredError => {
                range::best(histogram, [low, high], range::squared_error)
            }
        };
        // A percentile of numbers that are nearly all zero may exclude all others.
        Ok(ActivationScheme::try_from_range(low, high).unwrap_or(whole))
    }
}

/// The minimum and the maximum, reversed infinities if there are no numbers; `None`
/// if one is not finite.
fn ends(values: &[f32]) -> Option<[f32; 2]> {
    // Independent chains, because in a single one each step waits for the previous one.
    const LANES: usize = 32;
    let (mut low, mut high) = ([f32::INFINITY; LANES], [f32::NEG_INFINITY; LANES]);
    // `0 · value` is 0, or NaN for non-finite values.
    let mut zeros = [0.0; LANES];
    let mut look = |lane: usize, value: f32| {
        low[lane] = if value < low[lane] { value } else { low[lane] };
        high[lane] = if value > high[lane] { value } else { high[lane] };
        zeros[lane] += 0.0 * value;
    };
    let (whole, rest) = values.as_chunks::<LANES>();
    for values in whole {
        values.iter().enumerate().for_each(|(lane, &value)| look(lane, value));
    }
    rest.iter().enumerate().for_each(|(lane, &value)| look(lane, value));
    let least = low.into_iter().fold(f32::INFINITY, f32::min);
    let greatest = high.into_iter().fold(f32::NEG_INFINITY, f32::max);
    zeros.iter().all(|&zero| zero == 0.0).then_some([least, greatest])
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Calibration; 4] = [
        Calibration::MinMax,
        Calibration::Percentile(0.999),
        Calibration::Entropy,
        Calibration::MeanSquaredError,
    ];

    /// Normally distributed numbers, as sums of twelve uniform ones, with standard deviation 1.
    fn bell(count: usize) -> Vec<f32> {
        let mut state = 88_172_645_463_325_252_u64;
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 40) as f32 / (1_u64 << 24) as f32
        };
        (0..count).map(|_| (0..12).map(|_| next()).sum::<f32>() - 6.0).collect()
    }

    fn scheme(calibration: Calibration, values: &[f32]) -> ActivationScheme {
        let mut observer = Observer::try_new(calibration).expect("valid");
        observer.observe(values).expect("finite");
        observer.scheme().expect("a scheme")
    }

    fn squared_error(scheme: ActivationScheme, values: &[f32]) -> f64 {
        let error = |&value: &f32| f64::from(value - scheme.real(scheme.code(value))).powi(2);
        values.iter().map(error).sum::<f64>() / values.len() as f64
    }

    #[test]
    fn a_far_outlier_is_kept_by_min_max_alone() {
        let mut values = bell(50_000);
        values.push(500.0);
        let [whole, percentile, entropy, squared] =
            ALL.map(|calibration| scheme(calibration, &values).range()[1]);
        assert!((whole - 500.0).abs() < 2.0, "{whole}");
        assert!(percentile < 5.0, "{percentile}");
        // Where each bin of 1/4 has a code of its own, codes lose nothing that the bins have.
        assert!(entropy <= 64.0, "{entropy}");
        assert!(squared > percentile, "{squared}");
    }

    #[test]
    fn the_range_of_least_squares_has_the_least_error_of_all() {
        let mut values = bell(20_000);
        values.extend([9.0, -11.0]);
        let errors = ALL.map(|calibration| squared_error(scheme(calibration, &values), &values));
        for (error, calibration) in errors.iter().zip(ALL) {
            assert!(errors[3] <= error * 1.02, "{calibration:?} {error} < {}", errors[3]);
        }
    }

    #[test]
    fn zeros_that_a_rectifier_gives_do_not_shrink_the_range_of_least_divergence() {
        let rectified: Vec<f32> = bell(50_000).iter().map(|value| (value - 1.0).max(0.0)).collect();
        let alive: Vec<f32> = rectified.iter().copied().filter(|&value| value > 0.0).collect();
        assert!(alive.len() < rectified.len() / 5);
        let entropy = scheme(Calibration::Entropy, &rectified);
        assert_eq!(entropy, scheme(Calibration::Entropy, &alive));
        let whole = scheme(Calibration::MinMax, &rectified);
        let [entropy, whole] = [entropy, whole].map(|scheme| squared_error(scheme, &rectified));
        assert!(entropy < 2.0 * whole, "{entropy} {whole}");
    }

    #[test]
    fn a_percentile_by_hand() {
        // 0 to 9999 in equal numbers; a fraction of 0.9 leaves out 500 on each side, but zero stays.
        let values: Vec<f32> = (0..10_000).map(|value| value as f32).collect();
        let [low, high] = scheme(Calibration::Percentile(0.9), &values).range();
        assert_eq!(low, 0.0);
        assert!((high - 9500.0).abs() < 10.0, "{high}");
        let [low, high] = scheme(Calibration::Percentile(1.0), &values).range();
        assert_eq!(low, 0.0);
        assert!((high - 9999.0).abs() < 1.0, "{high}");
    }

    #[test]
    fn the_order_of_the_batches_changes_nothing() {
        let values: Vec<f32> = bell(4_000).into_iter().map(|value| value * value).collect();
        for calibration in ALL {
            let mut forward = Observer::try_new(calibration).expect("valid");
            let mut backward = forward.clone();
            values.chunks(7).for_each(|part| forward.observe(part).expect("finite"));
            values.chunks(1000).rev().for_each(|part| backward.observe(part).expect("finite"));
            assert_eq!(forward, backward);
            assert_eq!(forward.scheme(), backward.scheme());
        }
    }

    #[test]
    fn bad_data_is_refused_with_its_place_and_counts_for_nothing() {
        for calibration in ALL {
            let mut observer = Observer::try_new(calibration).expect("valid");
            assert_eq!(observer.scheme(), Err(ObserveError::Empty));
            observer.observe(&[1.0, 2.0]).expect("finite");
            let before = observer.clone();
            let message = observer.observe(&[7.0, f32::NAN]).expect_err("not finite").to_string();
            assert!(message.contains("number 1 of the batch is NaN"), "{message}");
            observer.observe(&[f32::NEG_INFINITY]).expect_err("not finite");
            assert_eq!(observer, before);
            let mut zeros = Observer::try_new(calibration).expect("valid");
            zeros.observe(&[0.0; 9]).expect("finite");
            let message = zeros.scheme().expect_err("only zero").to_string();
            assert!(message.contains("only zero"), "{message}");
        }
        for fraction in [0.0, -1.0, 1.1, f64::NAN] {
            let error = Observer::try_new(Calibration::Percentile(fraction));
            assert!(error.expect_err("no fraction").to_string().contains("between 0 and 1"));
        }
    }

    #[test]
    fn few_numbers_keep_nearly_all_of_their_range() {
        let values: Vec<f32> = (0..200).map(|i| (i * 37 % 200) as f32 / 100.0 - 1.0).collect();
        for calibration in ALL {
            let [low, high] = scheme(calibration, &values).range();
            assert!(low < -0.95 && high > 0.95, "{calibration:?}: [{low}, {high}]");
        }
    }

    #[test]
    fn the_ends_are_found_wherever_they_lie() {
        for len in [0, 1, 31, 32, 33, 97] {
            let mut values = vec![0.5; len];
            assert_eq!(ends(&values).map(|[low, high]| low > high), Some(len == 0));
            for at in 0..len {
                for (end, right) in [(-3.0, [-3.0, 0.5]), (3.0, [0.5, 3.0])] {
                    values[at] = end;
                    let right = if len == 1 { [end; 2] } else { right };
                    assert_eq!(ends(&values), Some(right), "{end} at {at} of {len}");
                }
                for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
                    values[at] = bad;
                    assert_eq!(ends(&values), None, "{bad} at {at} of {len}");
                }
                values[at] = 0.5;
            }
        }
    }

    #[test]
    fn a_constant_has_a_scheme_that_holds_it() {
        for calibration in ALL {
            for value in [3.0, -0.125] {
                let scheme = scheme(calibration, &[value; 100]);
                assert!((scheme.real(scheme.code(value)) - value).abs() < 0.01 * value.abs());
            }
        }
    }
}
