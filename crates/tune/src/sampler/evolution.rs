//! NSGA-II: an evolutionary sampler with non-dominated sorting and crowding distances.

use optimizer::Direction;
use optimizer::pareto::{crowding_distance, non_dominated_sort};

use super::tpe::{at_random, random_value};
use crate::objective::{Objective, losses};
use crate::random::Random;
use crate::space::{Parameter, Point, Space};
use crate::trial::{TrialRecord, TrialState};

/// Probability that a child has two parents instead of one.
const CROSSOVER: f64 = 0.9;

/// Distribution index of the mutation of a number; a higher index keeps it closer to its parent.
///
/// Half of Deb's 20, because a study has hundreds of trials instead of tens of thousands: the median
/// hypervolume of 60 seeds on ZDT1 with 300 trials was 0.62 with 20, 0.68 with 10, and 0.69 with 5,
/// and with optima inside the ranges 10 was ahead of 5.
const NEARNESS: f64 = 10.0;

/// At most so many children are drawn until one differs from all trials.
const DRAWS: usize = 10;

/// Settings of NSGA-II.
#[derive(Debug, Clone, Copy)]
pub(super) struct Evolution {
    pub(super) population: usize,
}

/// A finished trial that may have children.
#[derive(Debug, Clone)]
struct Parent<'a> {
    trial: &'a TrialRecord,
    losses: Vec<f64>,
    /// Number of its front, from 0.
    rank: usize,
    crowding: f64,
}

impl Evolution {
    /// The next point: a child of the best trials so far, after a first generation of random points.
    ///
    /// # Source
    /// Deb et al. 2002: elitism, tournaments by front and crowding distance, polynomial mutation.
    /// Uniform crossover as in Optuna 5.0 (`samplers/nsgaii`). Parents are chosen again after every
    /// finished trial instead of once a generation, and a point is not repeated.
    pub(super) fn propose(
        self,
        space: &Space,
        objectives: &[Objective],
        trials: &[TrialRecord],
        random: &mut Random,
    ) -> Point {
        let parents = if trials.len() < self.population {
            Vec::new()
        } else {
            self.parents(objectives, trials)
        };
        let mut draw = || match parents.len() {
            0 | 1 => at_random(space, random),
            _ => child(space, &parents, random),
        };
        let mut point = draw();
        for _ in 1..DRAWS {
            if trials.iter().all(|trial| trial.point != point) {
                break;
            }
            point = draw();
        }
        point
    }

    /// The elite of all finished trials, which is selected once for each generation.
    fn parents<'a>(self, objectives: &[Objective], trials: &'a [TrialRecord]) -> Vec<Parent<'a>> {
        let mut parents = Vec::new();
        for generation in trials.chunks(self.population) {
            let finished = generation.iter().filter(|it| it.state == TrialState::Finished);
            parents.extend(finished.map(|trial| {
                let losses = losses(objectives, &trial.values);
                Parent { trial, losses, rank: 0, crowding: 0.0 }
            }));
            parents = self.elite(&parents);
        }
        parents
    }

    /// Selects one population: the first fronts, and from the last of them the trials with the
    /// largest crowding distance.
    fn elite<'a>(self, all: &[Parent<'a>]) -> Vec<Parent<'a>> {
        let points: Vec<Vec<f64>> = all.iter().map(|parent| parent.losses.clone()).collect();
        let directions = vec![Direction::Minimize; points.first().map_or(0, Vec::len)];
        let mut chosen = Vec::new();
        for (rank, front) in non_dominated_sort(&points, &directions).into_iter().enumerate() {
            let of: Vec<Vec<f64>> = front.iter().map(|at| points[*at].clone()).collect();
            let distances = crowding_distance(&of, &directions);
            let mut order: Vec<usize> = (0..front.len()).collect();
            order.sort_by(|a, b| distances[*b].total_cmp(&distances[*a]));
            chosen.extend(order.into_iter().map(|at| {
                let parent = all[front[at]].clone();
                Parent { rank, crowding: distances[at], ..parent }
            }));
            if chosen.len() >= self.population {
                chosen.truncate(self.population);
                break;
            }
        }
        chosen
    }
}

