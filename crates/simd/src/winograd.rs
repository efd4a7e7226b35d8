//! Winograd's transforms of tiles, each a product with a small matrix on both sides; lanes are
//! channels.
//!
//! The minimal algorithm F(4, 3) at the points 0, ±5/8, ±3/2 and ∞: four neighboring results of
//! a kernel of three by six products instead of twelve, and on both axes 36 instead of 144.
//! With the matrices `A`, `B` and `G` of these points a tile of results is
//! `Aᵀ((G·w·Gᵀ) ⊙ (Bᵀ·x·B))A`, and the kernel's gradient is `Gᵀ((A·dy·Aᵀ) ⊙ (Bᵀ·x·B))G`.
//!
//! Source: Lavin and Gray 2016, arXiv:1509.09308, by the construction of Cook and Toom. Points
//! were compared by the error of sums over 64 channels: the usual ±1 and ±2 had four times that
//! of these, whose squares and cubes f32 holds exactly.
#![expect(unsafe_code, reason = "reads and writes through pointers that were checked once")]

use crate::{CACHE_LINE_BYTES, Isa, Simd, dispatch};

/// Numbers of a cache line.
const CACHE_LINE: usize = CACHE_LINE_BYTES / size_of::<f32>();

/// Results of a tile on each axis.
pub const RESULTS: usize = 4;

/// Inputs and products of a tile on each axis.
pub const POINTS: usize = 6;

/// Taps of a kernel on each axis.
pub const TAPS: usize = 3;

/// A pitch of at least so many numbers with which the points do not share sets of a cache: an odd
/// number of cache lines.
#[must_use]
pub const fn spread(count: usize) -> usize {
    (count.div_ceil(CACHE_LINE) | 1) * CACHE_LINE
}

/// One of the transforms, with its sizes on each axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transform {
    /// `Bᵀ`: 6 inputs to 6 points.
    Input,
    /// `G`: 3 weights to 6 points.
    Weights,
    /// `Aᵀ`: 6 points to 4 results.
    Results,
    /// `A`: 4 gradients of results to 6 points.
    Gradient,
    /// `Gᵀ`: 6 points to 3 gradients of weights.
    WeightGradient,
}

impl Transform {
    /// The numbers of inputs and outputs on each axis.
    const fn sizes(self) -> [usize; 2] {
        match self {
            Self::Input => [POINTS, POINTS],
            Self::Weights => [TAPS, POINTS],
            Self::Results => [POINTS, RESULTS],
            Self::Gradient => [RESULTS, POINTS],
            Self::WeightGradient => [POINTS, TAPS],
        }
    }
}

/// The layout of the squares of vectors that a transform reads or writes.
#[derive(Debug, Clone, Copy)]
pub struct Squares {
    /// Numbers from one square to the next, by rows and columns of squares.
    pub apart: [usize; 2],
    /// Numbers from one entry of a square to the next, by rows and columns.
    pub step: [usize; 2],
}

impl Squares {
    /// The numbers up to the end of the last square's last vector.
    fn end(&self, count: [usize; 2], size: usize, vectors: usize) -> usize {
        let times = usize::saturating_mul;
        let numbers = [
            times(count[0] - 1, self.apart[0]),
            times(count[1] - 1, self.apart[1]),
            times(size - 1, self.step[0]),
            times(size - 1, self.step[1]),
        ];
        numbers.into_iter().fold(vectors, usize::saturating_add)
    }
}

/// A transform of many squares.
#[derive(Debug, Clone, Copy)]
pub struct TransformJob<'a> {
    /// The transform to compute.
    pub transform: Transform,
    /// The numbers that are transformed.
    pub input: &'a [f32],
    /// Rows and columns of squares.
    pub count: [usize; 2],
    /// Numbers of each entry of a square: whole vectors.
    pub channels: usize,
    /// Where the squares lie in the input.
    pub from: Squares,
    /// Where they lie in the output.
    pub to: Squares,
}

impl TransformJob<'_> {
    /// Computes the squares of `output`. For results and gradients of weights, returns whether all are
    /// finite; otherwise `true`.
    ///
    /// # Panics
    /// If a slice is shorter than the job requires, `channels` is not a multiple of the vector, or the
    /// CPU does not have `isa`.
    pub fn run(&self, isa: Isa, output: &mut [f32]) -> bool {
        assert!(isa.is_available(), "this CPU has no {isa}");
        if self.count.contains(&0) {
            return true;
        }
        let [taken, given] = self.transform.sizes();
        assert!(self.channels.is_multiple_of(isa.lanes()), "whole vectors");
        let read = self.from.end(self.count, taken, self.channels);
        assert!(read <= self.input.len(), "the input is too short");
        let written = self.to.end(self.count, given, self.channels);
        assert!(written <= output.len(), "the output is too short");
        all_squares(isa.vectors(), self, output)
    }
}

