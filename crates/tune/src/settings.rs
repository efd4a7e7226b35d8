//! How a study searches.

use serde::{Deserialize, Serialize};

use crate::objective::Objective;
use crate::space::Space;

/// What chooses the points.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum SamplerSettings {
    /// A tree-structured Parzen estimator, multivariate.
    Tpe {
        /// Trials at random before it, at least 1.
        #[serde(default = "ten")]
        startup: usize,
        /// Points that compete to be the next, at least 1.
        #[serde(default = "twenty_four")]
        candidates: usize,
    },
    /// An evolution by ranks and distances.
    #[serde(rename = "nsga-ii")]
    Evolution {
        /// Trials of a generation, at least 2.
        #[serde(default = "fifty")]
        population: usize,
    },
    /// Each point at random.
    Random {},
    /// Every combination, in a random order.
    Grid {
        /// Values of a number without steps, at least 2.
        #[serde(default = "five")]
        points: usize,
    },
}

// Optuna's defaults, so that a study costs what its users expect.
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

/// What ends a trial that does worse than others.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum PrunerSettings {
    /// Worse than the median of the finished trials at the same step.
    Median {
        /// Finished trials before the first is pruned, at least 1.
        #[serde(default = "five_trials")]
        startup: usize,
        /// Steps of a trial before it can be pruned.
        #[serde(default)]
        warmup: u64,
    },
    /// Not among the best at a rung; the rungs are at powers of the reduction.
    SuccessiveHalving {
        /// The step of the first rung, at least 1.
        #[serde(default = "one")]
        first: u64,
        /// One of so many stays, at least 2.
        #[serde(default = "four")]
        reduction: u64,
    },
    /// Successive halving with several first rungs, which trials take in turn.
    Hyperband {
        /// The step of the earliest rung, at least 1.
        #[serde(default = "one")]
        first: u64,
        /// One of so many stays, at least 2.
        #[serde(default = "three")]
        reduction: u64,
    },
}

const fn five_trials() -> usize {
    5
}

/// A study: what is searched, for what, and how.
#[derive(Debug, Clone, PartialEq)]
pub struct StudySettings {
    /// What is searched.
    pub space: Space,
    /// What is looked for, at least one number.
    pub objectives: Vec<Objective>,
    /// What chooses the points.
    pub sampler: SamplerSettings,
    /// What ends trials early; with one objective only.
    pub pruner: Option<PrunerSettings>,
    /// Steps of a whole trial, which pruners count with.
    pub steps: u64,
    /// Seeds the sampler.
    pub seed: u64,
    /// How many trials the study has, those of earlier calls included.
    pub trials: u64,
    /// How often a trial is started whose process ends without a result.
    pub attempts: u64,
    /// What all trials share: a study goes on only with the same.
    pub shared: serde_json::Value,
}
