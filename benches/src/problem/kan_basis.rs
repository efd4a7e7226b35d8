//! A layer of functions in closed form: forward, and forward with all gradients.

use std::rc::Rc;

use anyhow::Result;
use serde::{Deserialize, Serialize};
use updraft_kan::{Basis, BasisLinear, BasisLinearConfig, Centers};

use crate::formula;
use crate::problem::kan_beside::{product, sigmoid, transposed};
use crate::problem::kan_pass::{KanPass, parameter, path_of_basis};
use crate::problem::{Outputs, Pass, Problem, Repeat, Site, Task, Work, widened};

/// Functions of each input, with `SiLU` and base weights, f32; the parameters of a quotient of
/// polynomials are trained, centers and widths are not.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct KanBasis {
    pub(crate) basis: Basis,
    pub(crate) batch: usize,
    pub(crate) inputs: usize,
    pub(crate) outputs: usize,
    pub(crate) pass: Pass,
}

/// Functions in closed form: as many as a cubic spline over five intervals has, or one quotient.
pub(crate) const BASES: [Basis; 7] = [
    Basis::Gaussian(CENTERS),
    Basis::Rswaf(CENTERS),
    Basis::MexicanHat(CENTERS),
    Basis::Chebyshev { degree: 7 },
    Basis::Legendre { degree: 7 },
    Basis::Fourier { frequencies: 4 },
    Basis::Rational,
];

const CENTERS: Centers = Centers { functions: 8, low: -2.0, high: 2.0 };

/// The name of a basis in the catalog.
pub(crate) const fn name_of(basis: &Basis) -> &'static str {
    match basis {
        Basis::Gaussian(_) => "gaussian",
        Basis::Rswaf(_) => "rswaf",
        Basis::MexicanHat(_) => "wavelet",
        Basis::Chebyshev { .. } => "chebyshev",
        Basis::Legendre { .. } => "legendre",
        Basis::Fourier { .. } => "fourier",
        Basis::Rational => "rational",
        _ => "other",
    }
}

/// The parameters of the functions, in f32.
pub(crate) fn functions_of(basis: &Basis) -> Vec<f32> {
    match basis {
        // Not the initial ones, of which some are 0.
        Basis::Rational => formula::tensor("functions", basis.parameters().len(), 0.5),
        _ => basis.parameters().into_iter().map(|parameter| parameter as f32).collect(),
    }
}

/// Whether the parameters of the functions are trained.
pub(crate) const fn is_trained(basis: &Basis) -> bool {
    matches!(basis, Basis::Rational)
}

/// Inputs from −2 to 2.
const RANGE: f32 = 2.0;

struct Numbers {
    x: Vec<f32>,
    coefficients: Vec<f32>,
    functions: Vec<f32>,
    base: Vec<f32>,
    g: Vec<f32>,
}

impl KanBasis {
    fn numbers(&self) -> Numbers {
        let Self { batch, inputs, outputs, .. } = *self;
        let scale = formula::weight_scale(inputs);
        let edges = inputs * outputs;
        Numbers {
            x: formula::tensor("x", batch * inputs, RANGE),
            coefficients: formula::tensor("coefficients", edges * self.basis.count(), scale),
            functions: functions_of(&self.basis),
            base: formula::tensor("base", edges, scale),
            g: formula::tensor("g", batch * outputs, 1.0),
        }
    }
}

/// The gradient of each parameter, by differences: `of_values` are those of the functions' values.
pub(crate) fn gradients_of_functions(
    basis: &Basis,
    functions: &[f64],
    x: &[f64],
    of_values: &[f64],
) -> Vec<f64> {
    let step = 1e-5;
    let count = basis.count();
    let derivative = |at: usize| {
        let mut sum = 0.0;
        for (&x, of_values) in x.iter().zip(of_values.chunks(count)) {
            let [above, below] = [step, -step].map(|step| {
                let mut moved = functions.to_vec();
                moved[at] += step;
                basis.values(x, &moved)
            });
            let each = above.iter().zip(below).zip(of_values);
            sum += each.map(|((above, below), of)| of * (above - below)).sum::<f64>();
        }
        sum / (2.0 * step)
    };
    (0..functions.len()).map(derivative).collect()
}

impl Task for KanBasis {
    fn id(&self) -> String {
        let Self { basis, batch, inputs, outputs, pass } = self;
        let (pass, basis) = (pass.name(), name_of(basis));
        format!("kan-basis/{pass}-{basis}-b{batch}-{inputs}to{outputs}")
    }

    fn small(&self) -> Problem {
        let few = |features: usize| features.min(70);
        let (inputs, outputs) = (few(self.inputs), few(self.outputs));
        Problem::KanBasis(Self { batch: 33, inputs, outputs, ..self.clone() })
    }

    fn work(&self) -> Work {
        let Self { batch, inputs, outputs, .. } = *self;
        let terms = self.basis.count() + 1;
        let (x, y, weights) = (batch * inputs, batch * outputs, inputs * outputs * terms);
        let (passes, moved) = match self.pass {
            Pass::Forward => (1, x + weights + y),
            Pass::Training => (3, 2 * x + 2 * weights + 2 * y),
        };
        Work {
            operations: Some((2 * passes * batch * inputs * outputs * terms) as u64),
            bytes: Some(4 * moved as u64),
            samples: Some(batch as u64),
        }
    }

