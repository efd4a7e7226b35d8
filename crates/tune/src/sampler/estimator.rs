//! The Parzen estimator: a density over points with a kernel around each observed point.

use std::f64::consts::{PI, SQRT_2};

use crate::random::Random;
use crate::space::Parameter;

/// Number of most recent observations with full weight; older ones weigh less the older they are.
const RECENT: usize = 25;

/// The smallest kernel width is the range divided by the number of kernels plus 1, or by this if
/// there are more kernels.
const MOST_PARTS: f64 = 100.0;

/// A mixture of product densities: one component for each observed point, and a prior over the
/// whole space.
///
/// # Source
/// Bergstra et al. 2011, Watanabe 2023 (arXiv:2304.11127); weights and widths as in Optuna 5.0
/// (`samplers/_tpe/parzen_estimator.py`).
#[derive(Debug)]
pub(super) struct Estimator<'a> {
    weights: Vec<f64>,
    dimensions: Vec<Dimension<'a>>,
}

#[derive(Debug)]
enum Dimension<'a> {
    /// Normal distributions between 0 and 1.
    Number { parameter: &'a Parameter, means: Vec<f64>, widths: Vec<f64> },
    /// Probabilities of the choices, for each component.
    Choice { shares: Vec<Vec<f64>> },
}

/// Weighting of the observations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Weights {
    /// Equal weights.
    Equal,
    /// Lower weights for old observations.
    Recent,
}

impl<'a> Estimator<'a> {
    /// Each row of `observed` contains the values of `parameters` at a point, oldest point first.
    pub(super) fn new(
        parameters: &[&'a Parameter],
        observed: &[Vec<f64>],
        weights: Weights,
    ) -> Self {
        let count = observed.len();
        let mut weights = match weights {
            Weights::Recent if count >= RECENT => {
                let ramp = count - RECENT;
                let start = 1.0 / count as f64;
                let slope = (1.0 - start) / (ramp.max(2) - 1) as f64;
                let ramp = (0..ramp).map(|at| start + slope * at as f64);
                ramp.chain(std::iter::repeat_n(1.0, RECENT)).collect()
            }
            _ => vec![1.0; count],
        };
        weights.push(1.0);
        let sum: f64 = weights.iter().sum();
        weights.iter_mut().for_each(|weight| *weight /= sum);
        let dimension = |(at, parameter): (usize, &&'a Parameter)| {
            let values: Vec<f64> = observed.iter().map(|row| row[at]).collect();
            match parameter.choices() {
                Some(choices) => Dimension::Choice { shares: shares(choices, &values) },
                None => {
                    let mut means: Vec<f64> = values.iter().map(|it| parameter.unit(*it)).collect();
                    let mut widths = widths(&means);
                    means.push(0.5);
                    widths.push(1.0);
                    Dimension::Number { parameter, means, widths }
                }
            }
        };
        Self { weights, dimensions: parameters.iter().enumerate().map(dimension).collect() }
    }

    /// Draws a point from the density.
    pub(super) fn draw(&self, random: &mut Random) -> Vec<f64> {
        let component = random.weighted(&self.weights);
        let draw = |dimension: &Dimension<'_>| match dimension {
            Dimension::Choice { shares } => random.weighted(&shares[component]) as f64,
            Dimension::Number { parameter, means, widths } => {
                parameter.value(truncated(random, means[component], widths[component]))
            }
        };
        self.dimensions.iter().map(draw).collect()
    }

    /// The logarithm of the density at a point; of the probability for ranges with steps.
    pub(super) fn log_density(&self, point: &[f64]) -> f64 {
        let of_component = |component: usize| {
            let of_dimension = |(dimension, &value): (&Dimension<'_>, &f64)| match dimension {
                Dimension::Choice { shares } => libm::log(shares[component][value as usize]),
                Dimension::Number { parameter, means, widths } => {
                    let (mean, width) = (means[component], widths[component]);
                    let whole = between(0.0, 1.0, mean, width);
                    let own = match parameter.interval(value) {
                        Some((from, to)) => between(from, to, mean, width),
                        None => {
                            let z = (parameter.unit(value) - mean) / width;
                            libm::exp(-0.5 * z * z) / (width * (2.0 * PI).sqrt())
                        }
                    };
                    libm::log((own / whole).max(f64::MIN_POSITIVE))
                }
            };
            let sum: f64 = self.dimensions.iter().zip(point).map(of_dimension).sum();
            libm::log(self.weights[component]) + sum
        };
        let logs: Vec<f64> = (0..self.weights.len()).map(of_component).collect();
        let most = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        most + libm::log(logs.iter().map(|log| libm::exp(log - most)).sum())
    }
}

/// The probabilities of the choices for each component: most on the observed choice, the rest
/// spread over all.
fn shares(choices: usize, observed: &[f64]) -> Vec<Vec<f64>> {
    let kernels = observed.len() + 1;
    let share = |own: Option<usize>| {
        let base = 1.0 / kernels as f64;
        let sum = base * choices as f64 + if own.is_some() { 1.0 } else { 0.0 };
        let weight = |choice| if own == Some(choice) { base + 1.0 } else { base };
        (0..choices).map(|choice| weight(choice) / sum).collect()
    };
    let own = observed.iter().map(|choice| Some(*choice as usize));
    own.chain([None]).map(share).collect()
}