/// The first two points but 0, and each with the other sign.
const P: f32 = 5.0 / 8.0;
const Q: f32 = 3.0 / 2.0;
const P2: f32 = P * P;
const Q2: f32 = Q * Q;
const P3: f32 = P2 * P;
const Q3: f32 = Q2 * Q;

/// `Π (point − other)` over the other finite points, of 0, ±P and ±Q.
const AT_0: f32 = P2 * Q2;
const AT_P: f32 = 2.0 * P2 * (P2 - Q2);
const AT_Q: f32 = 2.0 * Q2 * (Q2 - P2);

/// A matrix that maps `I` vectors to `O`.
trait Matrix<const I: usize, const O: usize> {
    /// Whether its outputs are results, and not points that are to be multiplied.
    const IS_LAST: bool;

    fn of<S: Simd>(simd: S, x: [S::Vector; I]) -> [S::Vector; O];
}

/// `factor·x`.
#[inline(always)]
fn times<S: Simd>(simd: S, factor: f32, x: S::Vector) -> S::Vector {
    simd.multiply_add(simd.zero(), simd.splat(factor), x)
}

/// `sum + factor·x`.
#[inline(always)]
fn plus<S: Simd>(simd: S, sum: S::Vector, factor: f32, x: S::Vector) -> S::Vector {
    simd.multiply_add(sum, simd.splat(factor), x)
}

struct Input;

impl Matrix<POINTS, POINTS> for Input {
    const IS_LAST: bool = false;

    /// The coefficients of `Π (t − other)` over the other finite points.
    #[inline(always)]
    fn of<S: Simd>(simd: S, x: [S::Vector; POINTS]) -> [S::Vector; POINTS] {
        let zero = plus(simd, plus(simd, x[4], -(P2 + Q2), x[2]), P2 * Q2, x[0]);
        let [even_p, odd_p] = [plus(simd, x[4], -Q2, x[2]), plus(simd, x[3], -Q2, x[1])];
        let [even_q, odd_q] = [plus(simd, x[4], -P2, x[2]), plus(simd, x[3], -P2, x[1])];
        let infinity = plus(simd, plus(simd, x[5], -(P2 + Q2), x[3]), P2 * Q2, x[1]);
        let [p, minus_p] = [plus(simd, even_p, P, odd_p), plus(simd, even_p, -P, odd_p)];
        let [q, minus_q] = [plus(simd, even_q, Q, odd_q), plus(simd, even_q, -Q, odd_q)];
        [zero, p, minus_p, q, minus_q, infinity]
    }
}

struct Weights;

impl Matrix<TAPS, POINTS> for Weights {
    const IS_LAST: bool = false;

    /// The kernel's polynomial at the points, divided by the products there.
    #[inline(always)]
    fn of<S: Simd>(simd: S, w: [S::Vector; TAPS]) -> [S::Vector; POINTS] {
        let even_p = plus(simd, times(simd, 1.0 / AT_P, w[0]), P2 / AT_P, w[2]);
        let even_q = plus(simd, times(simd, 1.0 / AT_Q, w[0]), Q2 / AT_Q, w[2]);
        let [p, minus_p] =
            [plus(simd, even_p, P / AT_P, w[1]), plus(simd, even_p, -P / AT_P, w[1])];
        let [q, minus_q] =
            [plus(simd, even_q, Q / AT_Q, w[1]), plus(simd, even_q, -Q / AT_Q, w[1])];
        [times(simd, 1.0 / AT_0, w[0]), p, minus_p, q, minus_q, w[2]]
    }
}

struct Results;

impl Matrix<POINTS, RESULTS> for Results {
    const IS_LAST: bool = true;

    /// The powers of the points: row `i` has `pointⁱ`.
    #[inline(always)]
    fn of<S: Simd>(simd: S, m: [S::Vector; POINTS]) -> [S::Vector; RESULTS] {
        let [even_p, odd_p] = [simd.add(m[1], m[2]), plus(simd, m[1], -1.0, m[2])];
        let [even_q, odd_q] = [simd.add(m[3], m[4]), plus(simd, m[3], -1.0, m[4])];
        [
            simd.add(m[0], simd.add(even_p, even_q)),
            plus(simd, times(simd, P, odd_p), Q, odd_q),
            plus(simd, times(simd, P2, even_p), Q2, even_q),
            plus(simd, plus(simd, m[5], P3, odd_p), Q3, odd_q),
        ]
    }
}

