//! What each pathway of a trained network contributes to its test images, in the run's folder.

use serde::{Deserialize, Serialize};
use updraft_integration::{Contribution, PlaceMeans, StreamValues};
use updraft_trainer::{checkpoint_step, export_hash};

use crate::config::Plan;
use crate::error::RunError;
use crate::folder::RunFolder;

/// The mean contributions of the pathways of a network to its test images, at every place where it
/// integrates them, of all images and of those of each class.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Contributions {
    /// In the order of the means of a place.
    classes: Vec<String>,
    /// In the order of the integrations.
    places: Vec<PlaceMeans>,
}

/// A term of the sum that an integration is, in means over images.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct Term {
    /// `color`, `brightness`, `stream`, which is the integrated one from the place before, or
    /// `mix`.
    pub name: &'static str,
    /// The weight as applied; those of a place sum to one. `None` for the nonlinear mix.
    pub weight: Option<f64>,
    /// The Euclidean norm of the weighted term as a fraction of the sum of those of all terms.
    pub share: f64,
}

/// The terms at one place.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct PlaceTerms {
    /// Its name, such as `stage 0` or `pooled`.
    pub place: String,
    /// The number of images.
    pub images: usize,
    /// The terms of all images.
    pub overall: Vec<Term>,
    /// The mean entropy of the weights of an image, in nats.
    pub entropy: f64,
    /// The terms of the images of each class; `None` for a class without images.
    pub classes: Vec<Option<Vec<Term>>>,
}

/// The content of the file.
#[derive(Serialize, Deserialize)]
struct Stored {
    /// The step of the checkpoint whose contributions they are.
    checkpoint: Option<u64>,
    /// SHA-256 of its weights.
    weights: String,
    #[serde(flatten)]
    contributions: Contributions,
}

impl Contributions {
    /// The file of a run's folder that they are in.
    pub const FILE: &str = "contributions.json";

    /// The means of the places of a network; `None` without a place, or if a number is not finite,
    /// which JSON does not have.
    pub(crate) fn of(classes: &[String], places: Vec<PlaceMeans>) -> Option<Self> {
        let means = places.iter().flat_map(|place| {
            let classes = place.classes.iter().flatten();
            std::iter::once(&place.overall).chain(classes).map(|means| &means.mean)
        });
        let is_finite = means.clone().all(is_finite) && means.count() > 0;
        is_finite.then(|| Self { classes: classes.to_vec(), places })
    }

    /// The classes of the images.
    #[must_use]
    pub fn classes(&self) -> &[String] {
        &self.classes
    }

    /// The terms at each place, in the order of the integrations.
    #[must_use]
    pub fn places(&self) -> Vec<PlaceTerms> {
        let place = |means: &PlaceMeans| PlaceTerms {
            place: means.place.to_string(),
            images: means.overall.images,
            overall: terms(&means.overall.mean),
            entropy: means.overall.mean.entropy,
            classes: means
                .classes
                .iter()
                .map(|class| class.as_ref().map(|class| terms(&class.mean)))
                .collect(),
        };
        self.places.iter().map(place).collect()
    }

    /// Whether the mean weights of a class differ from those of all images: those of networks whose
    /// gates are static do not.
    #[must_use]
    pub fn weights_depend_on_the_class(&self) -> bool {
        // Means of equal numbers differ by rounding.
        const ROUNDING: f64 = 1e-9;
        self.places.iter().any(|place| {
            let all = numbers(&place.overall.mean.weights);
            let classes = place.classes.iter().flatten();
            let mut pairs = classes.flat_map(|class| numbers(&class.mean.weights).zip(all.clone()));
            pairs.any(|(of_class, of_all)| (of_class - of_all).abs() > ROUNDING)
        })
    }

    /// Writes them into the folder of a run whose served model they are of.
    pub(crate) fn write(self, folder: &RunFolder, plan: &Plan) -> Result<(), RunError> {
        let (checkpoint, weights) = served(folder, plan)?;
        folder.write_json(Self::FILE, &Stored { checkpoint, weights, contributions: self })
    }
}