/// The width of each kernel: the distance to the farther of its two neighbors, within limits.
fn widths(means: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..means.len()).collect();
    order.sort_by(|a, b| means[*a].total_cmp(&means[*b]));
    let sorted: Vec<f64> = order.iter().map(|at| means[*at]).collect();
    let last = means.len().saturating_sub(1);
    let least = 1.0 / MOST_PARTS.min(means.len() as f64 + 2.0);
    let mut widths = vec![0.0; means.len()];
    for (place, at) in order.iter().enumerate() {
        let before = if place == 0 { sorted[0] } else { sorted[place] - sorted[place - 1] };
        let after =
            if place == last { 1.0 - sorted[last] } else { sorted[place + 1] - sorted[place] };
        // With two or more kernels, the ends of the range do not count as neighbors.
        let width = match place {
            _ if last == 0 => before.max(after),
            0 => after,
            place if place == last => before,
            _ => before.max(after),
        };
        widths[*at] = width.clamp(least, 1.0);
    }
    widths
}

/// The probability of an interval under a normal distribution.
fn between(from: f64, to: f64, mean: f64, width: f64) -> f64 {
    let scaled = |x: f64| (x - mean) / (width * SQRT_2);
    let (from, to) = (scaled(from), scaled(to));
    // `erfc` keeps precision in the tails, where `erf` is near 1.
    let share = if from > 0.0 {
        libm::erfc(from) - libm::erfc(to)
    } else if to < 0.0 {
        libm::erfc(-to) - libm::erfc(-from)
    } else {
        libm::erf(to) - libm::erf(from)
    };
    0.5 * share
}

/// Draws from a normal distribution truncated to 0 to 1; its mean is in that range.
fn truncated(random: &mut Random, mean: f64, width: f64) -> f64 {
    // With a width of at most 1, at least 0.34 of the draws are in range, so 200 draws suffice.
    for _ in 0..200 {
        let drawn = mean + width * random.normal();
        if (0.0..=1.0).contains(&drawn) {
            return drawn;
        }
    }
    mean
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::space::Space;

    fn space(text: &str) -> Space {
        Space::read(&toml::from_str(text).expect("TOML")).expect("a space")
    }

    const MIXED: &str = r#"
        c = { kind = "categorical", choices = ["a", "b", "c"] }
        n = { kind = "integer", low = 1, high = 9 }
    "#;

    #[test]
    fn the_probabilities_of_all_points_sum_to_one() {
        let space = space(MIXED);
        let parameters: Vec<&Parameter> = space.parameters().iter().collect();
        let observed = [vec![0.0, 2.0], vec![2.0, 2.0], vec![1.0, 9.0]];
        for observed in [&observed[..], &observed[..1], &[]] {
            let estimator = Estimator::new(&parameters, observed, Weights::Recent);
            let mut sum = 0.0;
            for choice in 0..3 {
                for number in 1..=9 {
                    sum += estimator.log_density(&[f64::from(choice), f64::from(number)]).exp();
                }
            }
            assert!((sum - 1.0).abs() < 1e-9, "{sum} with {} observations", observed.len());
        }
    }

    #[test]
    fn points_are_drawn_as_often_as_the_density_says() {
        let space = space(MIXED);
        let parameters: Vec<&Parameter> = space.parameters().iter().collect();
        let observed = [vec![0.0, 2.0], vec![2.0, 3.0], vec![0.0, 9.0], vec![0.0, 4.0]];
        let estimator = Estimator::new(&parameters, &observed, Weights::Recent);
        let (mut random, draws) = (Random::new(3, 0), 40_000_u32);
        let mut counts = std::collections::BTreeMap::new();
        for _ in 0..draws {
            let point = estimator.draw(&mut random);
            *counts.entry((point[0] as i64, point[1] as i64)).or_insert(0_u32) += 1;
        }
        for ((choice, number), count) in counts {
            let expected = estimator.log_density(&[choice as f64, number as f64]).exp();
            let found = f64::from(count) / f64::from(draws);
            // Five standard deviations of a share.
            let band = 5.0 * (expected / f64::from(draws)).sqrt() + 1e-4;
            assert!((found - expected).abs() < band, "{choice} {number}: {found} of {expected}");
        }
    }

    #[test]
    fn a_density_without_steps_has_the_integral_one() {
        let space = space("x = { kind = \"float\", low = -2.0, high = 3.0 }");
        let parameters: Vec<&Parameter> = space.parameters().iter().collect();
        let observed: Vec<Vec<f64>> = [-1.9, 0.0, 0.1, 2.5].iter().map(|x| vec![*x]).collect();
        let estimator = Estimator::new(&parameters, &observed, Weights::Recent);
        let steps = 5000;
        let sum: f64 = (0..steps)
            .map(|at| -2.0 + 5.0 * (f64::from(at) + 0.5) / f64::from(steps))
            .map(|x| estimator.log_density(&[x]).exp() / f64::from(steps))
            .sum();
        assert!((sum - 1.0).abs() < 1e-4, "{sum}");
    }

    #[test]
    fn widths_are_distances_to_neighbors() {
        assert_eq!(widths(&[0.5]), [0.5]);
        let found = widths(&[0.8, 0.2, 0.3]);
        for (found, expected) in found.iter().zip([0.5, 0.2, 0.5]) {
            // The only neighbor of 0.2 is 0.3, but the smallest width is 0.2.
            assert!((found - expected).abs() < 1e-12, "{found} {expected}");
        }
    }
}