struct Gradient;

impl Matrix<RESULTS, POINTS> for Gradient {
    const IS_LAST: bool = false;

    /// The transpose of [`Results`].
    #[inline(always)]
    fn of<S: Simd>(simd: S, dy: [S::Vector; RESULTS]) -> [S::Vector; POINTS] {
        let [even_p, odd_p] = [plus(simd, dy[0], P2, dy[2]), plus(simd, dy[1], P2, dy[3])];
        let [even_q, odd_q] = [plus(simd, dy[0], Q2, dy[2]), plus(simd, dy[1], Q2, dy[3])];
        let [p, minus_p] = [plus(simd, even_p, P, odd_p), plus(simd, even_p, -P, odd_p)];
        let [q, minus_q] = [plus(simd, even_q, Q, odd_q), plus(simd, even_q, -Q, odd_q)];
        [dy[0], p, minus_p, q, minus_q, dy[3]]
    }
}

struct WeightGradient;

impl Matrix<POINTS, TAPS> for WeightGradient {
    const IS_LAST: bool = true;

    /// The transpose of [`Weights`].
    #[inline(always)]
    fn of<S: Simd>(simd: S, m: [S::Vector; POINTS]) -> [S::Vector; TAPS] {
        let [even_p, odd_p] = [simd.add(m[1], m[2]), plus(simd, m[1], -1.0, m[2])];
        let [even_q, odd_q] = [simd.add(m[3], m[4]), plus(simd, m[3], -1.0, m[4])];
        [
            plus(
                simd,
                plus(simd, times(simd, 1.0 / AT_0, m[0]), 1.0 / AT_P, even_p),
                1.0 / AT_Q,
                even_q,
            ),
            plus(simd, times(simd, P / AT_P, odd_p), Q / AT_Q, odd_q),
            plus(simd, plus(simd, m[5], P2 / AT_P, even_p), Q2 / AT_Q, even_q),
        ]
    }
}

/// All squares of a job.
///
/// # Safety
/// [`TransformJob::run`] has checked the job and the output.
#[inline(always)]
unsafe fn transform<S: Simd>(simd: S, job: &TransformJob<'_>, output: &mut [f32]) -> bool {
    match job.transform {
        // SAFETY: the caller promises the check, here and below.
        Transform::Input => unsafe { squares::<S, Input, 6, 6>(simd, job, output) },
        // SAFETY: see above.
        Transform::Weights => unsafe { squares::<S, Weights, 3, 6>(simd, job, output) },
        // SAFETY: see above.
        Transform::Results => unsafe { squares::<S, Results, 6, 4>(simd, job, output) },
        // SAFETY: see above.
        Transform::Gradient => unsafe { squares::<S, Gradient, 4, 6>(simd, job, output) },
        // SAFETY: see above.
        Transform::WeightGradient => unsafe {
            squares::<S, WeightGradient, 6, 3>(simd, job, output)
        },
    }
}

/// `M·X·Mᵀ` for every square `X` of vectors.
///
/// # Safety
/// [`TransformJob::run`] has checked a job of a transform with these sizes.
#[inline(always)]
unsafe fn squares<S: Simd, M: Matrix<I, O>, const I: usize, const O: usize>(
    simd: S,
    job: &TransformJob<'_>,
    output: &mut [f32],
) -> bool {
    let TransformJob { from, to, .. } = *job;
    // Zeros as long as all results are finite.
    let mut checks = [simd.zero(); O];
    let (input, output) = (job.input.as_ptr(), output.as_mut_ptr());
    for row in 0..job.count[0] {
        for column in 0..job.count[1] {
            let first = input.wrapping_add(row * from.apart[0] + column * from.apart[1]);
            let result = output.wrapping_add(row * to.apart[0] + column * to.apart[1]);
            for channel in (0..job.channels).step_by(S::LANES) {
                let first = first.wrapping_add(channel);
                let result = result.wrapping_add(channel);
                let mut half = [[simd.zero(); I]; O];
                for j in 0..I {
                    let mut line = [simd.zero(); I];
                    for (i, entry) in line.iter_mut().enumerate() {
                        let at = first.wrapping_add(i * from.step[0] + j * from.step[1]);
                        // SAFETY: all entries of all squares lie in the input.
                        *entry = unsafe { simd.load(at) };
                    }
                    for (half, entry) in half.iter_mut().zip(M::of(simd, line)) {
                        half[j] = entry;
                    }
                }
                for (i, half) in half.into_iter().enumerate() {
                    for (j, entry) in M::of(simd, half).into_iter().enumerate() {
                        if M::IS_LAST {
                            checks[j] = simd.multiply_add(checks[j], simd.zero(), entry);
                        }
                        let at = result.wrapping_add(i * to.step[0] + j * to.step[1]);
                        // SAFETY: all entries of all squares lie in the output.
                        unsafe { simd.store(at, entry) };
                    }
                }
            }
        }
    }
    checks.into_iter().all(|check| simd.is_zero(check))
}

