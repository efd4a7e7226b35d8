//! Panels of values: a line for each function, with the rows side by side in vectors.
#![expect(unsafe_code, reason = "squares are transposed through pointers that were checked")]

use std::ops::Range;

use updraft_simd::Simd;
use updraft_simd::matrix::Rows;

use super::function::{
    Bumps, Chebyshev, Fourier, Functions, Gaussian, Gradient, Legendre, Lines, MexicanHat,
    Rational, Rswaf, with_functions,
};
use super::layer::{DenseLayer, PITCH, Parameters};
use crate::basis::Basis;
use crate::kernels::activation::Activation;
use crate::kernels::cpu;

/// Writes rows as columns, `[row.len][PITCH]`, with zeros behind the last row up to a whole panel.
#[inline(always)]
pub(super) fn transpose<S: Simd>(simd: S, rows: Rows<'_>, columns: &mut [f32]) {
    let filled = rows.count.next_multiple_of(2 * S::LANES);
    for row in (0..filled).step_by(S::LANES) {
        for column in (0..rows.len).step_by(S::LANES) {
            let (from, to) = (row * rows.pitch + column, column * PITCH + row);
            let last = (S::LANES - 1) * rows.pitch + S::LANES;
            let is_whole = row + S::LANES <= rows.count
                && column + S::LANES <= rows.len
                && from + last <= rows.numbers.len()
                && to + (S::LANES - 1) * PITCH + S::LANES <= columns.len();
            if is_whole {
                let (from, to) = (rows.numbers[from..].as_ptr(), columns[to..].as_mut_ptr());
                // SAFETY: both squares end within their slices, as was just compared.
                unsafe { simd.transpose(from, rows.pitch, to, PITCH) };
                continue;
            }
            for lane in 0..S::LANES {
                for column in column..rows.len.min(column + S::LANES) {
                    let is_there = row + lane < rows.count;
                    let number = if is_there {
                        rows.numbers[(row + lane) * rows.pitch + column]
                    } else {
                        0.0
                    };
                    columns[column * PITCH + row + lane] = number;
                }
            }
        }
    }
}

/// Writes the columns of some inputs for some of all rows, as [`transpose`] does.
///
/// A function and not a closure in its callers: a closure that is called twice may not be inlined,
/// and is then compiled without the instructions of `S`, so that each of them becomes a call.
#[inline(always)]
pub(super) fn columns_of<S: Simd>(
    simd: S,
    numbers: &[f32],
    pitch: usize,
    rows: Range<usize>,
    inputs: Range<usize>,
    columns: &mut [f32],
) {
    let numbers = &numbers[rows.start * pitch + inputs.start..];
    transpose(simd, Rows { numbers, pitch, count: rows.len(), len: inputs.len() }, columns);
}

/// Evaluates the functions of some inputs, `[inputs·functions][pitch]`, over vectors of rows.
#[inline(always)]
pub(super) fn values<S: Simd>(
    simd: S,
    layer: &DenseLayer,
    parameters: &Parameters<'_>,
    inputs: Range<usize>,
    columns: &[f32],
    panel: &mut [f32],
    [rows, pitch]: [usize; 2],
) {
    let count = layer.count();
    with_functions!(&layer.basis, functions => {
        for (index, input) in inputs.enumerate() {
            let own = parameters.of(input);
            let column = &columns[index * pitch..][..pitch];
            let lines = &mut panel[index * count * pitch..][..count * pitch];
            for at in (0..rows).step_by(S::LANES) {
                let x = simd.read(&column[at..]);
                functions.values(simd, own, x, Lines::new(lines, count, pitch, at));
            }
        }
    });
}

/// Evaluates the base branch's function of columns, `[inputs][pitch]`.
#[inline(always)]
pub(super) fn base<S: Simd>(
    simd: S,
    activation: Activation,
    columns: &[f32],
    panel: &mut [f32],
    [inputs, rows, pitch]: [usize; 3],
) {
    let lines = columns.chunks_exact(pitch).zip(panel.chunks_exact_mut(pitch));
    for (column, line) in lines.take(inputs) {
        for at in (0..rows).step_by(S::LANES) {
            let value = cpu::value(simd, activation, simd.read(&column[at..]));
            simd.write(&mut line[at..at + S::LANES], value);
        }
    }
}

/// The lines of a chunk for its gradients.
pub(super) struct Lanes<'a> {
    /// Of the input, `[inputs][pitch]`.
    pub(super) columns: &'a [f32],
    /// The gradient of each value, `[inputs·functions][pitch]`.
    pub(super) weights: &'a mut [f32],
    /// The values, in the same order.
    pub(super) panel: &'a mut [f32],
    /// The gradient of each input, `[inputs][pitch]`, which is replaced.
    pub(super) slopes: &'a mut [f32],
    /// A vector for each parameter.
    pub(super) lanes: &'a mut [f32],
    /// Numbers from line to line.
    pub(super) pitch: usize,
}

/// Evaluates the functions of some inputs, and the gradients of the inputs from those of the values.
///
/// The gradients of `TRAINED` parameters are added to `sums`, `[inputs][parameters]`.
#[inline(always)]
pub(super) fn gradients<S: Simd, const TRAINED: bool>(
    simd: S,
    layer: &DenseLayer,
    parameters: &Parameters<'_>,
    inputs: Range<usize>,
    rows: usize,
    of: Lanes<'_>,
    sums: &mut [f64],
) {
    let (count, trained) = (layer.count(), parameters.trained());
    let Lanes { columns, weights, panel, slopes, lanes, pitch } = of;
    with_functions!(&layer.basis, functions => {
        for (index, input) in inputs.enumerate() {
            let own = parameters.of(input);
            let line = index * pitch..(index + 1) * pitch;
            let (column, slopes) = (&columns[line.clone()], &mut slopes[line]);
            let lines = index * count * pitch..(index + 1) * count * pitch;
            let (weights, panel) = (&mut weights[lines.clone()], &mut panel[lines]);
            if TRAINED {
                lanes.fill(0.0);
            }
            for at in (0..rows).step_by(S::LANES) {
                let gradient = Gradient {
                    weights: Lines::new(weights, count, pitch, at),
                    values: Lines::new(panel, count, pitch, at),
                    sums: Lines::new(lanes, if TRAINED { trained } else { 0 }, S::LANES, 0),
                };
                let x = simd.read(&column[at..]);
                let slope = functions.gradient::<S, TRAINED>(simd, own, x, gradient);
                simd.write(&mut slopes[at..at + S::LANES], slope);
            }
            if TRAINED {
                let lanes = lanes.chunks_exact(S::LANES);
                for (sum, lanes) in sums[index * trained..].iter_mut().zip(lanes.take(trained)) {
                    *sum += lanes.iter().copied().map(f64::from).sum::<f64>();
                }
            }
        }
    });
}

/// The same for the base branch: its gradients are added to `slopes` if they are there already.
#[inline(always)]
pub(super) fn base_gradients<S: Simd>(
    simd: S,
    activation: Activation,
    [inputs, rows, pitch]: [usize; 3],
    [columns, weights]: [&[f32]; 2],
    slopes: &mut [f32],
    adds: bool,
) {
    for index in 0..inputs {
        for at in (index * pitch..index * pitch + rows).step_by(S::LANES) {
            let slope = cpu::slope(simd, activation, simd.read(&columns[at..]));
            let weight = simd.read(&weights[at..]);
            let before = if adds { simd.read(&slopes[at..]) } else { simd.zero() };
            let slope = simd.multiply_add(before, slope, weight);
            simd.write(&mut slopes[at..at + S::LANES], slope);
        }
    }
}
