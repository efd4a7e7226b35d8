//! The kernels against definitions in f64, for every instruction set of this processor.

use updraft_simd::{Cut, Isa};
use updraft_testing::{Tolerance, assert_close, scattered, tolerance};

use super::{Dropout, Layer, Passed, Perceptron, PerceptronScratch};

/// The widths of inputs, hidden layers and outputs, with numbers for `rows` rows.
struct Case {
    widths: Vec<usize>,
    rows: usize,
    x: Vec<f32>,
    dy: Vec<f32>,
    layers: Vec<[Vec<f32>; 2]>,
    dropout: Option<Dropout>,
}

/// The outputs, the gradient of the inputs, and those of all layers.
type Results<T> = (Vec<T>, Vec<T>, Vec<[Vec<T>; 2]>);

impl Case {
    fn new(widths: &[usize], rows: usize, dropout: Option<Dropout>) -> Self {
        let mut seed = 0;
        let mut numbers = |len| {
            seed += 1;
            scattered(seed, len)
        };
        let layers = widths.windows(2).map(|pair| [numbers(pair[0] * pair[1]), numbers(pair[1])]);
        let layers = layers.collect();
        let (x, dy) = (numbers(rows * widths[0]), numbers(rows * widths[widths.len() - 1]));
        Self { widths: widths.to_vec(), rows, x, dy, layers, dropout }
    }

    fn run(&self, isa: Isa, threads: usize) -> Results<f32> {
        let layers = self.layers.iter().zip(&self.widths);
        let layers: Vec<_> =
            layers.map(|([weight, bias], &inputs)| Layer { weight, bias, inputs }).collect();
        let perceptron = Perceptron { layers: &layers, dropout: self.dropout };
        let mut y = vec![0.0; self.dy.len()];
        let mut hidden = vec![0.0; self.rows * perceptron.hidden_pitch()];
        let mut scratch = PerceptronScratch::default();
        let pieces = Cut::new(&mut hidden, perceptron.hidden_piece());
        perceptron.forward(isa, &self.x, &mut y, pieces, &mut scratch, threads);
        let passed = Passed { x: &self.x, hidden: &hidden, dy: &self.dy };
        let mut gradients: Vec<_> = self
            .layers
            .iter()
            .map(|layer| layer.each_ref().map(|all| vec![0.0; all.len()]))
            .collect();
        let mut dx = vec![0.0; self.x.len()];
        let pieces = Cut::new(&mut dx, perceptron.input_piece());
        perceptron.backward(isa, passed, Some(pieces), &mut gradients, &mut scratch, threads);
        let mut others = gradients.clone();
        let none = None::<Cut<'_, f32>>;
        perceptron.backward(isa, passed, none, &mut others, &mut scratch, threads);
        let bits = |all: &[[Vec<f32>; 2]]| -> Vec<u32> {
            all.iter().flatten().flatten().map(|number| number.to_bits()).collect()
        };
        assert!(bits(&others) == bits(&gradients), "without the gradient of the inputs");
        (y, dx, gradients)
    }

    /// By the definition, number by number.
    fn reference(&self) -> Results<f64> {
        let wide = |all: &Vec<f32>| all.iter().map(|&n| f64::from(n)).collect::<Vec<_>>();
        let layers: Vec<_> = self.layers.iter().map(|layer| layer.each_ref().map(wide)).collect();
        let mut gradients: Vec<_> =
            layers.iter().map(|layer| layer.each_ref().map(|all| vec![0.0; all.len()])).collect();
        let (mut y, mut all_dx) = (Vec::new(), Vec::new());
        for row in 0..self.rows {
            // The inputs of each layer, and the slopes of what made them.
            let width = self.widths[0];
            let mut inputs = vec![wide(&self.x)[row * width..][..width].to_vec()];
            let mut slopes = vec![vec![1.0; width]];
            for (index, [weight, bias]) in layers.iter().enumerate() {
                let before = &inputs[index];
                let sum = |output: usize| {
                    let terms = before.iter().enumerate();
                    let terms = terms.map(|(k, x)| x * weight[k * bias.len() + output]);
                    bias[output] + terms.sum::<f64>()
                };
                let sums: Vec<f64> = (0..bias.len()).map(sum).collect();
                let is_last = index + 1 == layers.len();
                let slope = |(output, &sum): (usize, &f64)| match self.dropout {
                    _ if is_last => 1.0,
                    _ if sum <= 0.0 => 0.0,
                    None => 1.0,
                    Some(dropout) if dropout.of_row(index, row).drops(output as u32) => 0.0,
                    Some(dropout) => f64::from(dropout.scale),
                };
                let of_layer: Vec<f64> = sums.iter().enumerate().map(slope).collect();
                inputs.push(sums.iter().zip(&of_layer).map(|(sum, slope)| sum * slope).collect());
                slopes.push(of_layer);
            }
            let last = inputs.pop().expect("outputs");
            let mut dy = wide(&self.dy)[row * last.len()..][..last.len()].to_vec();
            y.extend(last);
            for (index, [weight, _]) in layers.iter().enumerate().rev() {
                let [of_weight, of_bias] = &mut gradients[index];
                let outputs = dy.len();
                for (output, dy) in dy.iter().enumerate() {
                    of_bias[output] += dy;
                    for (k, x) in inputs[index].iter().enumerate() {
                        of_weight[k * outputs + output] += x * dy;
                    }
                }
                let before = |k: usize| {
                    let terms = dy.iter().enumerate();
                    let terms = terms.map(|(output, dy)| dy * weight[k * outputs + output]);
                    terms.sum::<f64>() * slopes[index][k]
                };
                dy = (0..inputs[index].len()).map(before).collect();
            }
            all_dx.extend(dy);
        }
        (y, all_dx, gradients)
    }
}

#[test]
fn outputs_and_gradients_are_those_of_the_definition_with_the_same_bits_on_any_threads() {
    let dropouts = [None, Some(Dropout::new([5, 7], 0.3))];
    for (widths, rows) in [
        (&[1, 1, 1][..], 1),
        (&[99, 128, 128, 2], 101),
        (&[7, 31, 33, 5, 64], 49),
        (&[16, 32, 32], 48),
        (&[5, 97, 3], 13),
    ] {
        for dropout in dropouts {
            let case = Case::new(widths, rows, dropout);
            let (y, dx, gradients) = case.reference();
            for isa in Isa::BASES.into_iter().filter(|isa| isa.is_available()) {
                let found = case.run(isa, 1);
                assert_close(&found.0, &y, tolerance::F32_DEEP);
                assert_close(&found.1, &dx, Tolerance::new(1e-4, 1e-4));
                for (found, expected) in found.2.iter().flatten().zip(gradients.iter().flatten()) {
                    assert_close(found, expected, Tolerance::new(1e-4, 1e-4));
                }
                for threads in [2, 5] {
                    assert!(case.run(isa, threads) == found, "{isa} {threads} {widths:?}");
                }
            }
        }
    }
}

#[test]
fn a_number_that_is_none_stays_one() {
    let mut case = Case::new(&[3, 4, 2], 2, None);
    case.x[1] = f32::NAN;
    let (y, ..) = case.run(Isa::detect().base(), 1);
    assert!(y[..2].iter().all(|y| y.is_nan()) && y[2..].iter().all(|y| y.is_finite()), "{y:?}");
}
