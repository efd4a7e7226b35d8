//! Normalization of rows by their own mean and variance, `(x − mean)/√(variance + ε)·γ + β`.
//!
//! # Source
//! Ba, Kiros, Hinton 2016, arXiv:1607.06450, equations 3 and 4.

use updraft_simd::{Cut, Isa, MAX_LANES, Pieces, Simd, dispatch, over, threads};

use super::PIECE_ROWS;

/// Rows and their parameters.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LayerNormInput<'a> {
    pub(crate) x: &'a [f32],
    /// Factors of a row's numbers.
    pub(crate) gamma: &'a [f32],
    pub(crate) epsilon: f32,
}

/// Computes `y`, in pieces of [`PIECE_ROWS`], with the summands `beta`; and of each row the mean
/// and `1/√(variance + ε)`.
pub(crate) fn layer_norm<'a>(
    isa: Isa,
    input: LayerNormInput<'_>,
    beta: &[f32],
    y: impl Pieces<Piece = &'a mut [f32]>,
    statistics: &mut [[f32; 2]],
    asked_threads: usize,
) {
    let LayerNormInput { x, gamma, epsilon } = input;
    let (vectors, len) = (isa.vectors(), gamma.len());
    let pieces = (y, Cut::new(statistics, PIECE_ROWS));
    over(pieces, &mut vec![(); threads(asked_threads)], |index, (y, statistics), ()| {
        let x = &x[index * PIECE_ROWS * len..][..y.len()];
        for ((x, y), statistics) in x.chunks(len).zip(y.chunks_mut(len)).zip(statistics) {
            *statistics = row(vectors, x, [gamma, beta], epsilon, y);
        }
    });
}

/// Computes the gradients from the statistics of [`layer_norm`]: `dx`, in the same pieces, and those of
/// `gamma` and `beta`.
pub(crate) fn layer_norm_gradient<'a>(
    isa: Isa,
    input: LayerNormInput<'_>,
    statistics: &[[f32; 2]],
    dy: &[f32],
    dx: impl Pieces<Piece = &'a mut [f32]>,
    [dgamma, dbeta]: [&mut [f32]; 2],
    asked_threads: usize,
) {
    let LayerNormInput { x, gamma, .. } = input;
    let (vectors, len) = (isa.vectors(), gamma.len());
    let mut sums = vec![0.0; dx.count() * 2 * len];
    let pieces = (dx, Cut::new(&mut sums, 2 * len));
    over(pieces, &mut vec![(); threads(asked_threads)], |index, (dx, sums), ()| {
        let place = index * PIECE_ROWS * len..index * PIECE_ROWS * len + dx.len();
        let rows = x[place.clone()].chunks(len).zip(dy[place].chunks(len));
        let (of_gamma, of_beta) = sums.split_at_mut(len);
        for (((x, dy), dx), &statistics) in
            rows.zip(dx.chunks_mut(len)).zip(&statistics[index * PIECE_ROWS..])
        {
            row_gradient(vectors, [x, gamma, dy], statistics, dx, of_gamma, of_beta);
        }
    });
    dgamma.fill(0.0);
    dbeta.fill(0.0);
    for sums in sums.chunks(2 * len) {
        for (total, sum) in dgamma.iter_mut().chain(&mut *dbeta).zip(sums) {
            *total += sum;
        }
    }
}

dispatch! {
    /// Normalizes a row, and returns its mean and `1/√(variance + ε)`.
    fn row(simd, x: &[f32], parameters: [&[f32]; 2], epsilon: f32, y: &mut [f32]) -> [f32; 2] {
        normalize(simd, x, parameters, epsilon, y)
    }

    /// Writes the gradient of a row of `[x, gamma, dy]`, and adds to those of the parameters.
    fn row_gradient(simd,
        inputs: [&[f32]; 3],
        statistics: [f32; 2],
        dx: &mut [f32],
        of_gamma: &mut [f32],
        of_beta: &mut [f32],
    ) {
        gradient(simd, inputs, statistics, dx, [of_gamma, of_beta]);
    }
}

