//! One feature map of a batch normalization: its sums, and its result.

use updraft_simd::dispatch;

use crate::kernels::elementwise::Activation;
use crate::kernels::elementwise::function::{Function, with_function};

/// Lanes of a sum: two of the widest vectors.
const LANES: usize = 32;

/// Lanes of the sum of these in f64: one of the widest vectors.
const WIDE: usize = 8;

/// The parameters of the normalization of one feature map.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Line {
    pub(crate) mean: f32,
    /// `γ/√(variance + ε)`.
    pub(crate) scale: f32,
    /// `β`.
    pub(crate) shift: f32,
    /// The activation.
    pub(crate) activation: Activation,
}

impl Line {
    #[inline(always)]
    fn at(&self, x: f32) -> f32 {
        (x - self.mean) * self.scale + self.shift
    }
}

/// Sums `N` terms of each number, and of those beside it in `M` slices, lane by lane, then the
/// lanes in f64.
#[inline(always)]
pub(in crate::kernels) fn sums<const M: usize, const N: usize>(
    slices: [&[f32]; M],
    term: impl Fn([f32; M]) -> [f32; N],
) -> [f64; N] {
    let mut lanes = [[0.0_f32; LANES]; N];
    let (parts, rests) =
        (slices.map(|x| x.as_chunks::<LANES>().0), slices.map(|x| x.as_chunks::<LANES>().1));
    for part in 0..parts.iter().map(|parts| parts.len()).min().unwrap_or(0) {
        let numbers = parts.map(|parts| &parts[part]);
        for lane in 0..LANES {
            let terms = term(numbers.map(|numbers| numbers[lane]));
            for n in 0..N {
                lanes[n][lane] += terms[n];
            }
        }
    }
    let mut wide = [[0.0_f64; WIDE]; N];
    for (wide, lanes) in wide.iter_mut().zip(&lanes) {
        for part in lanes.as_chunks::<WIDE>().0 {
            for lane in 0..WIDE {
                wide[lane] += f64::from(part[lane]);
            }
        }
    }
    for index in 0..rests.iter().map(|rest| rest.len()).min().unwrap_or(0) {
        for (wide, term) in wide.iter_mut().zip(term(rests.map(|rest| rest[index]))) {
            wide[index % WIDE] += f64::from(term);
        }
    }
    wide.map(|[a, b, c, d, e, f, g, h]| ((a + e) + (c + g)) + ((b + f) + (d + h)))
}

/// The sum.
#[inline(always)]
fn total(x: &[f32]) -> f64 {
    let [sum] = sums([x], |[x]| [x]);
    sum
}

dispatch! {
    /// The sum.
    pub(crate) fn sum(_simd, x: &[f32]) -> f64 {
        total(x)
    }

    /// The mean and the sum of squared differences from it.
    pub(crate) fn moments(_simd, x: &[f32]) -> [f64; 2] {
        let mean = total(x) / x.len() as f64;
        let near = mean as f32;
        let [squares] = sums([x], |[x]| [(x - near) * (x - near)]);
        // The differences were taken from the rounded mean.
        let shift = mean - f64::from(near);
        [mean, squares - x.len() as f64 * shift * shift]
    }

    /// `y = activation((x − mean)·scale + shift + residual)`.
    pub(crate) fn apply(_simd, line: Line, x: &[f32], residual: Option<&[f32]>, y: &mut [f32]) {
        with_function!(line.activation, function => match residual {
            None => {
                for (&x, y) in x.iter().zip(y) {
                    *y = function.value(line.at(x));
                }
            }
            Some(residual) => {
                for ((&x, &residual), y) in x.iter().zip(residual).zip(y) {
                    *y = function.value(line.at(x) + residual);
                }
            }
        });
    }

    /// `y = activation((y − mean)·scale + shift)`.
    pub(crate) fn apply_in_place(_simd, line: Line, y: &mut [f32]) {
        with_function!(line.activation, function => for y in y {
            *y = function.value(line.at(*y));
        });
    }

    /// `y = activation((x − mean)·scale + shift + y)`.
    pub(crate) fn apply_onto(_simd, line: Line, x: &[f32], y: &mut [f32]) {
        with_function!(line.activation, function => for (&x, y) in x.iter().zip(y) {
            *y = function.value(line.at(x) + *y);
        });
    }

    /// `[Σ g, Σ g·(x − mean)]` of the gradient `g` that passes the activation.
    pub(crate) fn gradient_sums(_simd, line: Line,
        x: &[f32],
        residual: Option<&[f32]>,
        dy: &[f32],
    ) -> [f64; 2] {
        with_function!(line.activation, function => match residual {
            None => sums([x, dy], |[x, dy]| {
                let g = function.pass(line.at(x), dy);
                [g, g * (x - line.mean)]
            }),
            Some(residual) => sums([x, dy, residual], |[x, dy, residual]| {
                let g = function.pass(line.at(x) + residual, dy);
                [g, g * (x - line.mean)]
            }),
        })
    }

    /// `dx = scale·(g − first − (x − mean)·second)`.
    pub(crate) fn gradient(_simd, line: Line,
        means: [f32; 2],
        x: &[f32],
        dy: &[f32],
        dx: &mut [f32],
    ) {
        let [first, second] = means;
        with_function!(line.activation, function => for ((&x, &dy), dx) in x.iter().zip(dy).zip(dx) {
            let g = function.pass(line.at(x), dy);
            *dx = line.scale * (g - first - (x - line.mean) * second);
        });
    }

    /// The same where a residual was added, whose gradient is `g`.
    pub(crate) fn gradient_of_both(_simd, line: Line,
        means: [f32; 2],
        inputs: [&[f32]; 3],
        dx: &mut [f32],
        dresidual: &mut [f32],
    ) {
        let ([first, second], [x, residual, dy]) = (means, inputs);
        with_function!(line.activation, function => {
            let inputs = x.iter().zip(residual).zip(dy);
            for (((&x, &residual), &dy), (dx, dresidual)) in inputs.zip(dx.iter_mut().zip(dresidual)) {
                let g = function.pass(line.at(x) + residual, dy);
                *dx = line.scale * (g - first - (x - line.mean) * second);
                *dresidual = g;
            }
        });
    }

    /// `dx = scale·g − first − (x − mean)·second`, of means that hold all factors, written over
    /// `dy`.
    pub(crate) fn gradient_about(_simd, line: Line, means: [f32; 2], x: &[f32], dy: &mut [f32]) {
        let [first, second] = means;
        with_function!(line.activation, function => for (&x, dy) in x.iter().zip(dy) {
            let g = function.pass(line.at(x), *dy);
            *dy = line.scale * g - first - (x - line.mean) * second;
        });
    }
}
