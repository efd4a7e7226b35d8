//! A layer and its gradients, every basis of every edge.

use super::basis::{bases, slopes};
use crate::kernels::activation::Activation;
use crate::kernels::geometry::LayerGeometry;

/// A layer's parameters in f64; the shapes are those of [`Weights`](crate::slices::Weights).
#[derive(Debug, Clone, Default)]
pub struct Parameters {
    /// `[in_features, bases, out_features]`.
    pub spline: Vec<f64>,
    /// `[in_features, out_features]`, or empty.
    pub base: Vec<f64>,
    /// `[in_features, out_features]`, or empty.
    pub scaler: Vec<f64>,
    /// `[out_features]`, or empty.
    pub bias: Vec<f64>,
}

/// The gradients of a layer; those of absent parameters are empty.
#[derive(Debug, Clone)]
pub struct Derivatives {
    /// `[batch, in_features]`.
    pub x: Vec<f64>,
    /// Of the parameters.
    pub parameters: Parameters,
}

/// `y(n,o) = bias(o) + Σ_i [ base(i,o)·φ(x(n,i)) + scaler(i,o)·Σ_j spline(i,j,o)·B_j(x(n,i)) ]`.
///
/// # Panics
/// If a length does not fit the geometry.
#[must_use]
pub fn forward(geometry: &LayerGeometry, parameters: &Parameters, x: &[f64]) -> Vec<f64> {
    let (inputs, outputs) = (geometry.in_features(), geometry.out_features());
    let grid = geometry.grid();
    let mut y = Vec::new();
    for x in x.chunks_exact(inputs) {
        let mut sums = start(&parameters.bias, outputs);
        for (input, &x) in x.iter().enumerate() {
            let bases = bases(grid, input, x);
            for (output, sum) in sums.iter_mut().enumerate() {
                let edge = input * outputs + output;
                if !parameters.base.is_empty() {
                    *sum += parameters.base[edge] * value(geometry.activation(), x);
                }
                let scaler = parameters.scaler.get(edge).copied().unwrap_or(1.0);
                for (basis, value) in bases.iter().enumerate() {
                    let at = (input * grid.bases() + basis) * outputs + output;
                    *sum += scaler * parameters.spline[at] * value;
                }
            }
        }
        y.extend(sums);
    }
    y
}

/// The gradients of `Σ y·dy`.
///
/// # Panics
/// If a length does not fit the geometry.
#[must_use]
pub fn backward(
    geometry: &LayerGeometry,
    parameters: &Parameters,
    x: &[f64],
    dy: &[f64],
) -> Derivatives {
    let (inputs, outputs) = (geometry.in_features(), geometry.out_features());
    let grid = geometry.grid();
    let zeros = |like: &[f64]| vec![0.0; like.len()];
    let mut of = Parameters {
        spline: zeros(&parameters.spline),
        base: zeros(&parameters.base),
        scaler: zeros(&parameters.scaler),
        bias: zeros(&parameters.bias),
    };
    let mut dx = zeros(x);
    for (row, dy) in dy.chunks_exact(outputs).enumerate() {
        for (bias, dy) in of.bias.iter_mut().zip(dy) {
            *bias += dy;
        }
        for input in 0..inputs {
            let at = row * inputs + input;
            let (bases, slopes) = (bases(grid, input, x[at]), slopes(grid, input, x[at]));
            for (output, dy) in dy.iter().enumerate() {
                let edge = input * outputs + output;
                if !parameters.base.is_empty() {
                    of.base[edge] += dy * value(geometry.activation(), x[at]);
                    dx[at] += dy * parameters.base[edge] * slope(geometry.activation(), x[at]);
                }
                let scaler = parameters.scaler.get(edge).copied().unwrap_or(1.0);
                for basis in 0..grid.bases() {
                    let coefficient = (input * grid.bases() + basis) * outputs + output;
                    of.spline[coefficient] += dy * scaler * bases[basis];
                    dx[at] += dy * scaler * parameters.spline[coefficient] * slopes[basis];
                    if !parameters.scaler.is_empty() {
                        of.scaler[edge] += dy * parameters.spline[coefficient] * bases[basis];
                    }
                }
            }
        }
    }
    Derivatives { x: dx, parameters: of }
}

