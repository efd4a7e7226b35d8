//! The kernels against definitions in f64, for every instruction set of this processor.

use updraft_simd::{Bf16Order, Bf16Unit, Cut, Isa};
use updraft_testing::{Tolerance, assert_close, normal, scattered, tolerance};

use super::{
    Attention, Dropout, Heads, LayerNormInput, PIECE_ROWS, bias_gelu, bias_gelu_gradient,
    layer_norm, layer_norm_gradient,
};

fn paths() -> impl Iterator<Item = Isa> {
    Isa::BASES.into_iter().filter(|isa| isa.is_available())
}

/// An attention with its inputs, tokens of `pitch` numbers that begin with `start` of something else.
struct Case {
    shape: Attention,
    /// Queries, keys, values and the gradient of the result.
    inputs: [Vec<f32>; 4],
}

impl Case {
    const START: usize = 3;

    fn new(shape: Attention, size: f32) -> Self {
        let len = |tokens| shape.batch * tokens * Self::pitch(&shape);
        let lens = [shape.queries, shape.keys, shape.keys, shape.queries].map(len);
        let mut seed = 0;
        let inputs = lens.map(|len| {
            seed += 1;
            scattered(seed, len).into_iter().map(|number| number * size).collect()
        });
        Self { shape, inputs }
    }

    fn pitch(shape: &Attention) -> usize {
        Self::START + shape.heads * shape.head_dim
    }

    fn heads<'a>(&self, numbers: &'a [f32]) -> Heads<'a> {
        Heads { numbers, pitch: Self::pitch(&self.shape), start: Self::START }
    }

    /// The rows of one head of one sample.
    fn rows(&self, input: usize, sample: usize, head: usize) -> Vec<Vec<f64>> {
        let Attention { queries, keys, head_dim, .. } = self.shape;
        let tokens = if input == 1 || input == 2 { keys } else { queries };
        let pitch = Self::pitch(&self.shape);
        (0..tokens)
            .map(|token| {
                let from = (sample * tokens + token) * pitch + Self::START + head * head_dim;
                self.inputs[input][from..][..head_dim].iter().map(|&n| f64::from(n)).collect()
            })
            .collect()
    }

    /// Result and gradients by the definition, `[batch, heads, tokens, head_dim]`.
    fn reference(&self) -> [Vec<f64>; 4] {
        let Attention { batch, heads, queries, keys, head_dim, dropout, .. } = self.shape;
        let mask = dropout.map(|dropout| dropout.mask(0, [batch * heads * queries, keys]));
        let mut all = [const { Vec::new() }; 4];
        for (sample, head) in (0..batch).flat_map(|sample| (0..heads).map(move |h| (sample, h))) {
            let [q, k, v, dy] = [0, 1, 2, 3].map(|input| self.rows(input, sample, head));
            let first = (sample * heads + head) * queries * keys;
            let scale = (head_dim as f64).sqrt().recip();
            let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
            let mut y = vec![vec![0.0; head_dim]; q.len()];
            let (mut dq, mut dk, mut dv) = (y.clone(), vec![vec![0.0; head_dim]; k.len()], vec![]);
            dv.clone_from(&dk);
            for i in 0..q.len() {
                let scores: Vec<f64> = k.iter().map(|k| scale * dot(&q[i], k)).collect();
                let largest = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                let powers: Vec<f64> = scores.iter().map(|score| (score - largest).exp()).collect();
                let sum: f64 = powers.iter().sum();
                let weights: Vec<f64> = powers.iter().map(|power| power / sum).collect();
                let factor = |j: usize| {
                    mask.as_ref().map_or(1.0, |mask| f64::from(mask[first + i * k.len() + j]))
                };
                let of_weights: Vec<f64> =
                    v.iter().enumerate().map(|(j, v)| factor(j) * dot(&dy[i], v)).collect();
                let mean = dot(&weights, &of_weights);
                for j in 0..k.len() {
                    let of_score = scale * weights[j] * (of_weights[j] - mean);
                    for c in 0..head_dim {
                        y[i][c] += weights[j] * factor(j) * v[j][c];
                        dq[i][c] += of_score * k[j][c];
                        dk[j][c] += of_score * q[i][c];
                        dv[j][c] += weights[j] * factor(j) * dy[i][c];
                    }
                }
            }
            for (all, rows) in all.iter_mut().zip([y, dq, dk, dv]) {
                all.extend(rows.into_iter().flatten());
            }
        }
        all
    }

    /// The same by the kernels.
    fn run(&self, isa: Isa, threads: usize) -> [Vec<f32>; 4] {
        let Attention { batch, heads, queries, keys, head_dim, .. } = self.shape;
        let [q, k, v, dy] = self.inputs.each_ref().map(|numbers| self.heads(numbers));
        let of_keys = batch * heads * keys * head_dim;
        let mut y = vec![f32::NAN; self.shape.output_len()];
        let mut log_sums = vec![f32::NAN; batch * heads * queries];
        // Memory of an earlier call holds what must not be seen.
        let scratch = &mut Vec::new();
        self.shape.forward(isa, [q, k, v], &mut y, &mut log_sums, scratch, threads);
        let pitch = Self::pitch(&self.shape);
        let mut token_y = vec![0.0; batch * queries * pitch];
        for (index, row) in y.chunks(head_dim).enumerate() {
            let (sample, rest) = (index / (heads * queries), index % (heads * queries));
            let (head, query) = (rest / queries, rest % queries);
            let to = (sample * queries + query) * pitch + Self::START + head * head_dim;
            token_y[to..][..head_dim].copy_from_slice(row);
        }
        let inputs = [q, k, v, self.heads(&token_y), dy];
        let [mut dq, mut dk, mut dv] = [y.len(), of_keys, of_keys].map(|len| vec![f32::NAN; len]);
        let gradients = [&mut dq[..], &mut dk[..], &mut dv[..]];
        self.shape.backward(isa, inputs, &log_sums, gradients, scratch, threads);
        [y, dq, dk, dv]
    }
}

