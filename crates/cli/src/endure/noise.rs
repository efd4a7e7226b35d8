//! Losses of runs that differ by their seed only, as the tolerance for runs that end on fewer ranks.

use std::path::Path;

use anyhow::{Context, Result};
use updraft_run::{RunFolder, read_metrics};

/// Seeds of the runs that the undisturbed one is compared with.
pub(super) const SEEDS: [u64; 4] = [101, 102, 103, 104];

/// What a run may end with that was resumed on another number of ranks.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Noise {
    /// The test loss of the undisturbed run.
    loss: f64,
    /// The largest distance to it of a run with another seed.
    tolerance: f64,
}

impl Noise {
    /// The distances of the losses with other seeds from the undisturbed run's.
    pub(super) fn of(loss: f64, others: &[f64]) -> Self {
        let tolerance = others.iter().map(|other| (other - loss).abs()).fold(0.0, f64::max);
        Self { loss, tolerance }
    }

    /// The distance of a run's loss as a share of the tolerance.
    ///
    /// # Errors
    /// For more than the tolerance, or a loss that is not finite.
    pub(super) fn distance(self, loss: f64) -> Result<f64> {
        let distance = (loss - self.loss).abs();
        anyhow::ensure!(
            distance <= self.tolerance,
            "the test loss is {loss}; the undisturbed run has {}, and those with other seeds are at \
             most {} away",
            self.loss,
            self.tolerance
        );
        Ok(if distance == 0.0 { 0.0 } else { distance / self.tolerance })
    }
}

/// The test loss after the last epoch of a run.
pub(super) fn test_loss(run: &Path) -> Result<f64> {
    let lines = read_metrics(&RunFolder::open(run)?)?.lines;
    let last = lines.iter().rfind(|line| line["event"] == "epoch");
    last.and_then(|line| line["test"]["loss"].as_f64()).context("the run has no test loss")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loss_as_near_as_those_of_other_seeds_is_accepted() {
        let noise = Noise::of(0.5, &[0.4, 0.75, 0.5]);
        assert_eq!(noise.distance(0.5).unwrap(), 0.0);
        assert_eq!(noise.distance(0.75).unwrap(), 1.0);
        assert_eq!(noise.distance(0.375).unwrap(), 0.5);
        let error = noise.distance(0.2).unwrap_err().to_string();
        assert!(
            error.contains("is 0.2; the undisturbed run has 0.5") && error.contains("0.25 away")
        );
        assert!(noise.distance(f64::NAN).is_err());
        assert_eq!(Noise::of(0.5, &[0.5]).distance(0.5).unwrap(), 0.0);
    }
}
