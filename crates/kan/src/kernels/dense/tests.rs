//! The kernels against the closed forms in f64, for every instruction set of this processor.

use std::fmt::Arguments;

use updraft_simd::Isa;
use updraft_testing::scattered;

use super::{
    DenseGradients, DenseInput, DenseLayer, DenseScratch, DenseWeights, dense_backward,
    dense_forward,
};
use crate::basis::{Basis, Centers};
use crate::kernels::activation::Activation;

pub(super) fn bases() -> Vec<Basis> {
    let centers = Centers { functions: 5, low: -1.5, high: 2.0 };
    vec![
        Basis::Gaussian(centers),
        Basis::Rswaf(centers),
        Basis::MexicanHat(centers),
        Basis::Chebyshev { degree: 0 },
        Basis::Chebyshev { degree: 4 },
        Basis::Legendre { degree: 0 },
        Basis::Legendre { degree: 5 },
        Basis::Fourier { frequencies: 3 },
        Basis::Rational,
    ]
}

/// A layer with its parameters and its input.
struct Case {
    layer: DenseLayer,
    batch: usize,
    coefficients: Vec<f32>,
    functions: Vec<f32>,
    base: Option<Vec<f32>>,
    bias: Option<Vec<f32>>,
    x: Vec<f32>,
    seen: Option<Vec<f32>>,
    dy: Vec<f32>,
}

/// Outputs, then the gradients of `x`, `seen`, coefficients, functions, base branch and bias.
type Numbers<T> = [Vec<T>; 7];

impl Case {
    fn new(basis: Basis, [batch, inputs, outputs, groups]: [usize; 4], is_whole: bool) -> Self {
        let times = |seed: u32, count: usize, by: f32| -> Vec<f32> {
            scattered(seed, count).into_iter().map(|number| number * by).collect()
        };
        let mut functions = Vec::new();
        for group in 0..groups {
            // Each group has functions of its own.
            let by = 1.0 + 0.1 * group as f64;
            functions.extend(basis.parameters().into_iter().map(|number| (number * by) as f32));
        }
        Self {
            coefficients: times(1, inputs * basis.count() * outputs, 1.0),
            functions,
            base: is_whole.then(|| times(2, inputs * outputs, 1.0)),
            bias: is_whole.then(|| times(3, outputs, 1.0)),
            x: times(4, batch * inputs, 3.0),
            seen: (is_whole && groups > 1).then(|| times(5, batch * inputs, 3.0)),
            dy: times(6, batch * outputs, 1.0),
            layer: DenseLayer { basis, inputs, outputs, groups, activation: Activation::Silu },
            batch,
        }
    }

