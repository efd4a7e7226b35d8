//! Alternatives to a KAN layer of the same size, in f64 by their definitions.

use crate::formula;
use crate::problem::kan_layer::KanLayer;
use crate::problem::{Outputs, Pass, widened};

/// A plain linear layer whose inputs are as many as a layer has bases:
/// `y(n,o) = Σ_w expanded(n,w)·spline(w,o)`.
pub(crate) fn expanded_linear(problem: &KanLayer) -> Outputs {
    let width = problem.inputs * problem.bases();
    let [spline, g] = [spline(problem), g(problem)];
    let expanded = widened(&formula::tensor("expanded", problem.batch * width, 1.0));
    let outputs = problem.outputs;
    let mut results = vec![("y", product(&expanded, &spline, [problem.batch, width, outputs]))];
    if problem.pass == Pass::Training {
        let of_input = product(&g, &transposed(&spline, outputs), [problem.batch, outputs, width]);
        let expanded = transposed(&expanded, width);
        results.push(("dexpanded", of_input));
        results.push(("dspline", product(&expanded, &g, [width, problem.batch, outputs])));
    }
    named(results)
}

/// Gaussians over normalized inputs (Li, "Kolmogorov–Arnold Networks are Radial Basis Function
/// Networks", 2024), with a linear layer of the inputs' `SiLU` beside them:
///
/// ```text
/// z(n,i) = gamma(i)·(x(n,i) − mean(n)) / √(variance(n) + 10⁻⁵) + beta(i)
/// y(n,o) = Σ_i [ base(i,o)·silu(x(n,i)) + Σ_j spline(i,j,o)·exp(−((z(n,i) − c(j)) / h)²) ]
/// ```
///
/// The centers `c` divide `[−1, 1]` into steps of `h`.
pub(crate) fn gaussians(problem: &KanLayer) -> Outputs {
    let KanLayer { batch, inputs, outputs, pass, .. } = *problem;
    let bases = problem.bases();
    let x = widened(&formula::tensor("x", batch * inputs, 1.1));
    let [spline, g] = [spline(problem), g(problem)];
    let base = formula::tensor("base", inputs * outputs, formula::weight_scale(inputs));
    let base = widened(&base);
    let gamma: Vec<f64> =
        formula::tensor("gamma", inputs, 0.5).iter().map(|&v| f64::from(v + 1.0)).collect();
    let beta = widened(&formula::tensor("beta", inputs, 0.5));
    let step = 2.0 / (bases - 1) as f64;

    let normal: Vec<Normalized> = x.chunks(inputs).map(Normalized::of).collect();
    let away = |at: usize, basis: usize| {
        let (sample, input) = (at / inputs, at % inputs);
        let z = gamma[input] * normal[sample].values[input] + beta[input];
        (z - (basis as f64 * step - 1.0)) / step
    };
    let lit: Vec<f64> = (0..x.len() * bases)
        .map(|index| (-away(index / bases, index % bases).powi(2)).exp())
        .collect();
    let silu: Vec<f64> = x.iter().map(|&x| x * sigmoid(x)).collect();
    let splines = product(&lit, &spline, [batch, inputs * bases, outputs]);
    let linear = product(&silu, &base, [batch, inputs, outputs]);
    let y = splines.iter().zip(&linear).map(|(one, other)| one + other).collect();
    let mut results = vec![("y", y)];
    if pass == Pass::Training {
        let of_lit = product(&g, &transposed(&spline, outputs), [batch, outputs, inputs * bases]);
        let of_silu = product(&g, &transposed(&base, outputs), [batch, outputs, inputs]);
        let of_z: Vec<f64> = (0..x.len())
            .map(|at| {
                let slope = |basis: usize| {
                    let index = at * bases + basis;
                    of_lit[index] * lit[index] * -2.0 * away(at, basis) / step
                };
                (0..bases).map(slope).sum()
            })
            .collect();
        let (mut of_gamma, mut of_beta) = (vec![0.0; inputs], vec![0.0; inputs]);
        let mut of_x = Vec::with_capacity(x.len());
        for (sample, normal) in normal.iter().enumerate() {
            let of_z = &of_z[sample * inputs..][..inputs];
            for (input, of_z) in of_z.iter().enumerate() {
                of_gamma[input] += of_z * normal.values[input];
                of_beta[input] += of_z;
            }
            let scaled: Vec<f64> = of_z.iter().zip(&gamma).map(|(of, gamma)| of * gamma).collect();
            for (input, through_norm) in normal.gradient(&scaled).into_iter().enumerate() {
                let at = sample * inputs + input;
                let slope = sigmoid(x[at]) * (1.0 + x[at] * (1.0 - sigmoid(x[at])));
                of_x.push(through_norm + of_silu[at] * slope);
            }
        }
        let by_input = |values: &[f64], width: usize| {
            product(&transposed(values, width), &g, [width, batch, outputs])
        };
        results.extend([
            ("dx", of_x),
            ("dspline", by_input(&lit, inputs * bases)),
            ("dbase", by_input(&silu, inputs)),
            ("dgamma", of_gamma),
            ("dbeta", of_beta),
        ]);
    }
    named(results)
}

