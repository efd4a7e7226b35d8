//! The calibration error: whether predictions are correct as often as their confidence says.

use serde::{Deserialize, Serialize};

use super::sum::Sum;

/// The number of confidence intervals, as in the paper.
const BINS: usize = 15;

/// Confidence and correctness of samples, in 15 intervals of the confidence.
///
/// # Source
/// Guo et al. 2017, arXiv:1706.04599, section 2.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Calibration {
    bins: [Bin; BINS],
}

#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
struct Bin {
    samples: u64,
    correct: u64,
    confidence: Sum,
}

impl Calibration {
    /// Adds a sample with the probability of its predicted class, and whether that is correct.
    pub fn add(&mut self, confidence: f64, is_correct: bool) {
        // The interval (k/15, (k + 1)/15].
        let at = (confidence * BINS as f64).ceil() as usize;
        let bin = &mut self.bins[at.clamp(1, BINS) - 1];
        bin.samples += 1;
        bin.correct += u64::from(is_correct);
        bin.confidence.add(confidence);
    }

    /// Adds the samples of another part of the data set.
    pub fn merge(&mut self, other: &Self) {
        for (own, other) in self.bins.iter_mut().zip(&other.bins) {
            own.samples += other.samples;
            own.correct += other.correct;
            own.confidence.add(other.confidence.value());
        }
    }

    /// The expected calibration error: the mean over samples of the distance between confidence and
    /// accuracy in their interval; `None` before the first.
    #[must_use]
    pub fn error(&self) -> Option<f64> {
        let samples: u64 = self.bins.iter().map(|bin| bin.samples).sum();
        let distance = |bin: &Bin| (bin.confidence.value() - bin.correct as f64).abs();
        (samples > 0).then(|| self.bins.iter().map(distance).sum::<f64>() / samples as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_is_the_distance_in_each_interval() {
        let mut calibration = Calibration::default();
        assert_eq!(calibration.error(), None);
        for (confidence, is_correct) in [(0.9, true), (0.92, false), (0.5, true), (1.0, true)] {
            let mut one = Calibration::default();
            one.add(confidence, is_correct);
            calibration.merge(&one);
        }
        // 0.9 and 0.92 share (13/15, 14/15].
        let expected = (0.82 + 0.5 + 0.0) / 4.0;
        assert!((calibration.error().expect("samples") - expected).abs() < 1e-12);
    }
}
