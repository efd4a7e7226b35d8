//! Scores of runs that differ by their seed only, as the tolerance for runs that end on fewer ranks.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use updraft_run::{RunFolder, read_metrics};

/// Seeds of the runs that the undisturbed one is compared with.
pub(super) const SEEDS: [u64; 4] = [101, 102, 103, 104];

/// What the last epoch of a run has scored on the test data.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Scores {
    loss: f64,
    /// Of tasks that have one, with the share of one sample.
    accuracy: Option<(f64, f64)>,
}

impl Scores {
    pub(super) fn of(run: &Path) -> Result<Self> {
        let lines = read_metrics(&RunFolder::open(run)?)?.lines;
        let last = lines.iter().rfind(|line| line["event"] == "epoch");
        let test = &last.context("the run has no epoch")?["test"];
        let loss = test["loss"].as_f64().context("the run has no test loss")?;
        let samples = test["samples"].as_f64().context("the run has no test samples")?;
        Ok(Self { loss, accuracy: test["accuracy"].as_f64().map(|share| (share, 1.0 / samples)) })
    }
}

/// What a run may end with that was resumed on another number of ranks.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Noise {
    /// The loss of the undisturbed run, and the largest distance to it of a run with another seed.
    loss: (f64, f64),
    /// The same of the accuracy, plus one sample, because the test data of a trial is small.
    accuracy: Option<(f64, f64)>,
}

/// Distances from the undisturbed run as shares of the tolerances.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Distance {
    pub(crate) loss: f64,
    /// Of tasks that have an accuracy.
    pub(crate) accuracy: Option<f64>,
}

impl Distance {
    /// The larger ones of both.
    pub(super) fn farthest(self, other: Self) -> Self {
        let accuracies = self.accuracy.into_iter().chain(other.accuracy);
        Self { loss: self.loss.max(other.loss), accuracy: accuracies.reduce(f64::max) }
    }

    /// The larger one of loss and accuracy.
    pub(super) fn most(self) -> f64 {
        self.accuracy.unwrap_or_default().max(self.loss)
    }
}

impl Noise {
    /// The distances of the scores with other seeds from the undisturbed run's.
    pub(super) fn of(undisturbed: Scores, others: &[Scores]) -> Self {
        let loss = |scores: &Scores| scores.loss;
        let largest = |of: &dyn Fn(&Scores) -> f64| {
            let distances = others.iter().map(|other| (of(other) - of(&undisturbed)).abs());
            distances.fold(0.0, f64::max)
        };
        let accuracy = undisturbed.accuracy.map(|(share, sample)| {
            let of = |scores: &Scores| scores.accuracy.map_or(f64::NAN, |(share, _)| share);
            (share, largest(&of) + sample)
        });
        Self { loss: (undisturbed.loss, largest(&loss)), accuracy }
    }

    /// The distances of a run's scores.
    ///
    /// # Errors
    /// For more than a tolerance, or a score that is not finite.
    pub(super) fn distance(self, scores: Scores) -> Result<Distance> {
        let accuracy = match (self.accuracy, scores.accuracy) {
            (Some(expected), Some((share, _))) => Some(share_of("accuracy", expected, share)?),
            _ => None,
        };
        Ok(Distance { loss: share_of("loss", self.loss, scores.loss)?, accuracy })
    }
}

fn share_of(name: &str, (expected, tolerance): (f64, f64), found: f64) -> Result<f64> {
    let distance = (found - expected).abs();
    ensure!(
        distance <= tolerance,
        "the test {name} is {found}; the undisturbed run has {expected}, and runs with other seeds \
         allow {tolerance} of difference"
    );
    Ok(if distance == 0.0 { 0.0 } else { distance / tolerance })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scores(loss: f64, accuracy: f64) -> Scores {
        Scores { loss, accuracy: Some((accuracy, 0.125)) }
    }

    #[test]
    fn scores_as_near_as_those_of_other_seeds_are_accepted() {
        let others = [scores(0.4, 0.75), scores(0.75, 0.25), scores(0.5, 0.5)];
        let noise = Noise::of(scores(0.5, 0.5), &others);
        let near = |loss, accuracy| noise.distance(scores(loss, accuracy)).unwrap();
        assert_eq!(near(0.5, 0.5), Distance { loss: 0.0, accuracy: Some(0.0) });
        assert_eq!(near(0.75, 0.125), Distance { loss: 1.0, accuracy: Some(1.0) });
        assert_eq!(near(0.375, 0.875), Distance { loss: 0.5, accuracy: Some(1.0) });
        for (far, expected) in [
            (scores(0.2, 0.5), "loss is 0.2; the undisturbed run has 0.5"),
            (scores(0.5, 1.0), "accuracy is 1; the undisturbed run has 0.5"),
            (scores(f64::NAN, 0.5), "loss is NaN"),
        ] {
            let error = noise.distance(far).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
        let alike = Scores { loss: 0.5, accuracy: None };
        assert_eq!(Noise::of(alike, &[alike]).distance(alike).unwrap(), Distance::default());
    }

    #[test]
    fn the_farthest_has_the_larger_share_of_each() {
        let [near, far] =
            [(0.25, Some(0.5)), (0.75, None)].map(|(loss, accuracy)| Distance { loss, accuracy });
        let both = near.farthest(far);
        assert_eq!(both, Distance { loss: 0.75, accuracy: Some(0.5) });
        assert_eq!((near.most(), both.most()), (0.5, 0.75));
    }
}