#[inline(always)]
fn normalize<S: Simd>(
    simd: S,
    x: &[f32],
    [gamma, beta]: [&[f32]; 2],
    epsilon: f32,
    y: &mut [f32],
) -> [f32; 2] {
    let len = x.len() as f32;
    let whole = x.len() / S::LANES * S::LANES;
    let mut sums = simd.zero();
    for x in x.chunks(S::LANES) {
        sums = simd.add(sums, simd.read(x));
    }
    let mean = total(simd, sums) / len;

    // Around the mean: the difference of mean square and squared mean cancels.
    let shift = simd.splat(-mean);
    let mut sums = simd.zero();
    for x in x[..whole].chunks(S::LANES) {
        let centered = simd.add(simd.read(x), shift);
        sums = simd.multiply_add(sums, centered, centered);
    }
    let rest: f32 = x[whole..].iter().map(|x| (x - mean) * (x - mean)).sum();
    let variance = (total(simd, sums) + rest) / len;
    let factor = (variance + epsilon).sqrt().recip();

    let factors = simd.splat(factor);
    let parameters = gamma.chunks(S::LANES).zip(beta.chunks(S::LANES));
    for ((x, y), (gamma, beta)) in x.chunks(S::LANES).zip(y.chunks_mut(S::LANES)).zip(parameters) {
        let normalized = simd.multiply(simd.add(simd.read(x), shift), factors);
        simd.write(y, simd.multiply_add(simd.read(beta), normalized, simd.read(gamma)));
    }
    [mean, factor]
}

/// `dx = factor·(g − mean(g) − n·mean(g·n))` with `g = γ·dy` and the normalized row `n`.
#[inline(always)]
fn gradient<S: Simd>(
    simd: S,
    [x, gamma, dy]: [&[f32]; 3],
    [mean, factor]: [f32; 2],
    dx: &mut [f32],
    [of_gamma, of_beta]: [&mut [f32]; 2],
) {
    let len = x.len() as f32;
    let [shift, factors] = [-mean, factor].map(|number| simd.splat(number));
    let normalized = |x| simd.multiply(simd.add(simd.read(x), shift), factors);
    let mut sums = [simd.zero(); 2];
    let parameters = of_gamma.chunks_mut(S::LANES).zip(of_beta.chunks_mut(S::LANES));
    let inputs = x.chunks(S::LANES).zip(gamma.chunks(S::LANES)).zip(dy.chunks(S::LANES));
    for (((x, gamma), dy), (of_gamma, of_beta)) in inputs.clone().zip(parameters) {
        // Behind the end of a row `dy` is 0.
        let (n, dy) = (normalized(x), simd.read(dy));
        let g = simd.multiply(simd.read(gamma), dy);
        sums = [simd.add(sums[0], g), simd.multiply_add(sums[1], g, n)];
        let sum = simd.multiply_add(simd.read(of_gamma), n, dy);
        simd.write(of_gamma, sum);
        let sum = simd.add(simd.read(of_beta), dy);
        simd.write(of_beta, sum);
    }
    // Not `map`: its closure may be compiled without the instructions of `S`.
    let of_g = simd.splat(-total(simd, sums[0]) / len);
    let of_product = simd.splat(-total(simd, sums[1]) / len);
    for (((x, gamma), dy), dx) in inputs.zip(dx.chunks_mut(S::LANES)) {
        let n = normalized(x);
        let g = simd.multiply_add(of_g, simd.read(gamma), simd.read(dy));
        simd.write(dx, simd.multiply(factors, simd.multiply_add(g, n, of_product)));
    }
}

#[inline(always)]
fn total<S: Simd>(simd: S, sums: S::Vector) -> f32 {
    let mut lanes = [0.0; MAX_LANES];
    simd.write(&mut lanes, sums);
    lanes.iter().sum()
}