fn shape([batch, heads, queries, keys, head_dim]: [usize; 5]) -> Attention {
    Attention { batch, heads, queries, keys, head_dim, dropout: None, bf16: None }
}

/// Shapes that fill panels, tiles and blocks of keys and queries, and some that do not.
const SHAPES: [[usize; 5]; 8] = [
    [1, 1, 1, 1, 1],
    [2, 3, 5, 7, 3],
    [1, 2, 48, 256, 64],
    [1, 1, 49, 257, 33],
    [2, 1, 97, 33, 16],
    [1, 1, 13, 600, 8],
    [1, 2, 60, 31, 40],
    [0, 2, 4, 4, 4],
];

#[test]
fn attention_and_its_gradients_are_those_of_the_definition() {
    for [batch, heads, queries, keys, head_dim] in SHAPES {
        for dropout in [None, Some(Dropout::new([5, 6], 0.3))] {
            let shape = Attention { dropout, ..shape([batch, heads, queries, keys, head_dim]) };
            let case = Case::new(shape, 1.5);
            let reference = case.reference();
            for isa in paths() {
                for (given, right) in case.run(isa, 1).iter().zip(&reference) {
                    assert_close(given, right, tolerance::F32);
                }
            }
        }
    }
}

#[test]
fn attention_of_large_scores_neither_overflows_nor_loses_the_largest() {
    let shape = shape([1, 1, 20, 40, 16]);
    let case = Case::new(shape, 30.0);
    let reference = case.reference();
    for isa in paths() {
        let given = case.run(isa, 1);
        // Scores are up to 10³ with 24 bits, which leaves 13 bits of an exponential.
        for (given, right) in given.iter().zip(&reference) {
            let largest = right.iter().fold(0.0_f64, |most, number| most.max(number.abs()));
            assert_close(given, right, Tolerance::new(1e-3 * largest, 1e-3));
        }
    }
}

#[test]
fn nan_of_a_query_stays_in_its_row() {
    let shape = shape([1, 1, 15, 20, 8]);
    for bf16 in [None, Some(Bf16Unit::detect())] {
        let shape = Attention { bf16, ..shape };
        let mut case = Case::new(shape, 1.0);
        case.inputs[0][2 * Case::pitch(&shape) + Case::START] = f32::NAN;
        for isa in paths() {
            let [y, ..] = case.run(isa, 1);
            for (row, y) in y.chunks(8).enumerate() {
                assert_eq!(y.iter().all(|y| y.is_nan()), row == 2, "{isa} {bf16:?} row {row}");
                assert_eq!(y.iter().any(|y| y.is_nan()), row == 2, "{isa} {bf16:?} row {row}");
            }
        }
    }
}

#[test]
fn the_number_of_threads_changes_no_bit_of_attention() {
    let shape = shape([2, 3, 50, 30, 20]);
    let case = Case::new(shape, 1.0);
    for isa in paths() {
        let alone = case.run(isa, 1);
        for threads in [2, 3, 8] {
            assert_eq!(alone, case.run(isa, threads), "{isa} {threads} threads");
        }
    }
}