impl RunFolder {
    /// The contributions of the pathways of the run's served model to its test images; `None` for a
    /// run that is not finished, or whose network has no pathways.
    ///
    /// # Errors
    /// [`RunError::Unusable`] for those of another model than the served one, [`RunError::Io`] or
    /// [`RunError::Json`] for a file that cannot be read, and as
    /// [`served_checkpoint`](Self::served_checkpoint).
    pub fn contributions(&self, plan: &Plan) -> Result<Option<Contributions>, RunError> {
        if !self.has(Contributions::FILE) {
            return Ok(None);
        }
        let stored: Stored = self.read_json(Contributions::FILE)?;
        let (checkpoint, weights) = served(self, plan)?;
        if (stored.checkpoint, &stored.weights) == (checkpoint, &weights) {
            return Ok(Some(stored.contributions));
        }
        let step = |step: Option<u64>| step.map_or("none".to_owned(), |step| step.to_string());
        Err(RunError::Unusable {
            reason: format!(
                "`{}` is of other weights, those of step {}, than the served ones, those of step \
                 {}; the end of a training writes it again",
                self.path().join(Contributions::FILE).display(),
                step(stored.checkpoint),
                step(checkpoint),
            ),
        })
    }
}

/// The step and the hash of the weights of the served model.
fn served(folder: &RunFolder, plan: &Plan) -> Result<(Option<u64>, String), RunError> {
    let path = folder.served_checkpoint(plan)?;
    let weights = export_hash(&path).map_err(|error| folder.advised(error))?;
    Ok((checkpoint_step(&path), weights))
}

fn terms(mean: &Contribution) -> Vec<Term> {
    let names = ["color", "brightness", "stream"].into_iter();
    let streams = names.zip(numbers(&mean.weights).zip(numbers(&mean.shares)));
    let streams = streams.map(|(name, (weight, share))| Term { name, weight: Some(weight), share });
    streams.chain([Term { name: "mix", weight: None, share: mean.mix }]).collect()
}

fn is_finite(mean: &Contribution) -> bool {
    let Contribution { weights, shares, mix, entropy } = mean;
    numbers(weights).chain(numbers(shares)).chain([*mix, *entropy]).all(f64::is_finite)
}

fn numbers(values: &StreamValues) -> impl Iterator<Item = f64> + Clone + use<> {
    let StreamValues { color, brightness, stream } = *values;
    [color, brightness].into_iter().chain(stream)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// A place with the mean color weights of all images and of two classes.
    fn place(all: f64, classes: [Option<f64>; 2]) -> PlaceMeans {
        let means = |color: f64| {
            json!({ "images": 2, "mean": {
                "weights": { "color": color, "brightness": 1.0 - color, "stream": null },
                "shares": { "color": 0.5, "brightness": 0.25, "stream": null },
                "mix": 0.25, "entropy": 0.5 } })
        };
        let classes: Vec<Value> =
            classes.into_iter().map(|class| class.map_or(Value::Null, means)).collect();
        let place = json!({ "place": "pooled", "overall": means(all), "classes": classes });
        serde_json::from_value(place).expect("a place")
    }

    fn of(places: Vec<PlaceMeans>) -> Option<Contributions> {
        Contributions::of(&["a".to_owned(), "b".to_owned()], places)
    }

    #[test]
    fn a_network_without_pathways_or_finite_numbers_has_none() {
        assert_eq!(of(Vec::new()), None);
        let mut infinite = place(0.5, [Some(0.5), None]);
        infinite.overall.mean.mix = f64::INFINITY;
        assert_eq!(of(vec![infinite]), None);
        assert!(of(vec![place(0.5, [Some(0.5), None])]).is_some());
    }

    #[test]
    fn the_terms_of_a_place_are_its_streams_and_the_mix() {
        let found = of(vec![place(0.75, [None, Some(0.75)])]).expect("finite");
        let [place] = &found.places()[..] else { panic!("one place") };
        assert_eq!((place.place.as_str(), place.images, place.entropy), ("pooled", 2, 0.5));
        let term = |name, weight, share| Term { name, weight, share };
        let expected = [
            term("color", Some(0.75), 0.5),
            term("brightness", Some(0.25), 0.25),
            term("mix", None, 0.25),
        ];
        assert_eq!(place.overall, expected);
        assert_eq!(place.classes, [None, Some(expected.to_vec())]);
        assert_eq!(found.classes(), ["a", "b"]);
    }

    #[test]
    fn rounding_is_no_dependence_on_the_class() {
        let depends = |first: f64| {
            let places = vec![place(0.5, [Some(first), None])];
            of(places).expect("finite").weights_depend_on_the_class()
        };
        assert!(!depends(0.5 + 1e-15) && depends(0.501));
    }
}
