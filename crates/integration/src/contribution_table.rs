//! Means of the contributions over many images, of each class and of all.

use serde::{Deserialize, Serialize};

use crate::contribution::{Contribution, PlaceContributions};
use crate::weights::Place;

/// The mean of the contributions of some images.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct MeanContribution {
    /// The number of images.
    pub images: usize,
    /// The mean of each number.
    pub mean: Contribution,
}

/// The means at one place.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlaceMeans {
    /// Where the streams were integrated.
    pub place: Place,
    /// Of all images.
    pub overall: MeanContribution,
    /// Of the images of each class; `None` for a class without images.
    pub classes: Vec<Option<MeanContribution>>,
}

/// Sums of contributions in f64, added in the order of the images: the same images in the same
/// order give the same means, in batches of any size if the network computes them alike.
///
/// # Example
/// ```
/// use burn::tensor::{Device, Tensor};
/// use updraft_integration::{ContributionTable, DualPathwayConfig, Place};
///
/// let device = Device::flex();
/// device.seed(7);
/// let net = DualPathwayConfig::new(3, 4).init(&device);
/// let mut table = ContributionTable::new(3);
/// for labels in [[0, 2], [2, 2]] {
///     let images = Tensor::random([2, 3, 16, 16], Default::default(), &device);
///     table.add(&net.contributions(images), &labels);
/// }
/// let places = table.places();
/// assert_eq!(places[2].place, Place::Pooled);
/// assert_eq!(places[2].overall.images, 4);
/// assert!(places[2].classes[1].is_none());
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct ContributionTable {
    classes: usize,
    places: Vec<PlaceSums>,
}

#[derive(Debug, Clone, PartialEq)]
struct PlaceSums {
    place: Place,
    classes: Vec<Option<MeanContribution>>,
}

impl ContributionTable {
    /// A table without images.
    pub const fn new(classes: usize) -> Self {
        Self { classes, places: Vec::new() }
    }

    /// Adds the images of a batch.
    ///
    /// # Panics
    /// If there is not one label for each sample, a label is not below the number of classes, or the
    /// places differ from those of an earlier batch.
    pub fn add(&mut self, contributions: &[PlaceContributions], labels: &[usize]) {
        for &label in labels {
            assert!(label < self.classes, "label {label} of {} classes", self.classes);
        }
        if labels.is_empty() {
            return;
        }
        if self.places.is_empty() {
            let place = |of: &PlaceContributions| of.place;
            let classes = vec![None; self.classes];
            let sums = |place| PlaceSums { place, classes: classes.clone() };
            self.places = contributions.iter().map(place).map(sums).collect();
        }
        assert_eq!(contributions.len(), self.places.len(), "the places of an earlier batch");
        for (sums, PlaceContributions { place, samples }) in
            self.places.iter_mut().zip(contributions)
        {
            assert_eq!(*place, sums.place, "the places of an earlier batch");
            assert_eq!(samples.len(), labels.len(), "one label for each sample");
            for (sample, &label) in samples.iter().zip(labels) {
                let one = MeanContribution { images: 1, mean: *sample };
                let sum = &mut sums.classes[label];
                *sum = Some(sum.map_or(one, |sum| sum.plus(one)));
            }
        }
    }

    /// The means, in the order of the integrations; empty without images.
    pub fn places(&self) -> Vec<PlaceMeans> {
        let means = |sums: &PlaceSums| {
            let all = sums.classes.iter().copied().flatten();
            Some(PlaceMeans {
                place: sums.place,
                overall: all.reduce(MeanContribution::plus)?.divided(),
                classes: sums
                    .classes
                    .iter()
                    .map(|sum| sum.map(MeanContribution::divided))
                    .collect(),
            })
        };
        self.places.iter().filter_map(means).collect()
    }
}

/// While it is summed, `mean` is the sum.
impl MeanContribution {
    fn plus(self, other: Self) -> Self {
        Self { images: self.images + other.images, mean: self.mean.plus(other.mean) }
    }

    fn divided(self) -> Self {
        Self { mean: self.mean.over(self.images as f64), ..self }
    }
}

#[cfg(test)]
mod tests {
    use updraft_testing::{assert_close, tolerance};

    use super::*;
    use crate::contribution::StreamValues;

    /// With a weight, a share, and whether a stream arrives.
    fn sample(weight: f64, share: f64, stream: Option<f64>) -> Contribution {
        let rest = 1.0 - weight - stream.unwrap_or(0.0);
        Contribution {
            weights: StreamValues { color: weight, brightness: rest, stream },
            shares: StreamValues { color: share, brightness: 0.25, stream },
            mix: 0.75 - share - stream.unwrap_or(0.0),
            entropy: 2.0 * weight,
        }
    }

    fn batch(samples: [(f64, f64); 2]) -> Vec<PlaceContributions> {
        let of = |stream| samples.map(|(weight, share)| sample(weight, share, stream)).to_vec();
        vec![
            PlaceContributions { place: Place::Stage(0), samples: of(None) },
            PlaceContributions { place: Place::Pooled, samples: of(Some(0.125)) },
        ]
    }

    #[test]
    fn the_means_of_classes_are_those_by_hand() {
        let mut table = ContributionTable::new(3);
        assert!(table.places().is_empty());
        table.add(&batch([(0.5, 0.1), (0.25, 0.2)]), &[2, 0]);
        table.add(&batch([(0.75, 0.3), (0.0, 0.4)]), &[2, 2]);
        table.add(&[], &[]);
        let places = table.places();
        assert_eq!(places.len(), 2);
        for (means, stream) in places.iter().zip([None, Some(0.125)]) {
            let class = |label: usize| means.classes[label].expect("a class with images");
            assert_eq!(means.classes[1], None);
            assert_eq!((means.overall.images, class(0).images, class(2).images), (4, 1, 3));
            let numbers = |mean: Contribution| {
                [mean.weights.color, mean.shares.color, mean.shares.brightness, mean.entropy]
            };
            let expected = [0.25, 0.2, 0.25, 0.5];
            assert_close(&numbers(class(0).mean), &expected, tolerance::F64);
            // (0.5 + 0.75 + 0)/3 and (0.1 + 0.3 + 0.4)/3.
            let expected = [1.25 / 3.0, 0.8 / 3.0, 0.25, 2.5 / 3.0];
            assert_close(&numbers(class(2).mean), &expected, tolerance::F64);
            let expected = [0.375, 0.25, 0.25, 0.75];
            assert_close(&numbers(means.overall.mean), &expected, tolerance::F64);
            assert_eq!(means.overall.mean.shares.stream, stream);
            let mix = 0.75 - 0.25 - stream.unwrap_or(0.0);
            assert_close(&means.overall.mean.mix, &mix, tolerance::F64);
        }
        assert_eq!([places[0].place, places[1].place], [Place::Stage(0), Place::Pooled]);
    }

    #[test]
    #[should_panic(expected = "label 3 of 3 classes")]
    fn a_label_of_no_class_is_refused() {
        ContributionTable::new(3).add(&batch([(0.5, 0.1), (0.25, 0.2)]), &[0, 3]);
    }

    #[test]
    #[should_panic(expected = "one label for each sample")]
    fn labels_of_another_batch_are_refused() {
        ContributionTable::new(3).add(&batch([(0.5, 0.1), (0.25, 0.2)]), &[0]);
    }
}
