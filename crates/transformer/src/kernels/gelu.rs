//! The Gaussian error linear unit of a sum with a bias, `x·Φ(x)` with the distribution function `Φ` of
//! the normal distribution.
//!
//! # Source
//! Hendrycks, Gimpel 2016, arXiv:1606.08415, section 2.

use updraft_simd::matrix::exponential;
use updraft_simd::normal::{DENSITY_AT_0, MILLS_RATIO, MILLS_SLOPE};
use updraft_simd::{Cut, Isa, Pieces, Simd, dispatch, over, threads};

use super::PIECE_ROWS;
use super::linear::column_sums;

/// `Φ` and its slope.
struct Normal<S: Simd> {
    distribution: S::Vector,
    density: S::Vector,
}

impl<S: Simd> Normal<S> {
    /// `Φ(−|x|)` is the density times the ratio of Mills, a polynomial here: both tails
    /// keep their relative precision, within 3 units in the last place.
    #[inline(always)]
    fn of(simd: S, x: S::Vector) -> Self {
        let zero = simd.zero();
        // The second operand where one is NaN.
        let size = simd.larger(simd.subtract(zero, x), x);
        let one = simd.splat(1.0);
        let t = simd.divide(one, simd.multiply_add(one, size, simd.splat(MILLS_SLOPE)));
        let mut ratio = simd.splat(MILLS_RATIO[0]);
        for &term in &MILLS_RATIO[1..] {
            ratio = simd.multiply_add(simd.splat(term), ratio, t);
        }
        let half_square = simd.multiply(simd.multiply(simd.splat(-0.5), size), size);
        let density = simd.multiply(simd.splat(DENSITY_AT_0), exponential(simd, half_square));
        let tail = simd.multiply(density, ratio);
        let distribution = simd.where_below([x, zero], tail, simd.subtract(one, tail));
        Self { distribution, density }
    }
}

/// Computes `y = gelu(x + bias)` of rows, in pieces of [`PIECE_ROWS`].
pub(crate) fn bias_gelu<'a>(
    isa: Isa,
    x: &[f32],
    bias: &[f32],
    y: impl Pieces<Piece = &'a mut [f32]>,
    asked_threads: usize,
) {
    let (vectors, len) = (isa.vectors(), bias.len());
    over(y, &mut vec![(); threads(asked_threads)], |index, y, ()| {
        let x = &x[index * PIECE_ROWS * len..][..y.len()];
        for (x, y) in x.chunks(len).zip(y.chunks_mut(len)) {
            values(vectors, x, bias, y);
        }
    });
}

/// Computes the gradients of [`bias_gelu`]: `dx`, in the same pieces, and that of the bias.
pub(crate) fn bias_gelu_gradient<'a>(
    isa: Isa,
    x: &[f32],
    bias: &[f32],
    dy: &[f32],
    dx: impl Pieces<Piece = &'a mut [f32]>,
    dbias: &mut [f32],
    asked_threads: usize,
) {
    let (vectors, len) = (isa.vectors(), bias.len());
    let mut sums = vec![0.0; dx.count() * len];
    let pieces = (dx, Cut::new(&mut sums, len));
    over(pieces, &mut vec![(); threads(asked_threads)], |index, (dx, sums), ()| {
        let place = index * PIECE_ROWS * len..index * PIECE_ROWS * len + dx.len();
        let (x, dy) = (&x[place.clone()], &dy[place]);
        for ((x, dy), dx) in x.chunks(len).zip(dy.chunks(len)).zip(dx.chunks_mut(len)) {
            slopes(vectors, x, bias, dy, dx, sums);
        }
    });
    column_sums(isa, &sums, dbias, 1);
}

dispatch! {
    fn values(simd, x: &[f32], bias: &[f32], y: &mut [f32]) {
        value(simd, x, bias, y);
    }

    /// Writes the gradient of a row, and adds it to the sums.
    fn slopes(simd, x: &[f32], bias: &[f32], dy: &[f32], dx: &mut [f32], sums: &mut [f32]) {
        slope(simd, [x, bias, dy], dx, sums);
    }
}

#[inline(always)]
fn value<S: Simd>(simd: S, x: &[f32], bias: &[f32], y: &mut [f32]) {
    for ((x, bias), y) in x.chunks(S::LANES).zip(bias.chunks(S::LANES)).zip(y.chunks_mut(S::LANES))
    {
        let x = simd.add(simd.read(x), simd.read(bias));
        simd.write(y, simd.multiply(x, Normal::of(simd, x).distribution));
    }
}

#[inline(always)]
fn slope<S: Simd>(simd: S, [x, bias, dy]: [&[f32]; 3], dx: &mut [f32], sums: &mut [f32]) {
    let inputs = x.chunks(S::LANES).zip(bias.chunks(S::LANES)).zip(dy.chunks(S::LANES));
    let results = dx.chunks_mut(S::LANES).zip(sums.chunks_mut(S::LANES));
    for (((x, bias), dy), (dx, sums)) in inputs.zip(results) {
        let x = simd.add(simd.read(x), simd.read(bias));
        let normal = Normal::of(simd, x);
        let slope = simd.multiply_add(normal.distribution, x, normal.density);
        let gradient = simd.multiply(slope, simd.read(dy));
        simd.write(dx, gradient);
        let sum = simd.add(simd.read(sums), gradient);
        simd.write(sums, sum);
    }
}
