//! The feature maps of a sample with few pixels, side by side: vectors reach over several channels.
//! The formulae are those of `plane.rs`, where a vector has one channel.

use updraft_simd::dispatch;

use super::plane::Line;
use crate::kernels::elementwise::Activation;
use crate::kernels::elementwise::function::{Function, with_function};

/// The parameters of the normalization of each number of a sample.
#[derive(Debug, Clone)]
pub(crate) struct Columns {
    mean: Vec<f32>,
    scale: Vec<f32>,
    shift: Vec<f32>,
    activation: Activation,
}

/// Repeats a number of each channel for its pixels.
pub(crate) fn repeated(channels: impl Iterator<Item = f32>, pixels: usize) -> Vec<f32> {
    channels.flat_map(|value| std::iter::repeat_n(value, pixels)).collect()
}

impl Columns {
    pub(crate) fn new(lines: &[Line], activation: Activation, pixels: usize) -> Self {
        let repeated = |of: fn(&Line) -> f32| repeated(lines.iter().map(of), pixels);
        Self {
            mean: repeated(|line| line.mean),
            scale: repeated(|line| line.scale),
            shift: repeated(|line| line.shift),
            activation,
        }
    }

    /// Mean, scale and shift of some columns.
    #[inline(always)]
    fn lines(&self, at: usize, len: usize) -> [&[f32]; 3] {
        [&self.mean, &self.scale, &self.shift].map(|values| &values[at..][..len])
    }
}

/// Some columns of a matrix.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Block<'a> {
    pub(crate) rows: &'a [f32],
    /// Numbers of a row.
    pub(crate) width: usize,
    /// The first of the columns.
    pub(crate) at: usize,
}

impl<'a> Block<'a> {
    /// The first `len` of the columns, row by row.
    #[inline(always)]
    fn parts(self, len: usize) -> impl Iterator<Item = &'a [f32]> {
        self.rows.chunks_exact(self.width).map(move |row| &row[self.at..][..len])
    }
}

dispatch! {
    /// Adds the numbers of each column to its sum.
    pub(crate) fn add_columns(_simd, block: Block<'_>, sums: &mut [f32]) {
        for x in block.parts(sums.len()) {
            for (sum, &x) in sums.iter_mut().zip(x) {
                *sum += x;
            }
        }
    }

    /// Adds the differences from each column's mean, and their squares, to its sums.
    pub(crate) fn add_differences(_simd, block: Block<'_>, means: &[f32], sums: [&mut [f32]; 2]) {
        let [differences, squares] = sums;
        for x in block.parts(differences.len()) {
            let sums = differences.iter_mut().zip(squares.iter_mut());
            for (((difference, square), &x), &mean) in sums.zip(x).zip(means) {
                *difference += x - mean;
                *square += (x - mean) * (x - mean);
            }
        }
    }

    /// `y = activation((x − mean)·scale + shift + residual)`.
    pub(crate) fn apply(_simd, by: &Columns, x: &[f32], residual: Option<&[f32]>, y: &mut [f32]) {
        let [mean, scale, shift] = by.lines(0, y.len());
        let lines = mean.iter().zip(scale).zip(shift);
        with_function!(by.activation, function => match residual {
            None => {
                for ((((&mean, &scale), &shift), &x), y) in lines.zip(x).zip(y) {
                    *y = function.value((x - mean) * scale + shift);
                }
            }
            Some(residual) => {
                let both = x.iter().zip(residual);
                for ((((&mean, &scale), &shift), (&x, &residual)), y) in lines.zip(both).zip(y) {
                    *y = function.value((x - mean) * scale + shift + residual);
                }
            }
        });
    }

    /// Adds `g` and `g·(x − mean)` of each column to its sums, where `g` is the gradient that passes
    /// the activation.
    pub(crate) fn add_gradients(_simd, by: &Columns,
        inputs: [Block<'_>; 2],
        residual: Option<Block<'_>>,
        sums: [&mut [f32]; 2],
    ) {
        let [first, second] = sums;
        let len = first.len();
        let [x, dy] = inputs;
        let [mean, scale, shift] = by.lines(x.at, len);
        let rows = x.parts(len).zip(dy.parts(len));
        with_function!(by.activation, function => match residual {
            None => {
                for (x, dy) in rows {
                    let sums = first.iter_mut().zip(second.iter_mut());
                    let lines = mean.iter().zip(scale).zip(shift);
                    for (((first, second), ((&mean, &scale), &shift)), (&x, &dy)) in
                        sums.zip(lines).zip(x.iter().zip(dy))
                    {
                        let g = function.pass((x - mean) * scale + shift, dy);
                        *first += g;
                        *second += g * (x - mean);
                    }
                }
            }
            Some(residual) => {
                for ((x, dy), residual) in rows.zip(residual.parts(len)) {
                    let sums = first.iter_mut().zip(second.iter_mut());
                    let lines = mean.iter().zip(scale).zip(shift);
                    for (((first, second), ((&mean, &scale), &shift)), ((&x, &dy), &residual)) in
                        sums.zip(lines).zip(x.iter().zip(dy).zip(residual))
                    {
                        let g = function.pass((x - mean) * scale + shift + residual, dy);
                        *first += g;
                        *second += g * (x - mean);
                    }
                }
            }
        });
    }

    /// `dx = scale·(g − first − (x − mean)·second)`.
    pub(crate) fn gradient(_simd, by: &Columns,
        means: [&[f32]; 2],
        x: &[f32],
        dy: &[f32],
        dx: &mut [f32],
    ) {
        let [mean, scale, shift] = by.lines(0, dx.len());
        let lines = mean.iter().zip(scale).zip(shift).zip(means[0].iter().zip(means[1]));
        with_function!(by.activation, function => {
            for (((((&mean, &scale), &shift), (&first, &second)), (&x, &dy)), dx) in
                lines.zip(x.iter().zip(dy)).zip(dx)
            {
                let g = function.pass((x - mean) * scale + shift, dy);
                *dx = scale * (g - first - (x - mean) * second);
            }
        });
    }

    /// The same where a residual was added, whose gradient is `g`.
    pub(crate) fn gradient_of_both(_simd, by: &Columns,
        means: [&[f32]; 2],
        inputs: [&[f32]; 3],
        dx: &mut [f32],
        dresidual: &mut [f32],
    ) {
        let [x, residual, dy] = inputs;
        let [mean, scale, shift] = by.lines(0, dx.len());
        let lines = mean.iter().zip(scale).zip(shift).zip(means[0].iter().zip(means[1]));
        with_function!(by.activation, function => {
            let inputs = x.iter().zip(residual).zip(dy);
            for (((((&mean, &scale), &shift), (&first, &second)), ((&x, &residual), &dy)), (dx, dresidual)) in
                lines.zip(inputs).zip(dx.iter_mut().zip(dresidual))
            {
                let g = function.pass((x - mean) * scale + shift + residual, dy);
                *dx = scale * (g - first - (x - mean) * second);
                *dresidual = g;
            }
        });
    }
}