fn start(bias: &[f64], outputs: usize) -> Vec<f64> {
    if bias.is_empty() { vec![0.0; outputs] } else { bias.to_vec() }
}

pub(super) fn value(activation: Activation, x: f64) -> f64 {
    match activation {
        Activation::Silu => x / (1.0 + (-x).exp()),
        Activation::Identity => x,
        Activation::Relu if x <= 0.0 => 0.0,
        Activation::Relu => x,
    }
}

pub(super) fn slope(activation: Activation, x: f64) -> f64 {
    match activation {
        Activation::Silu => {
            let sigmoid = 1.0 / (1.0 + (-x).exp());
            sigmoid * (1.0 + x * (1.0 - sigmoid))
        }
        Activation::Identity => 1.0,
        Activation::Relu if x <= 0.0 => 0.0,
        Activation::Relu if x.is_nan() => x,
        Activation::Relu => 1.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grid::Grid;

    /// One edge, degree 1, knots at −1, 0, 1, 2: at x = 1/4 the bases are 3/4 and 1/4.
    #[test]
    fn an_edge_has_its_values_by_hand() {
        let grid = Grid::uniform(0.0, 1.0, 1, 1).unwrap();
        let geometry = LayerGeometry::try_new(grid, 1, 1, Activation::Identity).unwrap();
        let parameters = Parameters {
            spline: vec![8.0, 4.0],
            base: vec![2.0],
            scaler: vec![0.5],
            bias: vec![1.0],
        };
        // 1 + 2·¼ + ½·(8·¾ + 4·¼)
        assert_eq!(forward(&geometry, &parameters, &[0.25]), [5.0]);
        let gradients = backward(&geometry, &parameters, &[0.25], &[2.0]);
        // 2·(2 + ½·(4 − 8))
        assert_eq!(gradients.x, [0.0]);
        assert_eq!(gradients.parameters.spline, [0.75, 0.25]);
        assert_eq!(gradients.parameters.base, [0.5]);
        assert_eq!(gradients.parameters.scaler, [14.0]);
        assert_eq!(gradients.parameters.bias, [2.0]);
    }

    #[test]
    fn the_gradients_are_those_of_finite_differences() {
        let grid = Grid::uniform(-1.0, 1.0, 3, 3).unwrap();
        let geometry = LayerGeometry::try_new(grid, 2, 2, Activation::Silu).unwrap();
        let number = |index: usize| ((index * 7919 + 13) % 101) as f64 / 50.0 - 1.0;
        let numbers = |count: usize| (0..count).map(number).collect::<Vec<_>>();
        let parameters = Parameters {
            spline: numbers(24),
            base: numbers(4),
            scaler: numbers(4),
            bias: numbers(2),
        };
        let (x, dy) = (vec![-0.9, 0.3, 1.2, 0.05, -1.4, 0.7], numbers(6));
        let loss = |parameters: &Parameters, x: &[f64]| -> f64 {
            forward(&geometry, parameters, x).iter().zip(&dy).map(|(y, dy)| y * dy).sum()
        };
        let found = backward(&geometry, &parameters, &x, &dy);
        let step = 1e-6;
        let close = |expected: f64, actual: f64| {
            assert!((expected - actual).abs() < 1e-8, "{expected} and {actual}");
        };
        for index in 0..x.len() {
            let moved = |by: f64| {
                let mut x = x.clone();
                x[index] += by;
                loss(&parameters, &x)
            };
            close((moved(step) - moved(-step)) / (2.0 * step), found.x[index]);
        }
        let field: [fn(&mut Parameters) -> &mut Vec<f64>; 4] =
            [|p| &mut p.spline, |p| &mut p.base, |p| &mut p.scaler, |p| &mut p.bias];
        for field in field {
            let mut gradients = found.parameters.clone();
            for (index, &gradient) in field(&mut gradients).iter().enumerate() {
                let moved = |by: f64| {
                    let mut parameters = parameters.clone();
                    field(&mut parameters)[index] += by;
                    loss(&parameters, &x)
                };
                close((moved(step) - moved(-step)) / (2.0 * step), gradient);
            }
        }
    }
}
