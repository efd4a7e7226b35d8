//! The kernels against definitions in f64, for every instruction set of this processor.

use std::f64::consts::TAU;

use updraft_simd::{Cut, Isa};
use updraft_testing::{Tolerance, assert_close, scattered, tolerance};

use super::{Embeddings, Periodic, ROWS, RowFeatures, RowGradients};

/// Columns of 5 and 3 classes with embeddings of 3 and 2 numbers.
struct Case {
    rows: usize,
    numbers: usize,
    count: usize,
    size: usize,
    classes: Vec<u32>,
    /// Embeddings of both columns, numbers, frequencies, weight, bias, gradient of the features.
    values: [Vec<f32>; 7],
}

/// The gradients of both embeddings, of the numbers, frequencies, weight and bias.
type Gradients<T> = [Vec<T>; 6];

const CLASSES: [usize; 2] = [5, 3];
const SIZES: [usize; 2] = [3, 2];

impl Case {
    fn new(rows: usize, numbers: usize, count: usize, size: usize) -> Self {
        let classes = (0..rows).flat_map(|row| [row * 7 % 5, row * 5 % 3]);
        let width = 5 + numbers * if count > 0 { size } else { 1 };
        let lens = [15, 6, rows * numbers, numbers * count, 2 * count * size, size, rows * width];
        let mut seed = 0;
        let values = lens.map(|len| {
            seed += 1;
            scattered(seed, len)
        });
        let classes = classes.map(|class| class as u32).collect();
        Self { rows, numbers, count, size, classes, values }
    }

    fn run(&self, isa: Isa, threads: usize) -> (Vec<f32>, Gradients<f32>) {
        let [a, b, numbers, frequencies, weight, bias, dy] = &self.values;
        let embeddings =
            [Embeddings { vectors: a, size: SIZES[0] }, Embeddings { vectors: b, size: SIZES[1] }];
        let periodic = Periodic { frequencies, count: self.count, weight, bias };
        let features = RowFeatures {
            classes: &self.classes,
            numbers,
            rows: self.rows,
            embeddings: &embeddings,
            periodic: (self.count > 0).then_some(periodic),
        };
        let mut y = vec![0.0; self.rows * features.features()];
        let mut waves = vec![0.0; self.rows * features.waves()];
        let piece = ROWS * features.features();
        let of_waves = Cut::new(&mut waves, (ROWS * features.waves()).max(1));
        features.forward(isa, Cut::new(&mut y, piece), of_waves, threads);
        let zeros = |values: &Vec<f32>| vec![0.0; values.len()];
        let mut all = [a, b, numbers, frequencies, weight, bias].map(zeros);
        let [of_a, of_b, of_numbers, of_frequencies, of_weight, of_bias] = &mut all;
        let gradients = RowGradients {
            embeddings: vec![of_a, of_b],
            periodic: (self.count > 0).then_some([of_frequencies, of_weight, of_bias]),
            numbers: Some(of_numbers),
        };
        features.backward(isa, [&y, &waves, dy], gradients, threads);
        (y, all)
    }

    /// By the definition, number by number.
    fn reference(&self) -> (Vec<f64>, Gradients<f64>) {
        let Self { rows, numbers, count, size, .. } = *self;
        let [a, b, x, frequencies, weight, bias, dy] =
            self.values.each_ref().map(|all| all.iter().map(|&n| f64::from(n)).collect::<Vec<_>>());
        let mut y = Vec::new();
        let mut gradients =
            [&a, &b, &x, &frequencies, &weight, &bias].map(|all| vec![0.0; all.len()]);
        let mut dy = dy.into_iter();
        for row in 0..rows {
            for (column, vectors) in [&a, &b].into_iter().enumerate() {
                let class = self.classes[row * 2 + column] as usize;
                assert!(class < CLASSES[column]);
                for at in 0..SIZES[column] {
                    y.push(vectors[class * SIZES[column] + at]);
                    gradients[column][class * SIZES[column] + at] += dy.next().expect("a gradient");
                }
            }
            for number in 0..numbers {
                let at = row * numbers + number;
                if count == 0 {
                    y.push(x[at]);
                    gradients[2][at] = dy.next().expect("a gradient");
                    continue;
                }
                for output in 0..size {
                    let waves = |k: usize| {
                        let f = frequencies[number * count + k % count];
                        let (sine, cosine) = (TAU * f * x[at]).sin_cos();
                        // The value, and its slope by the angle in turns.
                        if k < count { (sine, TAU * cosine) } else { (cosine, -TAU * sine) }
                    };
                    let terms = (0..2 * count).map(|k| waves(k).0 * weight[k * size + output]);
                    let sum = bias[output] + terms.sum::<f64>();
                    y.push(sum.max(0.0));
                    let dy = dy.next().expect("a gradient");
                    if sum <= 0.0 {
                        continue;
                    }
                    gradients[5][output] += dy;
                    for k in 0..2 * count {
                        let (value, slope) = waves(k);
                        let of_angle = dy * weight[k * size + output] * slope;
                        gradients[4][k * size + output] += dy * value;
                        gradients[3][number * count + k % count] += of_angle * x[at];
                        gradients[2][at] += of_angle * frequencies[number * count + k % count];
                    }
                }
            }
        }
        (y, gradients)
    }
}

#[test]
fn features_and_gradients_are_those_of_the_definition_with_the_same_bits_on_any_threads() {
    for [rows, numbers, count, size] in
        [[1, 1, 1, 1], [33, 6, 16, 8], [70, 2, 5, 33], [65, 3, 0, 1], [4, 0, 0, 1], [97, 1, 17, 31]]
    {
        let case = Case::new(rows, numbers, count, size);
        let (y, gradients) = case.reference();
        for isa in Isa::BASES.into_iter().filter(|isa| isa.is_available()) {
            let (found, of) = case.run(isa, 1);
            assert_close(&found, &y, tolerance::F32);
            for (of, expected) in of.iter().zip(&gradients) {
                assert_close(of, expected, Tolerance::new(1e-5, 1e-4));
            }
            for threads in [2, 5] {
                assert_eq!(case.run(isa, threads), (found.clone(), of.clone()), "{isa} {threads}");
            }
        }
    }
}

#[test]
fn a_number_that_is_none_has_such_features() {
    let mut case = Case::new(2, 1, 3, 4);
    case.values[2][0] = f32::NAN;
    let (y, _) = case.run(Isa::detect().base(), 1);
    assert!(y[5..9].iter().all(|feature| feature.is_nan()), "{y:?}");
    assert!(y[14..].iter().all(|feature| feature.is_finite()), "{y:?}");
}
