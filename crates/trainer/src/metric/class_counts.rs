//! How many samples are classified correctly.

use burn::tensor::{Int, Tensor};
use serde::{Deserialize, Serialize};

use super::named::{Direction, MetricSpec, Unit};
use super::score::Score;

/// How many samples are classified correctly, of how many.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ClassCounts {
    /// Samples whose largest logit is that of their class.
    pub correct: usize,
    /// All samples.
    pub samples: usize,
}

impl ClassCounts {
    /// The specification of [`accuracy`](Self::accuracy).
    #[must_use]
    pub fn spec() -> MetricSpec {
        MetricSpec::new("accuracy", Unit::Share, Direction::HigherIsBetter)
    }

    /// The number that [`Score::add`] takes for a batch: how many samples have their largest logit
    /// at their class, `[1]`.
    ///
    /// It is a float: batches stay far below 2²⁴ samples, up to which f32 counts exactly.
    ///
    /// # Shapes
    /// - `logits`: `[batch, classes]`
    /// - `classes`: `[batch]`
    #[must_use]
    pub fn measure(logits: &Tensor<2>, classes: &Tensor<1, Int>) -> Tensor<1> {
        let predicted = logits.clone().argmax(1).flatten::<1>(0, 1);
        predicted.equal(classes.clone()).float().sum()
    }

    /// The share of samples classified correctly; `None` before the first.
    #[must_use]
    pub fn accuracy(&self) -> Option<f64> {
        (self.samples > 0).then(|| self.correct as f64 / self.samples as f64)
    }
}

impl Score for ClassCounts {
    fn add(&mut self, numbers: &[f64], samples: usize) {
        self.correct += numbers.first().map_or(0, |&correct| correct as usize);
        self.samples += samples;
    }

    fn merge(&mut self, other: &Self) {
        self.correct += other.correct;
        self.samples += other.samples;
    }
}

#[cfg(test)]
mod tests {
    use updraft_testing::devices;

    use super::*;

    #[test]
    fn the_largest_logit_decides_and_parts_merge() {
        for device in devices() {
            let logits = Tensor::<2>::from_floats([[0.1, 0.9], [2.0, -1.0], [0.0, 0.5]], &device);
            let classes = Tensor::<1, Int>::from_ints([1, 0, 0], &device);
            let numbers: Vec<f64> =
                ClassCounts::measure(&logits, &classes).into_data().iter().collect();
            let mut counts = ClassCounts::default();
            assert_eq!(counts.accuracy(), None);
            counts.add(&numbers, 3);
            let mut both = ClassCounts { correct: 1, samples: 1 };
            both.merge(&counts);
            assert_eq!(both, ClassCounts { correct: 3, samples: 4 });
            assert_eq!(both.accuracy(), Some(0.75));
        }
    }
}
