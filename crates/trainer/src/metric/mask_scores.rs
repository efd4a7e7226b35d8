//! Overlap of predicted and true masks, per class.

use burn::tensor::{FloatDType, Int, Tensor};
use serde::{Deserialize, Serialize};

use super::score::Score;
use crate::loss::{MaskActivation, assert_belong};

/// f32 holds every integer below 2²⁴, so a count is read as two numbers, of its low 16 bits and of
/// the others.
const LOW_BITS: u32 = 16;
const LOW: u32 = 1 << LOW_BITS;

/// Dice and intersection over union of each class, over the positions of all samples together.
///
/// Class 0 is the background; with [`MaskActivation::Sigmoid`] there are class 0 and class 1.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct MaskScores {
    classes: Vec<Overlap>,
}

/// The positions of a class.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
struct Overlap {
    /// Positions where it is both predicted and true.
    both: u64,
    predicted: u64,
    target: u64,
}

impl MaskScores {
    /// The numbers that [`Score::add`] takes for a batch: for each class how many positions are
    /// predicted and true, predicted, and true, each as two numbers.
    ///
    /// With softmax the channel of the largest logit is predicted, with sigmoid class 1 where the
    /// probability is at least ½. Counts are exact for batches of less than 2³¹ positions, in
    /// every dtype of the logits.
    ///
    /// # Shapes
    /// - `logits`: `[batch, channels, positions]`
    /// - `labels`: `[batch, positions]`, each below the number of channels; 0 or 1 with sigmoid
    /// - returns: `[6 · classes]`
    ///
    /// # Panics
    /// If the shapes do not match, or the channels are not those of the activation.
    #[must_use]
    pub fn measure(
        logits: &Tensor<3>,
        labels: &Tensor<2, Int>,
        activation: MaskActivation,
    ) -> Tensor<1> {
        assert_belong(logits, labels, activation);
        let [_, channels, _] = logits.dims();
        let logits = logits.clone();
        let (classes, predicted) = match activation {
            MaskActivation::Softmax => (channels, logits.argmax(1)),
            MaskActivation::Sigmoid => (2, logits.greater_equal_elem(0.0).int()),
        };
        let predicted = predicted.squeeze_dim::<2>(1);
        let counts = (0..classes).flat_map(|class| {
            let predicted = predicted.clone().equal_elem(class as i64);
            let target = labels.clone().equal_elem(class as i64);
            let both = predicted.clone().bool_and(target.clone());
            [both, predicted, target].map(|each| each.int().sum())
        });
        let counts = Tensor::cat(counts.collect(), 0);
        let high = counts.clone().bitwise_right_shift_scalar(LOW_BITS);
        let low = counts.bitwise_and_scalar(LOW - 1);
        Tensor::stack::<2>(vec![high, low], 1).flatten::<1>(0, 1).cast(FloatDType::F32)
    }

    /// The number of classes, the background included; 0 before the first sample.
    #[must_use]
    pub const fn classes(&self) -> usize {
        self.classes.len()
    }

    /// `2·both / (predicted + true)` of a class; `None` if it is neither predicted nor true.
    #[must_use]
    pub fn dice(&self, class: usize) -> Option<f64> {
        self.classes.get(class)?.dice()
    }

    /// Intersection over union, `both / (predicted + true − both)`, of a class; `None` if it is
    /// neither predicted nor true.
    #[must_use]
    pub fn iou(&self, class: usize) -> Option<f64> {
        self.classes.get(class)?.iou()
    }

    /// The mean [`dice`](Self::dice) of the classes except the background, of those that are
    /// predicted or true anywhere; `None` without any.
    #[must_use]
    pub fn mean_dice(&self) -> Option<f64> {
        self.mean(Overlap::dice)
    }

    /// The mean [`iou`](Self::iou) of the classes except the background, of those that are
    /// predicted or true anywhere; `None` without any.
    #[must_use]
    pub fn mean_iou(&self) -> Option<f64> {
        self.mean(Overlap::iou)
    }

    fn mean(&self, metric: impl Fn(&Overlap) -> Option<f64>) -> Option<f64> {
        let each: Vec<f64> = self.classes.iter().skip(1).filter_map(metric).collect();
        (!each.is_empty()).then(|| each.iter().sum::<f64>() / each.len() as f64)
    }

    fn grow(&mut self, classes: usize) {
        self.classes.resize_with(classes.max(self.classes.len()), Overlap::default);
    }
}

impl Score for MaskScores {
    fn add(&mut self, numbers: &[f64], _: usize) {
        let (classes, _) = numbers.as_chunks::<6>();
        self.grow(classes.len());
        for (own, numbers) in self.classes.iter_mut().zip(classes) {
            let count = |at: usize| numbers[at] as u64 * u64::from(LOW) + numbers[at + 1] as u64;
            own.add(Overlap { both: count(0), predicted: count(2), target: count(4) });
        }
    }

    fn merge(&mut self, other: &Self) {
        self.grow(other.classes.len());
        for (own, other) in self.classes.iter_mut().zip(&other.classes) {
            own.add(*other);
        }
    }
}

impl Overlap {
    const fn add(&mut self, other: Self) {
        self.both += other.both;
        self.predicted += other.predicted;
        self.target += other.target;
    }

