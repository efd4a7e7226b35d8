//! Coordinate descent over the codes of a layer's weights.

use super::Problem;
use super::moments::Moments;

/// Passes over the weights of a channel, at most.
const PASSES: usize = 50;

/// The levels that a weight may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Choice {
    /// Every one of the format.
    Any,
    /// Those below and above it.
    Around,
}

/// Changes one level at a time to that of the least squared error of the layer's results while the
/// others stay, until none changes.
///
/// The error by the second moments never grows.
///
/// # Source
/// Behdin et al. 2023, arXiv:2309.01885, section 3, for levels instead of real numbers.
pub(super) fn refine(
    problem: &Problem<'_>,
    moments: &Moments,
    mut levels: Vec<i32>,
    choice: Choice,
) -> Vec<i32> {
    let Problem { grid, weights, .. } = problem;
    let size = grid.each;
    for (channels, moments) in moments.of_groups(weights.len() / size) {
        for channel in channels {
            let of_channel = channel * size..(channel + 1) * size;
            let (weights, levels) = (&weights[of_channel.clone()], &mut levels[of_channel]);
            // Half the derivative of the squared error by each weight.
            let mut slopes = vec![0.0_f64; size];
            for (at, (&weight, &level)) in weights.iter().zip(&*levels).enumerate() {
                let error = grid.levels(channel, at).step * f64::from(level) - f64::from(weight);
                let row = &moments[at * size..][..size];
                slopes.iter_mut().zip(row).for_each(|(slope, moment)| *slope += error * moment);
            }
            for _ in 0..PASSES {
                let mut is_changed = false;
                for at in 0..size {
                    let row = &moments[at * size..][..size];
                    // An input that is always zero.
                    if row[at] <= 0.0 {
                        continue;
                    }
                    let of_weight = grid.levels(channel, at);
                    let now = of_weight.step * f64::from(levels[at]);
                    let mut best = of_weight.nearest(now - slopes[at] / row[at]);
                    if choice == Choice::Around {
                        let [below, above] = of_weight.around(weights[at].into());
                        best = best.clamp(below, above);
                    }
                    let change = of_weight.step * f64::from(best - levels[at]);
                    // Equal errors do not alternate.
                    if change * (2.0 * slopes[at] + change * row[at]) < 0.0 {
                        slopes
                            .iter_mut()
                            .zip(row)
                            .for_each(|(slope, moment)| *slope += change * moment);
                        (levels[at], is_changed) = (best, true);
                    }
                }
                if !is_changed {
                    break;
                }
            }
        }
    }
    levels
}

#[cfg(test)]
mod tests {
    use updraft_conv::slices::{ConvGeometry, ConvShape};
    use updraft_testing::{scattered, scattered_to};

    use super::*;
    use crate::scheme::ActivationScheme;
    use crate::weights::{Grid, WeightFormat};

    /// The squared error of the results with some levels.
    fn error(grid: &Grid, weights: &[f32], levels: &[i32], x: &[f32]) -> f64 {
        let real = grid.real(levels);
        let each = |x: &[f32]| -> f64 {
            let terms = x.iter().zip(weights.iter().zip(&real));
            terms.map(|(x, (w, r))| f64::from(*x) * (f64::from(*r) - f64::from(*w))).sum()
        };
        x.chunks_exact(weights.len()).map(|x| each(x).powi(2)).sum()
    }

    #[test]
    fn no_single_change_lowers_the_error_and_it_falls_by_decibels() {
        let (size, samples) = (12, 200);
        let (mut nearest, mut refined) = (0.0, 0.0);
        for seed in 0..8 {
            // Inputs that depend on each other: two hidden numbers and little noise.
            let hidden = scattered(seed, samples * 2);
            let noise = scattered_to(0.05, seed + 100, samples * size);
            let mixing = scattered(seed + 200, 2 * size);
            let x: Vec<f32> = (0..samples * size)
                .map(|at| {
                    let (sample, input) = (at / size, at % size);
                    let part = |k: usize| hidden[sample * 2 + k] * mixing[k * size + input];
                    part(0) + part(1) + noise[at]
                })
                .collect();
            let weights = scattered(seed + 300, size);
            let input = ActivationScheme::try_new(0.01, 0).expect("valid");
            let format = WeightFormat::try_new(4).expect("supported");
            let grid = Grid::fit(&weights, &[0.0], format, input).expect("finite");
            let geometry = ConvGeometry::try_new(ConvShape::new(1, [size, 1], [1, 1], [1, 1]));
            let geometry = geometry.expect("valid");
            let problem = Problem { geometry, grid: &grid, weights: &weights, x: &x, samples };
            let moments = Moments::of(&problem).expect("small");
            for choice in [Choice::Any, Choice::Around] {
                let near = grid.nearest(&weights);
                let levels = refine(&problem, &moments, near.clone(), choice);
                let least = error(&grid, &weights, &levels, &x);
                for at in 0..size {
                    let around = grid.levels(0, at).around(weights[at].into());
                    let allowed = match choice {
                        Choice::Any => [levels[at] - 1, levels[at] + 1],
                        Choice::Around => around,
                    };
                    assert!(choice == Choice::Any || around.contains(&levels[at]));
                    for other in allowed.into_iter().filter(|level| level.abs() <= 7) {
                        let mut changed = levels.clone();
                        changed[at] = other;
                        let changed = error(&grid, &weights, &changed, &x);
                        assert!(changed > least - 1e-6, "{changed} {least}");
                    }
                }
                if choice == Choice::Around {
                    nearest += error(&grid, &weights, &near, &x).ln();
                    refined += least.ln();
                }
            }
        }
        let decibels = 10.0 * (nearest - refined) / 8.0 / std::f64::consts::LN_10;
        assert!(decibels > 4.0, "{decibels}");
    }
}