/// A child of one or two parents; each of its values is mutated with a probability that is one
/// mutation a child on average.
fn child(space: &Space, parents: &[Parent<'_>], random: &mut Random) -> Point {
    let one = selected(parents, random);
    let other = if random.unit() < CROSSOVER { selected(parents, random) } else { one };
    let mutation = 1.0 / space.parameters().len() as f64;
    space.point(|at, parameter| {
        let (one, other) = match random.unit() < 0.5 {
            true => (one, other),
            false => (other, one),
        };
        match one.trial.point[at].or(other.trial.point[at]) {
            Some(value) if random.unit() >= mutation => value,
            Some(value) => mutated(parameter, value, random),
            None => random_value(parameter, random),
        }
    })
}

/// The better of two random parents: in an earlier front, or in the same with fewer neighbors.
fn selected<'a>(parents: &'a [Parent<'a>], random: &mut Random) -> &'a Parent<'a> {
    let mut one = || &parents[random.below(parents.len() as u64) as usize];
    let (a, b) = (one(), one());
    let is_better = b.rank < a.rank || (b.rank == a.rank && b.crowding > a.crowding);
    if is_better { b } else { a }
}

/// A number near a value, or another choice.
fn mutated(parameter: &Parameter, value: f64, random: &mut Random) -> f64 {
    if parameter.choices().is_some() {
        return random_value(parameter, random);
    }
    let near = parameter.value(moved(parameter.unit(value), random.unit()));
    // In a range of few steps nearly all nearby numbers are rounded to the value itself.
    let is_rounded_back = near == value && parameter.interval(value).is_some();
    if is_rounded_back { random_value(parameter, random) } else { near }
}

/// Deb's polynomial mutation of a position from 0 to 1, by a random number from 0 to 1.
fn moved(position: f64, drawn: f64) -> f64 {
    let power = NEARNESS + 1.0;
    let root = |x: f64| libm::pow(x, 1.0 / power);
    let away = if drawn < 0.5 {
        root(2.0 * drawn + (1.0 - 2.0 * drawn) * libm::pow(1.0 - position, power)) - 1.0
    } else {
        1.0 - root(2.0 * (1.0 - drawn) + (2.0 * drawn - 1.0) * libm::pow(position, power))
    };
    (position + away).clamp(0.0, 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::objective::{self, Objective};

    const STEPS: &str = r#"
        c = { kind = "categorical", choices = ["a", "b", "c"] }
        n = { kind = "integer", low = 1, high = 4 }
    "#;

    fn space(text: &str) -> Space {
        Space::read(&toml::from_str(text).expect("TOML")).expect("a space")
    }

    fn finished(number: u64, point: Point, values: &[f64]) -> TrialRecord {
        TrialRecord {
            number,
            attempt: 1,
            lost: 0,
            point,
            state: TrialState::Finished,
            intermediate: Vec::new(),
            values: values.to_vec(),
            reason: None,
            note: None,
            seconds: 0.0,
            worker: String::new(),
        }
    }

    fn objectives() -> [Objective; 2] {
        ["f", "g"].map(|name| Objective {
            name: name.to_owned(),
            direction: objective::Direction::Minimize,
        })
    }

    #[test]
    fn every_point_of_a_small_space_is_tried_once() {
        let (space, objectives) = (space(STEPS), objectives());
        let mut trials: Vec<TrialRecord> = Vec::new();
        for number in 0..12 {
            let mut random = Random::new(7, number);
            let point =
                Evolution { population: 4 }.propose(&space, &objectives, &trials, &mut random);
            let values: Vec<f64> = point.iter().flatten().copied().collect();
            trials.push(finished(number, point, &values));
        }
        let is_repeated = |at: &usize| trials[..*at].iter().any(|it| it.point == trials[*at].point);
        let repeated = (0..12).filter(is_repeated).count();
        // Of the 12 points, the last few are not found in every 10 draws.
        assert!(repeated <= 3, "{repeated} of 12 trials repeat a point");
    }

    #[test]
    fn parents_are_the_first_fronts_and_the_ends_of_the_last() {
        let values = [[1.0, 4.0], [2.0, 2.0], [2.1, 1.9], [2.2, 1.8], [4.0, 1.0], [5.0, 5.0]];
        let trials: Vec<TrialRecord> =
            (0..6).map(|at| finished(at, vec![Some(at as f64)], &values[at as usize])).collect();
        let parents = |population| {
            let mut found: Vec<(u64, usize)> = Evolution { population }
                .parents(&objectives(), &trials)
                .iter()
                .map(|parent| (parent.trial.number, parent.rank))
                .collect();
            found.sort_unstable();
            found
        };
        assert_eq!(parents(6), [(0, 0), (1, 0), (2, 0), (3, 0), (4, 0), (5, 1)]);
        let three = parents(3);
        assert!(three.contains(&(0, 0)) && three.contains(&(4, 0)), "{three:?}");
    }

    #[test]
    fn a_mutation_stays_in_range_and_is_near() {
        for position in [0.0, 0.1, 0.5, 1.0] {
            let moves: Vec<f64> =
                (1..1000).map(|at| moved(position, f64::from(at) / 1000.0)).collect();
            assert!(moves.iter().all(|to| (0.0..=1.0).contains(to)), "of {position}");
            assert!(moves.windows(2).all(|pair| pair[0] <= pair[1]), "of {position}");
            let far = moves.iter().filter(|to| (**to - position).abs() > 0.25).count();
            assert!(far < 50, "{far} of 999 moves from {position} are far");
        }
        // The integral of the density 5.5 (1 - |d|)¹⁰ up to d is 1/4 at d = -1 + 2^(-1/11).
        let expected = 0.5 + (libm::pow(0.5, 1.0 / 11.0) - 1.0);
        assert!((moved(0.5, 0.25) - expected).abs() < 1e-4, "{}", moved(0.5, 0.25));
    }

    #[test]
    fn a_mutation_of_few_steps_changes_the_value() {
        let space = space(STEPS);
        let parameter = space.parameters().iter().find(|it| it.choices().is_none()).expect("n");
        let mut random = Random::new(1, 0);
        let changed = (0..1000).filter(|_| mutated(parameter, 2.0, &mut random) != 2.0).count();
        assert!(changed > 700, "{changed} of 1000");
    }
}