    fn weights(&self) -> DenseWeights<'_> {
        DenseWeights {
            coefficients: &self.coefficients,
            functions: &self.functions,
            base: self.base.as_deref(),
            bias: self.bias.as_deref(),
        }
    }

    fn run(&self, isa: Isa, threads: usize, scratch: &mut DenseScratch) -> Numbers<f32> {
        let nan = |count: usize| vec![f32::NAN; count];
        let input = DenseInput { x: &self.x, seen: self.seen.as_deref() };
        let mut y = nan(self.batch * self.layer.outputs);
        dense_forward(isa, &self.layer, &self.weights(), input, &mut y, scratch, threads);
        let mut x = nan(self.x.len());
        let mut seen = self.seen.as_ref().map(|seen| nan(seen.len()));
        let mut coefficients = nan(self.coefficients.len());
        let mut functions = nan(self.functions.len());
        let mut base = self.base.as_ref().map(|base| nan(base.len()));
        let mut bias = self.bias.as_ref().map(|bias| nan(bias.len()));
        let gradients = DenseGradients {
            x: Some(&mut x),
            seen: seen.as_deref_mut(),
            coefficients: Some(&mut coefficients),
            functions: (!functions.is_empty()).then_some(&mut functions[..]),
            base: base.as_deref_mut(),
            bias: bias.as_deref_mut(),
        };
        let (layer, weights) = (&self.layer, self.weights());
        dense_backward(isa, layer, &weights, input, &self.dy, gradients, scratch, threads);
        let [seen, base, bias] = [seen, base, bias].map(Option::unwrap_or_default);
        [y, x, seen, coefficients, functions, base, bias]
    }

    /// Outputs for parameters of the functions, in f64.
    fn outputs(&self, functions: &[f64]) -> Vec<f64> {
        let DenseLayer { basis, inputs, outputs, groups, .. } = self.layer;
        let each = functions.len() / groups;
        let mut y = Vec::new();
        for row in 0..self.batch {
            let bias = self.bias.as_deref();
            let mut sums: Vec<f64> =
                (0..outputs).map(|at| bias.map_or(0.0, |bias| f64::from(bias[at]))).collect();
            for input in 0..inputs {
                let at = row * inputs + input;
                let x = f64::from(self.x[at]);
                let seen = self.seen.as_ref().map_or(x, |seen| f64::from(seen[at]));
                let group = input * groups / inputs;
                let values = basis.values(seen, &functions[group * each..][..each]);
                for (output, sum) in sums.iter_mut().enumerate() {
                    for (function, value) in values.iter().enumerate() {
                        let edge = (input * values.len() + function) * outputs + output;
                        *sum += f64::from(self.coefficients[edge]) * value;
                    }
                    if let Some(base) = &self.base {
                        *sum += f64::from(base[input * outputs + output]) * silu(x)[0];
                    }
                }
            }
            y.extend(sums);
        }
        y
    }

    fn reference(&self) -> Numbers<f64> {
        let DenseLayer { basis, inputs, outputs, groups, .. } = self.layer;
        let functions: Vec<f64> = self.functions.iter().map(|&number| number.into()).collect();
        let each = functions.len() / groups;
        let y = self.outputs(&functions);
        let count = basis.count();
        let mut of_x = vec![0.0; self.x.len()];
        let mut of_seen = vec![0.0; self.seen.as_ref().map_or(0, Vec::len)];
        let mut of_coefficients = vec![0.0; self.coefficients.len()];
        let mut of_base = vec![0.0; self.base.as_ref().map_or(0, Vec::len)];
        let mut of_bias = vec![0.0; self.bias.as_ref().map_or(0, Vec::len)];
        for row in 0..self.batch {
            let dy = &self.dy[row * outputs..][..outputs];
            for (sum, dy) in of_bias.iter_mut().zip(dy) {
                *sum += f64::from(*dy);
            }
            for input in 0..inputs {
                let at = row * inputs + input;
                let x = f64::from(self.x[at]);
                let seen = self.seen.as_ref().map_or(x, |seen| f64::from(seen[at]));
                let own = &functions[input * groups / inputs * each..][..each];
                let (values, slopes) = (basis.values(seen, own), basis.slopes(seen, own));
                let (mut of_functions, mut of_branch) = (0.0, 0.0);
                for (output, dy) in dy.iter().enumerate() {
                    let dy = f64::from(*dy);
                    for function in 0..count {
                        let edge = (input * count + function) * outputs + output;
                        of_coefficients[edge] += dy * values[function];
                        of_functions += dy * f64::from(self.coefficients[edge]) * slopes[function];
                    }
                    if let Some(base) = &self.base {
                        let edge = input * outputs + output;
                        let [value, slope] = silu(x);
                        of_base[edge] += dy * value;
                        of_branch += dy * f64::from(base[edge]) * slope;
                    }
                }
                of_x[at] += of_branch;
                *of_seen.get_mut(at).unwrap_or(&mut of_x[at]) += of_functions;
            }
        }
        let loss = |functions: &[f64]| -> f64 {
            self.outputs(functions).iter().zip(&self.dy).map(|(y, &dy)| y * f64::from(dy)).sum()
        };
        let of_functions = (0..functions.len()).map(|at| {
            let step = 1e-5;
            let [above, below] = [step, -step].map(|step| {
                let mut moved = functions.clone();
                moved[at] += step;
                loss(&moved)
            });
            (above - below) / (2.0 * step)
        });
        let of_functions = of_functions.collect();
        [y, of_x, of_seen, of_coefficients, of_functions, of_base, of_bias]
    }
}

/// Its value and slope.
pub(super) fn silu(x: f64) -> [f64; 2] {
    let sigmoid = 1.0 / (1.0 + (-x).exp());
    [x * sigmoid, sigmoid * (1.0 + x * (1.0 - sigmoid))]
}

fn isas() -> impl Iterator<Item = Isa> {
    Isa::BASES.into_iter().filter(|isa| isa.is_available())
}

/// Asserts that outputs and gradients are those in f64, relative to the largest number of each.
pub(super) fn assert_close(found: &[Vec<f32>], expected: &[Vec<f64>], case: Arguments<'_>) {
    for (part, (found, expected)) in found.iter().zip(expected).enumerate() {
        assert_eq!(found.len(), expected.len(), "{case}, part {part}");
        let largest = expected.iter().fold(0.0_f64, |most, x| most.max(x.abs()));
        for (at, (&found, &expected)) in found.iter().zip(expected).enumerate() {
            let error = (f64::from(found) - expected).abs() / largest.max(1e-2);
            assert!(error < 5e-6, "{case}, part {part}, {at}: {found}, {expected}");
        }
    }
}

