//! The learning rate as a function of the step.

use serde::{Deserialize, Serialize};

use crate::error::TrainError;

/// How the learning rate moves over a run.
///
/// Every schedule answers with a factor in `[0, 1]` of the peak learning rate.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Schedule {
    /// The peak learning rate at every step.
    Constant,
    /// Linear warm-up to the peak, then half a cosine down to a floor.
    WarmupCosine {
        /// Share of all steps spent warming up, in `[0, 1)`.
        #[serde(default = "default_warmup")]
        warmup: f64,
        /// The last factor, in `[0, 1]`.
        #[serde(default)]
        floor: f64,
    },
}

/// A fifth of a short run, the share that one-cycle training of small nets uses
/// (Smith and Topin 2017, arXiv:1708.07120, take up to 45 %).
fn default_warmup() -> f64 {
    0.2
}

impl Schedule {
    /// Checks the ranges of the schedule's numbers.
    ///
    /// # Errors
    /// [`TrainError::Setting`] naming the number that is out of range.
    pub fn validate(&self) -> Result<(), TrainError> {
        let Self::WarmupCosine { warmup, floor } = *self else { return Ok(()) };
        if !(0.0..1.0).contains(&warmup) {
            return Err(TrainError::Setting {
                name: "schedule.warmup",
                value: warmup.to_string(),
                expected: "a share of all steps, at least 0 and below 1",
            });
        }
        if !(0.0..=1.0).contains(&floor) {
            return Err(TrainError::Setting {
                name: "schedule.floor",
                value: floor.to_string(),
                expected: "a factor between 0 and 1",
            });
        }
        Ok(())
    }

    /// The share of the peak learning rate at `step` of `steps`.
    ///
    /// With `w = round(warmup·steps)`: `(step + 1) / w` while `step < w`, then
    /// `floor + (1 − floor)·(1 + cos(π·(step − w)/(steps − w)))/2`.
    ///
    /// # Source
    /// Loshchilov and Hutter 2016, arXiv:1608.03983, equation 5 without restarts.
    #[must_use]
    pub fn factor(&self, step: u64, steps: u64) -> f64 {
        match *self {
            Self::Constant => 1.0,
            Self::WarmupCosine { warmup, floor } => {
                let steps = steps.max(1) as f64;
                let warm = (warmup * steps).round();
                let step = step as f64;
                if step < warm {
                    (step + 1.0) / warm
                } else {
                    let done = ((step - warm) / (steps - warm).max(1.0)).min(1.0);
                    floor + (1.0 - floor) * 0.5 * (1.0 + (std::f64::consts::PI * done).cos())
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warm_up_then_cosine_follows_the_formula() {
        let schedule = Schedule::WarmupCosine { warmup: 0.2, floor: 0.1 };
        let half = 0.1 + 0.9 * 0.5;
        for (step, expected) in [(0, 0.5), (1, 1.0), (2, 1.0), (6, half), (10, 0.1), (99, 0.1)] {
            let factor = schedule.factor(step, 10);
            assert!((factor - expected).abs() < 1e-12, "step {step}: {factor}, not {expected}");
        }
    }

    #[test]
    fn the_factor_never_leaves_its_range() {
        for (warmup, floor) in [(0.0, 0.0), (0.5, 0.0), (0.99, 1.0)] {
            let schedule = Schedule::WarmupCosine { warmup, floor };
            for steps in [0, 1, 2, 7, 100] {
                for step in 0..steps + 2 {
                    let factor = schedule.factor(step, steps);
                    assert!((0.0..=1.0).contains(&factor), "{schedule:?} {step}/{steps}: {factor}");
                }
            }
        }
    }

    #[test]
    fn a_warm_up_of_the_whole_run_is_refused() {
        let schedule = Schedule::WarmupCosine { warmup: 1.0, floor: 0.0 };
        let message = schedule.validate().expect_err("out of range").to_string();
        assert!(message.contains("schedule.warmup") && message.contains("below 1"), "{message}");
    }
}