/// A sample's inputs with mean 0 and variance 1.
struct Normalized {
    values: Vec<f64>,
    /// 1/√(variance + ε).
    factor: f64,
}

impl Normalized {
    fn of(x: &[f64]) -> Self {
        let mean = x.iter().sum::<f64>() / x.len() as f64;
        let variance = x.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / x.len() as f64;
        let factor = 1.0 / (variance + 1e-5).sqrt();
        Self { values: x.iter().map(|x| (x - mean) * factor).collect(), factor }
    }

    /// The gradient of the inputs from that of the values.
    fn gradient(&self, of_values: &[f64]) -> Vec<f64> {
        let count = of_values.len() as f64;
        let mean = of_values.iter().sum::<f64>() / count;
        let pairs = || of_values.iter().zip(&self.values);
        let along = pairs().map(|(of, value)| of * value).sum::<f64>() / count;
        pairs().map(|(of, value)| self.factor * (of - mean - value * along)).collect()
    }
}

fn spline(problem: &KanLayer) -> Vec<f64> {
    let count = problem.inputs * problem.bases() * problem.outputs;
    widened(&formula::tensor("spline", count, formula::weight_scale(problem.inputs)))
}

fn g(problem: &KanLayer) -> Vec<f64> {
    widened(&formula::tensor("g", problem.batch * problem.outputs, 1.0))
}

pub(super) fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

/// `[rows, inner] · [inner, columns]`.
pub(super) fn product(a: &[f64], b: &[f64], [rows, inner, columns]: [usize; 3]) -> Vec<f64> {
    let mut y = vec![0.0; rows * columns];
    for (a, y) in a.chunks(inner).zip(y.chunks_mut(columns)) {
        for (a, b) in a.iter().zip(b.chunks(columns)) {
            y.iter_mut().zip(b).for_each(|(y, b)| *y += a * b);
        }
    }
    y
}

pub(super) fn transposed(values: &[f64], columns: usize) -> Vec<f64> {
    let column = |column: usize| values.iter().skip(column).step_by(columns).copied();
    (0..columns).flat_map(column).collect()
}

fn named(results: Vec<(&str, Vec<f64>)>) -> Outputs {
    results.into_iter().map(|(name, values)| (name.to_owned(), values)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn normalizing_has_the_gradient_of_its_differences() {
        let (x, of) = ([0.3, -1.2, 0.8, 0.1], [0.5, -0.2, 0.7, 1.1]);
        let gradient = Normalized::of(&x).gradient(&of);
        for input in 0..x.len() {
            let at = |by: f64| {
                let mut x = x;
                x[input] += by;
                let values = Normalized::of(&x).values;
                values.iter().zip(of).map(|(value, of)| value * of).sum::<f64>()
            };
            let difference = (at(1e-6) - at(-1e-6)) / 2e-6;
            assert!((gradient[input] - difference).abs() < 1e-8, "{input}");
        }
    }

    #[test]
    fn products_and_transposes_are_those_by_hand() {
        let (a, b) = ([1.0, 2.0, 3.0, 4.0], [5.0, 6.0]);
        assert_eq!(product(&a, &b, [2, 2, 1]), [17.0, 39.0]);
        assert_eq!(transposed(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], 3), [1.0, 4.0, 2.0, 5.0, 3.0, 6.0]);
    }
}