#[test]
fn outputs_and_all_gradients_are_those_in_f64() {
    let sizes = [[1, 1, 1, 1], [7, 6, 3, 2], [35, 34, 33, 1], [200, 40, 70, 4], [400, 3, 20, 1]];
    for basis in bases() {
        for (sizes, is_whole) in sizes.into_iter().flat_map(|s| [(s, true), (s, false)]) {
            let case = Case::new(basis, sizes, is_whole);
            let expected = case.reference();
            for isa in isas() {
                let found = case.run(isa, 1, &mut DenseScratch::default());
                assert_close(&found, &expected, format_args!("{isa}, {basis:?}, {sizes:?}"));
            }
        }
    }
}

#[test]
fn threads_and_the_scratch_of_other_calls_change_no_bit() {
    for basis in bases() {
        let mut scratch = DenseScratch::default();
        for sizes in [[450, 20, 40, 2], [900, 2, 5, 1], [5, 70, 9, 1]] {
            let mut case = Case::new(basis, sizes, true);
            // Vectors that have large numbers beside small ones with one number of threads alone.
            case.x.iter_mut().step_by(97).for_each(|x| *x *= 1e4);
            for isa in isas() {
                let bits = |threads: usize, scratch: &mut DenseScratch| {
                    case.run(isa, threads, scratch)
                        .map(|all| all.into_iter().map(f32::to_bits).collect::<Vec<u32>>())
                };
                let expected = bits(1, &mut DenseScratch::default());
                for threads in [2, 5] {
                    assert!(bits(threads, &mut scratch) == expected, "{isa}, {basis:?}, {sizes:?}");
                }
            }
        }
    }
}

#[test]
fn non_finite_inputs_reach_their_own_row_alone() {
    for basis in bases() {
        for isa in isas() {
            let sizes = [20, 3, 2, 1];
            let clean = Case::new(basis, sizes, false).run(isa, 1, &mut DenseScratch::default());
            for value in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
                let mut case = Case::new(basis, sizes, false);
                case.x[7] = value;
                let found = case.run(isa, 1, &mut DenseScratch::default());
                let values = basis.values(value.into(), &basis.parameters());
                let slopes = basis.slopes(value.into(), &basis.parameters());
                let case = format!("{isa}, {basis:?}, {value}");
                for (row, (y, clean)) in found[0].chunks(2).zip(clean[0].chunks(2)).enumerate() {
                    let is_nan = row == 2 && values.iter().any(|value| value.is_nan());
                    assert!(y.iter().all(|y| y.is_nan() == is_nan), "{case}: {row}, {y:?}");
                    assert!(row == 2 || y == clean, "{case}: {row}");
                }
                for (at, dx) in found[1].iter().enumerate() {
                    let is_nan = at == 7 && slopes.iter().any(|slope| slope.is_nan());
                    assert_eq!(dx.is_nan(), is_nan, "{case}: {at}");
                }
                let of_input = found[3].len() / 3;
                for (at, gradient) in found[3].iter().enumerate() {
                    let is_nan = at / of_input == 1 && values[at / 2 % values.len()].is_nan();
                    assert_eq!(gradient.is_nan(), is_nan, "{case}: coefficient {at}");
                }
            }
        }
    }
}

#[test]
fn an_empty_batch_has_no_outputs_and_gradients_of_zero() {
    for basis in bases() {
        let case = Case::new(basis, [0, 3, 2, 1], true);
        for isa in isas() {
            let found = case.run(isa, 2, &mut DenseScratch::default());
            assert!(found[..3].iter().all(Vec::is_empty));
            assert!(found.iter().flatten().all(|&gradient| gradient == 0.0), "{isa}, {basis:?}");
        }
    }
}

#[test]
fn waves_keep_their_digits_for_large_inputs() {
    let layer = DenseLayer {
        basis: Basis::Fourier { frequencies: 1 },
        inputs: 1,
        outputs: 2,
        groups: 1,
        activation: Activation::Silu,
    };
    let x: Vec<f32> = (0..200).map(|at| 1.37_f32.powi(at % 60) * (at as f32 - 100.0)).collect();
    let weights = DenseWeights {
        coefficients: &[1.0, 0.0, 0.0, 1.0],
        functions: &[],
        base: None,
        bias: None,
    };
    for isa in isas() {
        let mut y = vec![0.0; 400];
        let input = DenseInput { x: &x, seen: None };
        dense_forward(isa, &layer, &weights, input, &mut y, &mut DenseScratch::default(), 1);
        for (x, y) in x.iter().zip(y.chunks(2)) {
            let (sine, cosine) = f64::from(*x).sin_cos();
            let errors = [f64::from(y[0]) - cosine, f64::from(y[1]) - sine];
            assert!(errors.iter().all(|error| error.abs() < 3e-7), "{isa}, {x}: {errors:?}");
        }
    }
}
