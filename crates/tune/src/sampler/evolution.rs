//! NSGA-II: an evolutionary sampler with non-dominated sorting and crowding distances.

use optimizer::Direction;
use optimizer::pareto::{crowding_distance, non_dominated_sort};

use super::tpe::at_random;
use crate::front::dominates;
use crate::objective::{Objective, losses};
use crate::random::Random;
use crate::space::{Parameter, Point, Space};
use crate::trial::{TrialRecord, TrialState};

/// Probability that a child has two parents instead of one.
const CROSSOVER: f64 = 0.9;

/// Settings of NSGA-II.
#[derive(Debug, Clone, Copy)]
pub(super) struct Evolution {
    pub(super) population: usize,
}

/// A trial with its losses.
type Individual<'a> = (&'a TrialRecord, Vec<f64>);

impl Evolution {
    /// The next point: a child of the best trials of all complete generations.
    ///
    /// # Source
    /// Deb et al. 2002; uniform crossover, and mutation that draws a new value, as in Optuna 5.0
    /// (`samplers/nsgaii`).
    pub(super) fn propose(
        self,
        space: &Space,
        objectives: &[Objective],
        trials: &[TrialRecord],
        random: &mut Random,
    ) -> Point {
        let generations = trials.len() / self.population;
        let mut parents: Vec<Individual<'_>> = Vec::new();
        for generation in trials.chunks(self.population).take(generations) {
            let finished = generation.iter().filter(|it| it.state == TrialState::Finished);
            parents.extend(finished.map(|trial| (trial, losses(objectives, &trial.values))));
            parents = self.elite(parents);
        }
        if parents.len() < 2 {
            return at_random(space, random);
        }
        let one = selected(&parents, random);
        let (first, _) = parents.swap_remove(one);
        let second = match random.unit() < CROSSOVER {
            true => parents[selected(&parents, random)].0,
            false => first,
        };
        let mutation = 1.0 / space.parameters().len() as f64;
        space.point(|at, parameter| {
            let (one, other) = match random.unit() < 0.5 {
                true => (first, second),
                false => (second, first),
            };
            let inherited = one.point[at].or(other.point[at]);
            match inherited {
                Some(value) if random.unit() >= mutation => value,
                _ => random_value(parameter, random),
            }
        })
    }

    /// Selects one population: the first fronts, and from the last of them the trials with the
    /// largest crowding distance.
    fn elite(self, all: Vec<Individual<'_>>) -> Vec<Individual<'_>> {
        let points: Vec<Vec<f64>> = all.iter().map(|(_, losses)| losses.clone()).collect();
        let directions = vec![Direction::Minimize; points.first().map_or(0, Vec::len)];
        let mut chosen = Vec::new();
        for mut front in non_dominated_sort(&points, &directions) {
            let left = self.population.saturating_sub(chosen.len());
            if front.len() > left {
                let of: Vec<Vec<f64>> = front.iter().map(|at| points[*at].clone()).collect();
                let distances = crowding_distance(&of, &directions);
                let mut order: Vec<usize> = (0..front.len()).collect();
                order.sort_by(|a, b| distances[*b].total_cmp(&distances[*a]));
                front = order.into_iter().take(left).map(|at| front[at]).collect();
            }
            chosen.extend(front);
        }
        chosen.into_iter().map(|at| all[at].clone()).collect()
    }
}

/// The index of the better of two random parents (binary tournament).
fn selected(parents: &[Individual<'_>], random: &mut Random) -> usize {
    let mut one = || random.below(parents.len() as u64) as usize;
    let (a, b) = (one(), one());
    if dominates(&parents[b].1, &parents[a].1) { b } else { a }
}

fn random_value(parameter: &Parameter, random: &mut Random) -> f64 {
    match parameter.choices() {
        Some(count) => random.below(count as u64) as f64,
        None => parameter.value(random.unit()),
    }
}
