//! Second moments of the numbers that the outputs of a layer read.

use std::ops::Range;

use super::Problem;

/// The most numbers that an output of the layer reads: the time of what uses their moments grows
/// with their third power.
const MOST: usize = 2048;

/// Windows that the second moments are of, at most: at least this many and four for each number.
const WINDOWS: usize = 4096;

/// A symmetric matrix for each group of channels.
pub(super) struct Moments(Vec<Vec<f64>>);

impl Moments {
    /// Those of a layer's inputs; none if its outputs read too many numbers.
    pub(super) fn of(problem: &Problem<'_>) -> Option<Self> {
        let size = problem.grid.each;
        let groups = problem.geometry.shape().groups;
        let each = (0..groups).map(|group| of_group(problem, group, size));
        (size <= MOST).then(|| Self(each.collect()))
    }

    /// The output channels of each group, of all `channels`, with the moments.
    pub(super) fn of_groups(
        &self,
        channels: usize,
    ) -> impl Iterator<Item = (Range<usize>, &[f64])> {
        let each = channels / self.0.len();
        let range = move |group: usize| group * each..(group + 1) * each;
        self.0.iter().enumerate().map(move |(group, moments)| (range(group), &moments[..]))
    }
}

/// The second moments `[size][size]` of what an output of a group reads.
fn of_group(problem: &Problem<'_>, group: usize, size: usize) -> Vec<f64> {
    let Problem { geometry, x, samples, .. } = problem;
    let shape = geometry.shape();
    let [rows, columns] = geometry.output();
    let [height, width] = shape.input;
    let channels = shape.channels[0] / shape.groups;
    let windows = samples * rows * columns;
    let most = WINDOWS.max(4 * size);
    let mut sums = vec![0.0; size * size];
    let mut window = vec![0.0_f64; size];
    let taken = windows.min(most);
    for index in 0..taken {
        // Evenly spread over all samples and pixels.
        let at = index * windows / taken;
        let (sample, row, column) = (at / (rows * columns), at / columns % rows, at % columns);
        let image = &x[sample * shape.channels[0] * height * width..];
        for (entry, value) in window.iter_mut().enumerate() {
            let [kernel_rows, kernel_columns] = shape.kernel;
            let channel = group * channels + entry / (kernel_rows * kernel_columns);
            let kernel = [entry / kernel_columns % kernel_rows, entry % kernel_columns];
            let place = |axis: usize, output: usize| {
                (output * shape.stride[axis] + kernel[axis] * shape.dilation[axis])
                    .checked_sub(shape.padding[axis])
                    .filter(|&at| at < shape.input[axis])
            };
            *value = match (place(0, row), place(1, column)) {
                (Some(y), Some(x)) => image[(channel * height + y) * width + x].into(),
                _ => 0.0,
            };
        }
        for (row, &value) in window.iter().enumerate() {
            if value != 0.0 {
                let sums = &mut sums[row * size..][..=row];
                sums.iter_mut().zip(&window).for_each(|(sum, other)| *sum += value * other);
            }
        }
    }
    for row in 0..size {
        for column in 0..row {
            sums[column * size + row] = sums[row * size + column];
        }
    }
    sums
}