#[test]
fn attention_in_bf16_is_close_to_the_definition_with_the_same_bits_by_unit_and_rust() {
    let others = [[1, 1, 70, 100, 64], [1, 2, 33, 129, 32], [1, 1, 64, 32, 90]];
    for sizes in SHAPES.into_iter().chain(others) {
        for dropout in [None, Some(Dropout::new([5, 6], 0.3))] {
            let shape = Attention { dropout, ..shape(sizes) };
            let reference = Case::new(shape, 1.0).reference();
            for isa in paths() {
                let run = |unit: Bf16Unit| {
                    let case = Case::new(Attention { bf16: Some(unit), ..shape }, 1.0);
                    let alone = case.run(isa, 1);
                    assert_eq!(
                        alone,
                        case.run(isa, 3),
                        "{isa} {unit:?} {sizes:?} on three threads"
                    );
                    for (given, right) in alone.iter().zip(&reference) {
                        let largest = right.iter().fold(0.0_f64, |most, n| most.max(n.abs()));
                        // Gradients of a single key's scores are differences of equal numbers.
                        assert_close(given, right, Tolerance::new(2e-2 * largest + 1e-3, 0.0));
                    }
                    alone
                };
                let unit = Bf16Unit::detect();
                assert_eq!(run(unit), run(unit.plain()), "{isa} {sizes:?}");
                run(Bf16Unit::Plain(Bf16Order::Halves));
            }
        }
    }
}

#[test]
fn heads_are_reordered_to_tokens() {
    let shape = shape([2, 2, 3, 3, 2]);
    let part: Vec<f32> = (0..24_u8).map(f32::from).collect();
    let other: Vec<f32> = part.iter().map(|number| -number).collect();
    for threads in [1, 3] {
        let mut to = vec![f32::NAN; 48];
        shape.by_token(&[&part, &other], 3, Cut::new(&mut to, 8), threads);
        // Token 1 of sample 1: both heads of the first part, then both of the other.
        let from = |head: usize| ((2 + head) * 3 + 1) * 2;
        let [a, b] = [from(0), from(1)].map(|from| [part[from], part[from + 1]]);
        let right = [a[0], a[1], b[0], b[1], -a[0], -a[1], -b[0], -b[1]];
        assert_eq!(to[4 * 8..][..8], right);
    }
}

#[test]
fn layer_norm_and_its_gradients_are_those_of_the_definition() {
    for [rows, len] in [[1, 1], [3, 5], [PIECE_ROWS + 1, 16], [70, 33], [2, 384]] {
        // A mean that is large beside the deviation: its square would cancel the variance.
        let x: Vec<f32> = scattered(1, rows * len).into_iter().map(|x| 100.0 + x).collect();
        let [gamma, beta] = [2, 3].map(|seed| scattered(seed, len));
        let dy = scattered(4, rows * len);
        let epsilon = 1e-3;

        let wide = |numbers: &[f32]| numbers.iter().map(|&n| f64::from(n)).collect::<Vec<_>>();
        let (mut y, mut dx) = (Vec::new(), Vec::new());
        let (mut dgamma, mut dbeta) = (vec![0.0; len], vec![0.0; len]);
        for (x, dy) in wide(&x).chunks(len).zip(wide(&dy).chunks(len)) {
            let count = len as f64;
            let mean = x.iter().sum::<f64>() / count;
            let variance = x.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / count;
            let factor = (variance + f64::from(epsilon)).sqrt().recip();
            let n: Vec<f64> = x.iter().map(|x| (x - mean) * factor).collect();
            let g: Vec<f64> = dy.iter().zip(&gamma).map(|(dy, &g)| dy * f64::from(g)).collect();
            let of_g = g.iter().sum::<f64>() / count;
            let of_product = g.iter().zip(&n).map(|(g, n)| g * n).sum::<f64>() / count;
            for i in 0..len {
                y.push(n[i] * f64::from(gamma[i]) + f64::from(beta[i]));
                dx.push(factor * (g[i] - of_g - n[i] * of_product));
                dgamma[i] += dy[i] * n[i];
                dbeta[i] += dy[i];
            }
        }
        // The mean is rounded to 24 bits: 4e-6 of a deviation around 0.6.
        let close = Tolerance::new(1e-4, 1e-4);
        for (isa, threads) in paths().flat_map(|isa| [1, 3].map(|threads| (isa, threads))) {
            let mut given = [vec![f32::NAN; rows * len], vec![f32::NAN; rows * len]];
            let mut of_parameters = [vec![f32::NAN; len], vec![f32::NAN; len]];
            let mut statistics = vec![[f32::NAN; 2]; rows];
            let input = LayerNormInput { x: &x, gamma: &gamma, epsilon };
            let [given_y, given_dx] = &mut given;
            let pieces = Cut::new(given_y, PIECE_ROWS * len);
            layer_norm(isa, input, &beta, pieces, &mut statistics, threads);
            let pieces = Cut::new(given_dx, PIECE_ROWS * len);
            let [of_gamma, of_beta] = &mut of_parameters;
            let of_parameters_mut = [&mut of_gamma[..], &mut of_beta[..]];
            layer_norm_gradient(isa, input, &statistics, &dy, pieces, of_parameters_mut, threads);
            assert_close(&given[0], &y, close);
            assert_close(&given[1], &dx, close);
            assert_close(&of_parameters[0], &dgamma, Tolerance::new(1e-3, 1e-4));
            assert_close(&of_parameters[1], &dbeta, close);
        }
    }
}

