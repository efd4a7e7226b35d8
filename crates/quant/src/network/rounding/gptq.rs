//! Rounding with compensation: the error of each weight is distributed over those that follow.

use super::Problem;
use super::moments::Moments;
use crate::weights::Grid;

/// The share of the mean second moment that is added to each, so that inputs that are always zero
/// or depend on each other have an inverse.
const DAMPING: f64 = 0.01;

/// The levels of all weights.
pub(super) fn round(problem: &Problem<'_>, moments: &Moments) -> Vec<i32> {
    let Problem { grid, weights, .. } = problem;
    let size = grid.each;
    let mut levels = vec![0; weights.len()];
    for (channels, moments) in moments.of_groups(weights.len() / size) {
        let trace: f64 = (0..size).map(|at| moments[at * size + at]).sum();
        let damping = (DAMPING * trace / size as f64).max(f64::MIN_POSITIVE);
        // The inputs of the greatest moments first, whose errors cost most.
        let mut order: Vec<usize> = (0..size).collect();
        order.sort_by(|&a, &b| moments[b * size + b].total_cmp(&moments[a * size + a]));
        let at = |index: usize| (order[index / size], order[index % size]);
        let sorted = (0..size * size).map(|index| {
            let (row, column) = at(index);
            moments[row * size + column] + if row == column { damping } else { 0.0 }
        });
        let root = root_of_inverse(sorted.collect(), size);
        for channel in channels {
            let weights = &weights[channel * size..][..size];
            let levels = &mut levels[channel * size..][..size];
            round_channel(grid, channel, &order, &root, weights, levels);
        }
    }
    levels
}

/// Rounds the weights of a channel in an order.
fn round_channel(
    grid: &Grid,
    channel: usize,
    order: &[usize],
    root: &[f64],
    weights: &[f32],
    levels: &mut [i32],
) {
    let size = order.len();
    let mut left: Vec<f64> = order.iter().map(|&at| weights[at].into()).collect();
    for (index, &at) in order.iter().enumerate() {
        let of_weight = grid.levels(channel, at);
        levels[at] = of_weight.nearest(left[index]);
        let row = &root[index * size..][..size];
        let error = (left[index] - of_weight.step * f64::from(levels[at])) / row[index];
        for (left, factor) in left[index + 1..].iter_mut().zip(&row[index + 1..]) {
            *left -= error * factor;
        }
    }
}

/// The upper triangular `u` with `uᵀ·u = m⁻¹` of a symmetric positive definite `m`.
///
/// With `m = r·rᵀ` for an upper triangular `r`, it is the inverse of `r`.
fn root_of_inverse(mut m: Vec<f64>, size: usize) -> Vec<f64> {
    let dot = |a: &[f64], b: &[f64]| -> f64 { a.iter().zip(b).map(|(a, b)| a * b).sum() };
    for column in (0..size).rev() {
        let (above, row) = m.split_at_mut(column * size);
        let row = &mut row[..size];
        let rest = dot(&row[column + 1..], &row[column + 1..]);
        let diagonal = (row[column] - rest).max(f64::MIN_POSITIVE).sqrt();
        row[column] = diagonal;
        for other in above.chunks_exact_mut(size) {
            let rest = dot(&other[column + 1..], &row[column + 1..]);
            other[column] = (other[column] - rest) / diagonal;
        }
    }
    // Column by column, so that the numbers of a sum are contiguous.
    let mut inverse = vec![0.0; size * size];
    for column in 0..size {
        let of_column = &mut inverse[column * size..][..size];
        of_column[column] = 1.0 / m[column * size + column];
        for row in (0..column).rev() {
            let from = &m[row * size..][..size];
            let sum = dot(&from[row + 1..=column], &of_column[row + 1..=column]);
            of_column[row] = -sum / from[row];
        }
    }
    (0..size * size).map(|at| inverse[at % size * size + at / size]).collect()
}

#[cfg(test)]
mod tests {
    use updraft_conv::slices::{ConvGeometry, ConvShape};

    use super::*;
    use crate::scheme::ActivationScheme;
    use crate::weights::WeightFormat;

    #[test]
    fn the_root_gives_the_inverse() {
        // A symmetric positive definite matrix.
        let size = 5;
        let root: Vec<f64> = (0..25).map(|i| f64::from(i * 7 % 11) - 4.0).collect();
        let m: Vec<f64> = (0..25)
            .map(|at| {
                let (row, column) = (at / size, at % size);
                let dot: f64 =
                    (0..size).map(|k| root[row * size + k] * root[column * size + k]).sum();
                dot + if row == column { 3.0 } else { 0.0 }
            })
            .collect();
        let u = root_of_inverse(m.clone(), size);
        for row in 0..size {
            for column in 0..size {
                // m·(uᵀ·u) is the identity.
                let inverse = |a: usize, b: usize| -> f64 {
                    (0..size).map(|k| u[k * size + a] * u[k * size + b]).sum()
                };
                let product: f64 = (0..size).map(|k| m[row * size + k] * inverse(k, column)).sum();
                let right = f64::from(u8::from(row == column));
                assert!((product - right).abs() < 1e-9, "[{row}, {column}] {product}");
            }
        }
    }

    /// Two inputs that are equal: errors of their weights can cancel.
    #[test]
    fn errors_of_equal_inputs_cancel() {
        let input = ActivationScheme::try_new(0.01, 0).expect("valid");
        let weights = [0.7, 0.34, 0.34, 0.34];
        let format = WeightFormat::try_new(4).expect("supported");
        let mut grid = Grid::fit(&weights, &[0.0], format, input).expect("finite");
        grid.scales[0] = 0.1;
        let geometry = ConvGeometry::try_new(ConvShape::new(1, [4, 1], [1, 1], [1, 1]));
        let geometry = geometry.expect("valid");
        let x = [0.1, 1.0, 1.0, 1.0, 0.3, 0.5, 0.5, 0.5];
        let problem = Problem { geometry, grid: &grid, weights: &weights, x: &x, samples: 2 };
        let levels = round(&problem, &Moments::of(&problem).expect("small"));
        // 3·0.34 is 1.02: nearest codes give 0.9, one of them up gives 1.0.
        assert_eq!(grid.nearest(&weights), [7, 3, 3, 3]);
        assert_eq!(levels[1..].iter().sum::<i32>(), 10, "{levels:?}");
    }
}