    fn reference(&self) -> Result<Outputs> {
        let Self { basis, batch, inputs, outputs, pass } = *self;
        let Numbers { x, coefficients, functions, base, g } = self.numbers();
        let [x, coefficients, functions] = [x, coefficients, functions].map(|v| widened(&v));
        let [base, g] = [base, g].map(|v| widened(&v));
        let width = inputs * basis.count();
        let values: Vec<f64> = x.iter().flat_map(|&x| basis.values(x, &functions)).collect();
        let silu: Vec<f64> = x.iter().map(|&x| x * sigmoid(x)).collect();
        let of_functions = product(&values, &coefficients, [batch, width, outputs]);
        let of_base = product(&silu, &base, [batch, inputs, outputs]);
        let y = of_functions.iter().zip(&of_base).map(|(one, other)| one + other).collect();
        let mut results = vec![("y", y)];
        if pass == Pass::Training {
            let weights = transposed(&coefficients, outputs);
            let of_values = product(&g, &weights, [batch, outputs, width]);
            let of_silu = product(&g, &transposed(&base, outputs), [batch, outputs, inputs]);
            let slope = |(at, &x): (usize, &f64)| {
                let of_values = &of_values[at * basis.count()..];
                let slopes = basis.slopes(x, &functions);
                let sum: f64 = slopes.iter().zip(of_values).map(|(slope, of)| slope * of).sum();
                sum + of_silu[at] * sigmoid(x) * (1.0 + x * (1.0 - sigmoid(x)))
            };
            results.extend([
                ("dx", x.iter().enumerate().map(slope).collect()),
                (
                    "dcoefficients",
                    product(&transposed(&values, width), &g, [width, batch, outputs]),
                ),
                ("dbase", product(&transposed(&silu, inputs), &g, [inputs, batch, outputs])),
            ]);
            if is_trained(&basis) {
                let gradients = gradients_of_functions(&basis, &functions, &x, &of_values);
                results.push(("dfunctions", gradients));
            }
        }
        Ok(results.into_iter().map(|(name, values)| (name.to_owned(), values)).collect())
    }

    fn tolerance(&self) -> f64 {
        1e-5
    }

    fn on_burn(&self, site: &Site) -> Result<Box<dyn Repeat>> {
        let Self { basis, batch, inputs, outputs, pass } = *self;
        let (device, path) = (pass.device(&site.device), path_of_basis(site.kernels)?);
        let Numbers { x, coefficients, functions, base, g } = self.numbers();
        let config = BasisLinearConfig::new(inputs, outputs, basis).with_bias(false);
        let mut layer = config.with_train_functions(is_trained(&basis)).init(&device);
        layer.coefficients = parameter(coefficients, [inputs, basis.count(), outputs], &device);
        layer.base = Some(parameter(base, [inputs, outputs], &device));
        if is_trained(&basis) {
            let shape = [1, functions.len()];
            layer.functions = Some(parameter(functions, shape, &device));
        }
        let layer = Rc::new(match path {
            Some(path) => layer.with_path(path),
            None => layer,
        });
        let given = [(x, [batch, inputs]), (g, [batch, outputs])];
        let repeated = KanPass::new(&layer, BasisLinear::forward, given, (pass, &device))
            .with("dcoefficients", Some(&layer.coefficients))
            .with("dbase", layer.base.as_ref())
            .with("dfunctions", layer.functions.as_ref().filter(|_| is_trained(&basis)));
        Ok(Box::new(repeated))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reference_has_the_gradients_of_its_differences() {
        let problem = KanBasis {
            basis: Basis::Rational,
            batch: 3,
            inputs: 2,
            outputs: 2,
            pass: Pass::Training,
        };
        let Numbers { x, coefficients, functions, base, g } = problem.numbers();
        let loss = |x: &[f64], functions: &[f64]| {
            let mut sum = 0.0;
            for (row, g) in x.chunks(2).zip(g.chunks(2)) {
                for (output, &g) in g.iter().enumerate() {
                    for (input, &x) in row.iter().enumerate() {
                        let edge = input * 2 + output;
                        let value = problem.basis.values(x, functions)[0];
                        let of_base = f64::from(base[edge]) * x * sigmoid(x);
                        sum += f64::from(g) * (f64::from(coefficients[edge]) * value + of_base);
                    }
                }
            }
            sum
        };
        let (x, functions) = (widened(&x), widened(&functions));
        let reference = problem.reference().unwrap();
        let moved = |numbers: &[f64], at: usize, by: f64| {
            let mut numbers = numbers.to_vec();
            numbers[at] += by;
            numbers
        };
        let close = |found: f64, [above, below]: [f64; 2]| {
            let difference = (above - below) / 2e-6;
            assert!((found - difference).abs() < 1e-8, "{found} and {difference}");
        };
        for (at, &dx) in reference["dx"].iter().enumerate() {
            close(dx, [1e-6, -1e-6].map(|by| loss(&moved(&x, at, by), &functions)));
        }
        for (at, &of) in reference["dfunctions"].iter().enumerate() {
            close(of, [1e-6, -1e-6].map(|by| loss(&x, &moved(&functions, at, by))));
        }
    }
}