dispatch! {
    /// All squares of a job that was checked.
    fn all_squares(simd, job: &TransformJob<'_>, output: &mut [f32]) -> bool {
        // SAFETY: `TransformJob::run` has checked the job and the output.
        unsafe { transform(simd, job, output) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers of a square's entry: two vectors of the longest kind.
    const CHANNELS: usize = 32;

    fn numbers(count: usize, seed: usize) -> Vec<f32> {
        (0..count).map(|at| ((at * 37 + seed * 11) % 101) as f32 / 50.0 - 1.0).collect()
    }

    fn squares(size: usize) -> Squares {
        Squares { apart: [0, 0], step: [size * CHANNELS, CHANNELS] }
    }

    fn transformed(isa: Isa, transform: Transform, input: &[f32]) -> Vec<f32> {
        let [taken, given] = transform.sizes();
        let mut output = vec![f32::NAN; given * given * CHANNELS];
        let job = TransformJob {
            transform,
            input,
            count: [1, 1],
            channels: CHANNELS,
            from: squares(taken),
            to: squares(given),
        };
        assert!(job.run(isa, &mut output), "{isa}: finite results");
        output
    }

    fn product(a: &[f32], b: &[f32]) -> Vec<f32> {
        a.iter().zip(b).map(|(a, b)| a * b).collect()
    }

    /// `sum(row, column)` of each result is the sum of products at `[row + i][column + j]` and
    /// `[i][j]` of two squares.
    fn correlation(long: &[f32], length: usize, short: &[f32], size: usize) -> Vec<f64> {
        let results = length - size + 1;
        let mut sums = vec![0.0; results * results * CHANNELS];
        for (at, sum) in sums.iter_mut().enumerate() {
            let (row, column) = (at / CHANNELS / results, at / CHANNELS % results);
            for (i, j) in (0..size * size).map(|at| (at / size, at % size)) {
                let place = ((row + i) * length + column + j) * CHANNELS + at % CHANNELS;
                let other = (i * size + j) * CHANNELS + at % CHANNELS;
                *sum += f64::from(long[place]) * f64::from(short[other]);
            }
        }
        sums
    }

    fn assert_close(isa: Isa, found: &[f32], expected: &[f64]) {
        assert_eq!(found.len(), expected.len());
        for (found, expected) in found.iter().zip(expected) {
            let error = (f64::from(*found) - expected).abs();
            assert!(error < 2e-5, "{isa}: {found} is not {expected}");
        }
    }

    #[test]
    fn products_of_points_are_the_sums_of_products_of_pixels() {
        let x = numbers(POINTS * POINTS * CHANNELS, 1);
        let w = numbers(TAPS * TAPS * CHANNELS, 2);
        let dy = numbers(RESULTS * RESULTS * CHANNELS, 3);
        for isa in Isa::BASES.into_iter().filter(|isa| isa.is_available()) {
            let points = transformed(isa, Transform::Input, &x);
            let weights = transformed(isa, Transform::Weights, &w);
            let results = transformed(isa, Transform::Results, &product(&points, &weights));
            assert_close(isa, &results, &correlation(&x, POINTS, &w, TAPS));
            let gradient = transformed(isa, Transform::Gradient, &dy);
            let of_weights =
                transformed(isa, Transform::WeightGradient, &product(&points, &gradient));
            assert_close(isa, &of_weights, &correlation(&x, POINTS, &dy, RESULTS));
        }
    }

    #[test]
    fn a_result_that_is_not_finite_is_reported() {
        let mut points = numbers(POINTS * POINTS * CHANNELS, 1);
        points[17] = f32::INFINITY;
        for isa in Isa::BASES.into_iter().filter(|isa| isa.is_available()) {
            let mut results = vec![0.0; RESULTS * RESULTS * CHANNELS];
            let job = TransformJob {
                transform: Transform::Results,
                input: &points,
                count: [1, 1],
                channels: CHANNELS,
                from: squares(POINTS),
                to: squares(RESULTS),
            };
            assert!(!job.run(isa, &mut results), "{isa}");
        }
    }
}
