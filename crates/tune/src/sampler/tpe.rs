//! The tree-structured Parzen estimator (TPE): proposes points that are likely under the density of
//! the good trials and unlikely under the density of the others.

use super::estimator::{Estimator, Weights};
use crate::front::covering;
use crate::objective::{Objective, losses};
use crate::random::Random;
use crate::space::{Parameter, Point, Space};
use crate::trial::{TrialRecord, TrialState};

/// The share of trials that count as good.
const GOOD_SHARE: f64 = 0.1;

/// The largest number of good trials with one objective.
const MOST_GOOD: usize = 25;

/// Settings of TPE.
#[derive(Debug, Clone, Copy)]
pub(super) struct Tpe {
    pub(super) startup: usize,
    pub(super) candidates: usize,
}

/// A uniformly random point.
pub(super) fn at_random(space: &Space, random: &mut Random) -> Point {
    space.point(|_, parameter| random_value(parameter, random))
}

/// A uniformly random value of a parameter.
pub(super) fn random_value(parameter: &Parameter, random: &mut Random) -> f64 {
    match parameter.choices() {
        Some(count) => random.below(count as u64) as f64,
        None => parameter.value(random.unit()),
    }
}

impl Tpe {
    /// The next point. Running trials count as bad, so that several workers do not try the same
    /// point.
    ///
    /// # Source
    /// Bergstra et al. 2011; multivariate as in Falkner et al. 2018; several objectives as in Ozaki
    /// et al. 2022; split and constants as in Optuna 5.0 (`samplers/_tpe/sampler.py`).
    pub(super) fn propose(
        self,
        space: &Space,
        objectives: &[Objective],
        trials: &[TrialRecord],
        random: &mut Random,
    ) -> Point {
        let known =
            |trial: &&TrialRecord| matches!(trial.state, TrialState::Finished | TrialState::Pruned);
        if trials.iter().filter(known).count() < self.startup {
            return at_random(space, random);
        }
        let (good, bad) = split(objectives, trials);
        let weights = if objectives.len() == 1 { Weights::Recent } else { Weights::Equal };
        let mut point: Point = vec![None; space.parameters().len()];
        // Parameters with the same conditions are drawn together.
        for at in 0..point.len() {
            if point[at].is_some() || !space.has_value(at, &point) {
                continue;
            }
            let group: Vec<usize> =
                (at..point.len()).filter(|other| space.when(*other) == space.when(at)).collect();
            let parameters: Vec<&Parameter> =
                group.iter().map(|at| &space.parameters()[*at]).collect();
            let observed = |trials: &[&TrialRecord]| -> Vec<Vec<f64>> {
                let row = |trial: &&TrialRecord| {
                    group.iter().map(|at| trial.point[*at]).collect::<Option<Vec<f64>>>()
                };
                trials.iter().filter_map(row).collect()
            };
            let likely = Estimator::new(&parameters, &observed(&good), weights);
            let unlikely = Estimator::new(&parameters, &observed(&bad), Weights::Recent);
            let mut best: Option<(f64, Vec<f64>)> = None;
            for _ in 0..self.candidates {
                let candidate = likely.draw(random);
                let score = likely.log_density(&candidate) - unlikely.log_density(&candidate);
                if best.as_ref().is_none_or(|(most, _)| score > *most) {
                    best = Some((score, candidate));
                }
            }
            let (_, values) = best.expect("there is a candidate");
            for (at, value) in group.into_iter().zip(values) {
                point[at] = Some(value);
            }
        }
        point
    }
}

/// Splits the trials into good ones and others, each in the order of their numbers.
fn split<'a>(
    objectives: &[Objective],
    trials: &'a [TrialRecord],
) -> (Vec<&'a TrialRecord>, Vec<&'a TrialRecord>) {
    let of = |state| trials.iter().filter(move |trial| trial.state == state);
    let finished: Vec<&TrialRecord> = of(TrialState::Finished).collect();
    let mut pruned: Vec<&TrialRecord> = of(TrialState::Pruned).collect();
    let count = finished.len() + pruned.len();
    let mut wanted = (GOOD_SHARE * count as f64).ceil() as usize;
    if objectives.len() == 1 {
        wanted = wanted.min(MOST_GOOD);
    }
    let all: Vec<Vec<f64>> = finished.iter().map(|it| losses(objectives, &it.values)).collect();
    let mut good: Vec<u64> =
        best(&all, wanted.min(finished.len())).iter().map(|at| finished[*at].number).collect();
    // Pruned trials that ran longer rank higher.
    let rank = |trial: &TrialRecord| {
        let last = trial.intermediate.last();
        last.map_or((0, f64::INFINITY), |(step, value)| {
            (*step, objectives[0].direction.loss(*value))
        })
    };
    pruned.sort_by(|a, b| {
        let (a, b) = (rank(a), rank(b));
        b.0.cmp(&a.0).then(a.1.total_cmp(&b.1))
    });
    good.extend(pruned.iter().take(wanted - good.len()).map(|trial| trial.number));
    let is_known =
        |trial: &&TrialRecord| !matches!(trial.state, TrialState::Failed | TrialState::Waiting);
    trials.iter().filter(is_known).partition(|trial| good.contains(&trial.number))
}

/// The indices of the `count` best points: lowest loss, or the first fronts, with a subset of the
/// last.
fn best(losses: &[Vec<f64>], count: usize) -> Vec<usize> {
    if losses.first().is_none_or(|losses| losses.len() == 1) {
        let mut order: Vec<usize> = (0..losses.len()).collect();
        order.sort_by(|a, b| losses[*a][0].total_cmp(&losses[*b][0]));
        order.truncate(count);
        return order;
    }
    let directions = vec![optimizer::Direction::Minimize; losses[0].len()];
    let mut chosen = Vec::new();
    for front in optimizer::pareto::non_dominated_sort(losses, &directions) {
        let left = count - chosen.len();
        if front.len() <= left {
            chosen.extend(front);
        } else {
            let points: Vec<Vec<f64>> = front.iter().map(|at| losses[*at].clone()).collect();
            chosen.extend(covering(&points, left).into_iter().map(|at| front[at]));
        }
        if chosen.len() == count {
            break;
        }
    }
    chosen
}
