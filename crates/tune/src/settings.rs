//! Settings of a study.

use serde::{Deserialize, Serialize};

use crate::error::TuneError;
use crate::objective::Objective;
use crate::sampler::check_grid;
use crate::space::Space;

/// The largest number of trials that a setting counts.
const MOST_TRIALS: u64 = 100_000;

/// The largest number of candidates, each of which is compared with all trials.
const MOST_CANDIDATES: u64 = 10_000;

/// The largest number of values for a range of a grid, which has at most as many points.
const MOST_VALUES: u64 = 1_000_000;

/// The largest number of steps that a pruner counts.
const MOST_STEPS: u64 = 1_000_000_000;

/// The sampler, which chooses the points.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum SamplerSettings {
    /// A multivariate tree-structured Parzen estimator (TPE).
    Tpe {
        /// Random trials before the estimator is used, 1 to 100000.
        #[serde(default = "ten")]
        startup: usize,
        /// Candidates from which the next point is chosen, 1 to 10000.
        #[serde(default = "twenty_four")]
        candidates: usize,
    },
    /// NSGA-II, an evolutionary sampler.
    #[serde(rename = "nsga-ii")]
    Evolution {
        /// Trials per generation, 2 to 100000.
        #[serde(default = "fifty")]
        population: usize,
    },
    /// Uniformly random points.
    Random {},
    /// Every combination, in a random order.
    Grid {
        /// Number of values for a range without steps, 2 to 1000000.
        #[serde(default = "five")]
        points: usize,
    },
}

// Optuna's defaults.
const fn ten() -> usize {
    10
}

const fn twenty_four() -> usize {
    24
}

const fn fifty() -> usize {
    50
}

const fn five() -> usize {
    5
}

const fn one() -> u64 {
    1
}

const fn three() -> u64 {
    3
}

const fn four() -> u64 {
    4
}

/// The pruner, which stops trials that do worse than others.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum PrunerSettings {
    /// Stops trials that are worse than the median of the finished trials at the same step.
    Median {
        /// Finished trials before the first is pruned, 1 to 100000.
        #[serde(default = "five_trials")]
        startup: usize,
        /// Steps of a trial before it can be pruned, at most 1000000000.
        #[serde(default)]
        warmup: u64,
    },
    /// Stops trials that are not among the best at a rung; each rung is `reduction` times later
    /// than the one before.
    SuccessiveHalving {
        /// The step of the first rung, 1 to 1000000000.
        #[serde(default = "one")]
        first: u64,
        /// The reduction factor: one of `reduction` trials continues, 2 to 100000.
        #[serde(default = "four")]
        reduction: u64,
    },
    /// Successive halving with several brackets, which start at different rungs and take trials in
    /// turn.
    Hyperband {
        /// The step of the earliest rung, 1 to 1000000000.
        #[serde(default = "one")]
        first: u64,
        /// The reduction factor: one of `reduction` trials continues, 2 to 100000.
        #[serde(default = "three")]
        reduction: u64,
    },
}

const fn five_trials() -> usize {
    5
}

/// The settings of a study: space, objectives and method.
#[derive(Debug, Clone, PartialEq)]
pub struct StudySettings {
    /// The search space.
    pub space: Space,
    /// The objectives, at least one.
    pub objectives: Vec<Objective>,
    /// The sampler, which chooses the points.
    pub sampler: SamplerSettings,
    /// The pruner, which stops trials early; it needs a single objective.
    pub pruner: Option<PrunerSettings>,
    /// Steps of a complete trial, which pruners need.
    pub steps: u64,
    /// The seed of the sampler.
    pub seed: u64,
    /// The number of trials of the study, including those of earlier calls.
    pub trials: u64,
    /// How often a trial is started if its process ends without a result: a limit for trials that
    /// bring down their machine.
    pub attempts: u64,
    /// Settings that all trials share; a study can be continued only with equal ones.
    pub shared: serde_json::Value,
    /// A digest of the data of the trials, or another text that differs for other data; a study can be
    /// continued only with the same.
    pub data: String,
}

impl StudySettings {
    /// Checks the counts of the sampler and of the pruner, and the points of a grid.
    pub(crate) fn check(&self) -> Result<(), TuneError> {
        match self.sampler {
            SamplerSettings::Tpe { startup, candidates } => {
                check("tune.sampler.startup", startup as u64, 1, MOST_TRIALS)?;
                check("tune.sampler.candidates", candidates as u64, 1, MOST_CANDIDATES)?;
            }
            SamplerSettings::Evolution { population } => {
                check("tune.sampler.population", population as u64, 2, MOST_TRIALS)?;
            }
            SamplerSettings::Random {} => {}
            SamplerSettings::Grid { points } => {
                check("tune.sampler.points", points as u64, 2, MOST_VALUES)?;
                check_grid(&self.space, points)?;
            }
        }
        match self.pruner {
            None => Ok(()),
            Some(PrunerSettings::Median { startup, warmup }) => {
                check("tune.pruner.startup", startup as u64, 1, MOST_TRIALS)?;
                check("tune.pruner.warmup", warmup, 0, MOST_STEPS)
            }
            Some(
                PrunerSettings::SuccessiveHalving { first, reduction }
                | PrunerSettings::Hyperband { first, reduction },
            ) => {
                check("tune.pruner.first", first, 1, MOST_STEPS)?;
                check("tune.pruner.reduction", reduction, 2, MOST_TRIALS)
            }
        }
    }
}

fn check(key: &str, count: u64, least: u64, most: u64) -> Result<(), TuneError> {
    if (least..=most).contains(&count) {
        return Ok(());
    }
    Err(TuneError::setting(key, count, format!("{least} to {most}")))
}
