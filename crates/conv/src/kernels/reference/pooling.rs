//! Pooling by its definition, window by window, in f64.

use crate::kernels::pool::{Divisor, PoolShape};

/// For every output of a feature map the inputs of its window, and its divisor.
#[derive(Debug, Clone)]
pub(crate) struct PoolWindows {
    planes: usize,
    input: [usize; 2],
    output: [usize; 2],
    /// Flat indices into the input's map, row by row.
    windows: Vec<(Vec<usize>, f64)>,
}

impl PoolWindows {
    /// Windows of one size.
    #[must_use]
    pub(crate) fn of(shape: PoolShape, divisor: Divisor) -> Self {
        let PoolShape { planes, input, kernel, stride, padding, dilation } = shape;
        let output = [0, 1].map(|axis| {
            let span = dilation[axis] * (kernel[axis] - 1) + 1;
            (input[axis] + 2 * padding[axis] - span) / stride[axis] + 1
        });
        let mut windows = Vec::new();
        for row in 0..output[0] {
            for column in 0..output[1] {
                let mut inside = Vec::new();
                for k in 0..kernel[0] {
                    for l in 0..kernel[1] {
                        let y = (row * stride[0] + k * dilation[0]).checked_sub(padding[0]);
                        let x = (column * stride[1] + l * dilation[1]).checked_sub(padding[1]);
                        let (Some(y), Some(x)) = (y, x) else { continue };
                        if y < input[0] && x < input[1] {
                            inside.push(y * input[1] + x);
                        }
                    }
                }
                let count = match divisor {
                    Divisor::Window => kernel[0] * kernel[1],
                    Divisor::Inside => inside.len(),
                };
                windows.push((inside, count as f64));
            }
        }
        Self { planes, input, output, windows }
    }

    /// Windows that cover the input evenly.
    #[must_use]
    pub(crate) fn adaptive(planes: usize, input: [usize; 2], output: [usize; 2]) -> Self {
        let range = |axis: usize, index: usize| {
            let share = input[axis] as f64 / output[axis] as f64;
            // Integers divide exactly in f64; 1e-9 covers the rounding of other quotients.
            let start = (index as f64 * share + 1e-9).floor() as usize;
            start..(((index + 1) as f64 * share - 1e-9).ceil() as usize)
        };
        let mut windows = Vec::new();
        for row in 0..output[0] {
            for column in 0..output[1] {
                let rows = range(0, row);
                let inside: Vec<usize> =
                    rows.flat_map(|y| range(1, column).map(move |x| y * input[1] + x)).collect();
                let count = inside.len() as f64;
                windows.push((inside, count));
            }
        }
        Self { planes, input, output, windows }
    }

    /// Height and width of the output.
    #[must_use]
    pub(crate) fn output(&self) -> [usize; 2] {
        self.output
    }

    /// Visits every window of every feature map: its output, its inputs, and its divisor.
    fn visit(&self, mut visit: impl FnMut(usize, Vec<usize>, f64)) {
        let [height, width] = self.input;
        for plane in 0..self.planes {
            for (index, (inside, divisor)) in self.windows.iter().enumerate() {
                let inputs = inside.iter().map(|input| plane * height * width + input).collect();
                visit(plane * self.windows.len() + index, inputs, *divisor);
            }
        }
    }
}

/// The maxima, and the input's gradient for the loss `Σ y·dy`; the first of equal ones gets it.
///
/// # Panics
/// If a window is empty, which no [`PoolWindows`] has.
#[must_use]
pub(crate) fn max_pool(windows: &PoolWindows, x: &[f64], dy: &[f64]) -> [Vec<f64>; 2] {
    let (mut y, mut dx) = (vec![0.0; dy.len()], vec![0.0; x.len()]);
    windows.visit(|output, inputs, _| {
        let first_largest =
            |best: usize, input: usize| if x[input] > x[best] { input } else { best };
        let best = inputs.into_iter().reduce(first_largest).expect("no window is empty");
        y[output] = x[best];
        dx[best] += dy[output];
    });
    [y, dx]
}

/// The averages, and the input's gradient for the loss `Σ y·dy`.
#[must_use]
pub(crate) fn average_pool(windows: &PoolWindows, x: &[f64], dy: &[f64]) -> [Vec<f64>; 2] {
    let (mut y, mut dx) = (vec![0.0; dy.len()], vec![0.0; x.len()]);
    windows.visit(|output, inputs, divisor| {
        y[output] = inputs.iter().map(|&input| x[input]).sum::<f64>() / divisor;
        inputs.iter().for_each(|&input| dx[input] += dy[output] / divisor);
    });
    [y, dx]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_by_hand() {
        // [1 3 3 2] in windows of 2, one column of padding: {1}, {3, 3}, {2}.
        let shape = PoolShape {
            planes: 1,
            input: [1, 4],
            kernel: [1, 2],
            stride: [1, 2],
            padding: [0, 1],
            dilation: [1, 1],
        };
        let (x, dy) = ([1.0, 3.0, 3.0, 2.0], [10.0, 20.0, 30.0]);
        let windows = PoolWindows::of(shape, Divisor::Window);
        assert_eq!(max_pool(&windows, &x, &dy), [vec![1.0, 3.0, 2.0], vec![10.0, 20.0, 0.0, 30.0]]);
        let right = [vec![0.5, 3.0, 1.0], vec![5.0, 10.0, 10.0, 15.0]];
        assert_eq!(average_pool(&windows, &x, &dy), right);
        let windows = PoolWindows::adaptive(1, [1, 4], [1, 3]);
        let [y, _] = average_pool(&windows, &x, &dy);
        assert_eq!(y, [2.0, 3.0, 2.5]);
    }
}