    fn dice(&self) -> Option<f64> {
        let sum = self.predicted + self.target;
        (sum > 0).then(|| 2.0 * self.both as f64 / sum as f64)
    }

    fn iou(&self) -> Option<f64> {
        let union = self.predicted + self.target - self.both;
        (union > 0).then(|| self.both as f64 / union as f64)
    }
}

#[cfg(test)]
mod tests {
    use burn::tensor::Device;
    use updraft_testing::devices;

    use super::*;

    fn score(
        logits: &Tensor<3>,
        labels: &Tensor<2, Int>,
        activation: MaskActivation,
    ) -> MaskScores {
        let numbers = MaskScores::measure(logits, labels, activation);
        let numbers: Vec<f64> = numbers.into_data().iter().collect();
        let mut score = MaskScores::default();
        score.add(&numbers, logits.dims()[0]);
        score
    }

    #[test]
    fn overlaps_counted_by_hand() {
        for device in devices() {
            // Predicted: 1 1 0 2 and 0 1 0 0; true: 1 0 0 1 and 0 1 1 0; of four classes.
            let one = |class: i64| {
                Tensor::<1, Int>::arange(0..4, &device).equal_elem(class).float().reshape([1, 4, 1])
            };
            let sample = |classes: [i64; 4]| Tensor::cat(classes.map(one).into(), 2);
            let logits = Tensor::cat(vec![sample([1, 1, 0, 2]), sample([0, 1, 0, 0])], 0);
            let labels = Tensor::<2, Int>::from_ints([[1, 0, 0, 1], [0, 1, 1, 0]], &device);
            let found = score(&logits, &labels, MaskActivation::Softmax);
            assert_eq!(found.classes(), 4);
            assert_eq!(found.dice(0), Some(6.0 / 8.0));
            assert_eq!(found.dice(1), Some(4.0 / 7.0));
            assert_eq!(found.dice(2), Some(0.0));
            assert_eq!((found.dice(3), found.dice(4)), (None, None));
            assert_eq!(found.iou(1), Some(2.0 / 5.0));
            assert_eq!((found.iou(2), found.iou(3)), (Some(0.0), None));
            assert_eq!(found.mean_dice(), Some(2.0 / 7.0));
            assert_eq!(found.mean_iou(), Some(1.0 / 5.0));

            let logits = Tensor::<3>::from_floats([[[0.0, 3.0, -1.0, -0.1]]], &device);
            let labels = Tensor::<2, Int>::from_ints([[1, 0, 1, 0]], &device);
            let found = score(&logits, &labels, MaskActivation::Sigmoid);
            assert_eq!((found.dice(0), found.dice(1)), (Some(0.5), Some(0.5)));
            assert_eq!((found.mean_dice(), found.mean_iou()), (Some(0.5), Some(1.0 / 3.0)));
        }
    }

    #[test]
    fn without_foreground_there_is_no_mean() {
        assert_eq!(MaskScores::default().mean_dice(), None);
        let device = Device::flex();
        let empty = Tensor::<3>::full([1, 1, 5], -1.0, &device);
        let found = score(&empty, &Tensor::zeros([1, 5], &device), MaskActivation::Sigmoid);
        assert_eq!((found.dice(0), found.mean_dice(), found.mean_iou()), (Some(1.0), None, None));
    }

    #[test]
    fn counts_beyond_the_integers_of_f32_are_exact_also_from_half_precision() {
        let device = Device::flex();
        let count = (1 << 24) + 3;
        let logits = Tensor::<3>::ones([1, 1, 1], &device).cast(FloatDType::F16);
        let logits = logits.expand([1, 1, count]);
        let labels = Tensor::<2, Int>::ones([1, 1], &device).expand([1, count]);
        let found = score(&logits, &labels, MaskActivation::Sigmoid);
        let all = count as u64;
        assert_eq!(found.classes[1], Overlap { both: all, predicted: all, target: all });
        assert_eq!(found.classes[0], Overlap::default());
    }

    #[test]
    fn merged_parts_are_the_whole_and_come_back() {
        for device in devices() {
            let values = updraft_testing::scattered(5, 3 * 2 * 50);
            let logits = Tensor::<1>::from_floats(&values[..], &device).reshape([3, 2, 50]);
            let labels = logits.clone().narrow(1, 0, 1).squeeze_dim::<2>(1);
            let labels = labels.lower_elem(0.3).int();
            let part = |first, count| {
                let (logits, labels) = (
                    logits.clone().narrow(0, first, count),
                    labels.clone().narrow(0, first, count),
                );
                score(&logits, &labels, MaskActivation::Softmax)
            };
            let mut merged = part(0, 1);
            merged.merge(&part(1, 2));
            let whole = part(0, 3);
            assert_eq!(merged, whole);
            let text = serde_json::to_string(&whole).expect("JSON");
            assert_eq!(serde_json::from_str::<MaskScores>(&text).expect("a score"), whole);
        }
    }

    #[test]
    #[should_panic(expected = "one label for each position of the logits")]
    fn labels_of_other_positions_are_refused() {
        let device = Device::flex();
        let labels = Tensor::<2, Int>::zeros([1, 3], &device);
        let logits = Tensor::<3>::zeros([1, 2, 4], &device);
        let _ = MaskScores::measure(&logits, &labels, MaskActivation::Softmax);
    }
}