#[test]
fn gelu_and_its_gradients_are_those_of_the_definition() {
    let len = 37;
    let mut x: Vec<f32> = (-7_000..7_000).map(|step| step as f32 * 2e-3).collect();
    x.extend([0.0, -0.0, 1e-30, -1e-30, 100.0, 1e30]);
    x.resize(x.len().next_multiple_of(len), 0.25);
    let dy: Vec<f32> = (0..x.len()).map(|i| if i % 2 == 0 { 1.0 } else { -2.0 }).collect();
    for bias in [vec![0.0; len], scattered(9, len)] {
        for (isa, threads) in paths().flat_map(|isa| [1, 3].map(|threads| (isa, threads))) {
            let (mut y, mut dx) = (vec![f32::NAN; x.len()], vec![f32::NAN; x.len()]);
            let mut dbias = vec![f32::NAN; len];
            bias_gelu(isa, &x, &bias, Cut::new(&mut y, PIECE_ROWS * len), threads);
            let pieces = Cut::new(&mut dx, PIECE_ROWS * len);
            bias_gelu_gradient(isa, &x, &bias, &dy, pieces, &mut dbias, threads);
            let mut sums = vec![0.0; len];
            for (i, &x) in x.iter().enumerate() {
                // The sum is rounded in f32, as burn's addition of a bias is.
                let z = f64::from(x + bias[i % len]);
                let [distribution, density] = normal(z);
                let unit = 8.0 * f64::from(f32::EPSILON);
                let value = z * distribution;
                // The square of the exponent's argument has an error that the tail magnifies.
                let error = (f64::from(y[i]) - value).abs();
                let allowed = unit * value.abs() * (1.0 + z * z / 8.0) + 1e-36;
                assert!(error <= allowed, "{isa} at {z}: {} is not {value}", y[i]);
                let slope = f64::from(dy[i]) * (distribution + z * density);
                let error = (f64::from(dx[i]) - slope).abs();
                assert!(error <= 2.0 * unit, "{isa} slope at {z}: {} is not {slope}", dx[i]);
                sums[i % len] += slope;
            }
            assert_close(&dbias, &sums, Tolerance::new(1e-3, 1e-4));
        }
    }
}

#[test]
fn the_number_of_threads_changes_no_bit_of_sums_over_rows() {
    let (rows, len) = (5 * PIECE_ROWS + 3, 20);
    let [x, dy] = [1, 2].map(|seed| scattered(seed, rows * len));
    let gamma = scattered(3, len);
    for isa in paths() {
        let run = |threads| {
            let (mut y, mut dx) = (vec![0.0; rows * len], vec![0.0; rows * len]);
            let mut statistics = vec![[0.0; 2]; rows];
            let (mut dgamma, mut dbeta, mut dbias) =
                (vec![0.0; len], vec![0.0; len], vec![0.0; len]);
            let input = LayerNormInput { x: &x, gamma: &gamma, epsilon: 1e-5 };
            let piece = PIECE_ROWS * len;
            layer_norm(isa, input, &gamma, Cut::new(&mut y, piece), &mut statistics, threads);
            let of_parameters = [&mut dgamma[..], &mut dbeta[..]];
            let pieces = Cut::new(&mut dx, piece);
            layer_norm_gradient(isa, input, &statistics, &dy, pieces, of_parameters, threads);
            let pieces = Cut::new(&mut dx, piece);
            bias_gelu_gradient(isa, &x, &gamma, &dy, pieces, &mut dbias, threads);
            [y, dx, dgamma, dbeta, dbias]
        };
        let alone = run(1);
        for threads in [2, 3, 8] {
            assert_eq!(alone, run(threads), "{isa} {threads} threads");
        }
    }
}
