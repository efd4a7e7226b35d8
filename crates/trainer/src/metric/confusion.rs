//! The confusion matrix: how often each class is predicted for each true class.

use serde::{Deserialize, Serialize};

/// How often each class is predicted for samples of each class.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(try_from = "Stored")]
pub struct Confusion {
    classes: usize,
    /// Row by row: the samples of a class, by predicted class.
    counts: Vec<u64>,
}

/// The stored form of a matrix, which may have been edited.
#[derive(Deserialize)]
#[serde(rename = "Confusion")]
struct Stored {
    classes: usize,
    counts: Vec<u64>,
}

impl TryFrom<Stored> for Confusion {
    type Error = String;

    fn try_from(Stored { classes, counts }: Stored) -> Result<Self, String> {
        if classes.checked_mul(classes) == Some(counts.len()) {
            return Ok(Self { classes, counts });
        }
        Err(format!("a confusion matrix of {classes} classes has {} counts", counts.len()))
    }
}

impl Confusion {
    /// Counts a sample; both classes may be new.
    pub fn add(&mut self, target: usize, predicted: usize) {
        self.grow(target.max(predicted) + 1);
        self.counts[target * self.classes + predicted] += 1;
    }

    /// Adds the counts of another part of the data set.
    pub fn merge(&mut self, other: &Self) {
        self.grow(other.classes);
        for target in 0..other.classes {
            for predicted in 0..other.classes {
                self.counts[target * self.classes + predicted] += other.count(target, predicted);
            }
        }
    }

    /// The number of samples of a class that are predicted as another.
    #[must_use]
    pub fn count(&self, target: usize, predicted: usize) -> u64 {
        let is_there = target < self.classes && predicted < self.classes;
        if is_there { self.counts[target * self.classes + predicted] } else { 0 }
    }

    /// The share of samples whose class is predicted; `None` before the first.
    #[must_use]
    pub fn accuracy(&self) -> Option<f64> {
        let correct: u64 = (0..self.classes).map(|class| self.count(class, class)).sum();
        ratio(correct, self.counts.iter().sum())
    }

    /// The mean over the classes that have samples of the share predicted right.
    #[must_use]
    pub fn balanced_accuracy(&self) -> Option<f64> {
        let recalls = (0..self.classes)
            .filter_map(|class| ratio(self.count(class, class), self.support(class)));
        mean(recalls.map(|recall| (recall, 1.0)))
    }

    /// The mean F1 of the classes that samples have or that are predicted.
    #[must_use]
    pub fn macro_f1(&self) -> Option<f64> {
        mean(self.f1s().map(|(f1, _)| (f1, 1.0)))
    }

    /// The mean F1 of the classes, weighted by how many samples have each.
    #[must_use]
    pub fn weighted_f1(&self) -> Option<f64> {
        mean(self.f1s().map(|(f1, support)| (f1, support as f64)))
    }

    /// F1 and support of each class that samples have or that is predicted:
    /// `2·hits / (support + predicted)`.
    fn f1s(&self) -> impl Iterator<Item = (f64, u64)> {
        (0..self.classes).filter_map(|class| {
            let support = self.support(class);
            let predicted: u64 = (0..self.classes).map(|target| self.count(target, class)).sum();
            let f1 = ratio(2 * self.count(class, class), support + predicted)?;
            Some((f1, support))
        })
    }

    /// The number of samples of a class.
    fn support(&self, class: usize) -> u64 {
        (0..self.classes).map(|predicted| self.count(class, predicted)).sum()
    }

    fn grow(&mut self, classes: usize) {
        if classes > self.classes {
            let mut counts = vec![0; classes * classes];
            for target in 0..self.classes {
                let row = &self.counts[target * self.classes..][..self.classes];
                counts[target * classes..][..self.classes].copy_from_slice(row);
            }
            *self = Self { classes, counts };
        }
    }
}

fn ratio(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

/// The weighted mean of values; `None` without any.
fn mean(weighted: impl Iterator<Item = (f64, f64)>) -> Option<f64> {
    let (sum, weights) = weighted.fold((0.0, 0.0), |(sum, weights), (value, weight)| {
        (sum + value * weight, weights + weight)
    });
    (weights > 0.0).then(|| sum / weights)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stored_matrix_that_is_not_square_is_refused() {
        let mut confusion = Confusion::default();
        confusion.add(0, 1);
        let text = serde_json::to_string(&confusion).expect("text");
        assert_eq!(serde_json::from_str::<Confusion>(&text).expect("the same"), confusion);
        let edited = text.replace("\"classes\":2", "\"classes\":9007199254740992");
        let error = serde_json::from_str::<Confusion>(&edited).expect_err("refused").to_string();
        assert!(error.contains("of 9007199254740992 classes has 4 counts"), "{error}");
    }

    #[test]
    fn numbers_known_by_hand_and_parts_merge() {
        let pairs = [(0, 0), (0, 0), (0, 1), (1, 1), (1, 0), (2, 2)];
        let mut whole = Confusion::default();
        assert_eq!((whole.accuracy(), whole.macro_f1()), (None, None));
        let mut parts = [Confusion::default(), Confusion::default()];
        for (at, (target, predicted)) in pairs.into_iter().enumerate() {
            whole.add(target, predicted);
            parts[at % 2].add(target, predicted);
        }
        let [mut merged, other] = parts;
        merged.merge(&other);
        assert_eq!(merged, whole);
        assert_eq!(whole.accuracy(), Some(4.0 / 6.0));
        let balanced = (2.0 / 3.0 + 0.5 + 1.0) / 3.0;
        assert!((whole.balanced_accuracy().expect("samples") - balanced).abs() < 1e-15);
        // F1 of 4/6, 2/4 and 1.
        let expected = (4.0 / 6.0 + 0.5 + 1.0) / 3.0;
        assert!((whole.macro_f1().expect("samples") - expected).abs() < 1e-15);
        let expected = (3.0 * 4.0 / 6.0 + 2.0 * 0.5 + 1.0) / 6.0;
        assert!((whole.weighted_f1().expect("samples") - expected).abs() < 1e-15);
        let text = serde_json::to_string(&whole).expect("JSON");
        assert_eq!(serde_json::from_str::<Confusion>(&text).expect("counts"), whole);
    }
}
