//! Windows as offsets into a padded image, in the order of the weights.

use super::geometry::{ConvGeometry, ConvShape};

/// The two axes of a padded image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Padded {
    /// Rows and columns of zeros before the image.
    pub(crate) before: [usize; 2],
    /// Rows and columns of the whole.
    pub(crate) size: [usize; 2],
}

impl Padded {
    /// Whether there is nothing to pad, so that the image can be read where it is.
    pub(crate) fn is_bare(&self, image: [usize; 2]) -> bool {
        self.size == image
    }

    pub(crate) const fn plane(&self) -> usize {
        self.size[0] * self.size[1]
    }
}

/// The forward windows over one group of channels.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Windows {
    pub(crate) padded: Padded,
    /// Input and output channels of a group.
    pub(crate) channels: [usize; 2],
}

impl Windows {
    pub(crate) fn of(geometry: &ConvGeometry) -> Self {
        let ConvShape { channels, groups, input, padding, .. } = *geometry.shape();
        let size = [0, 1].map(|axis| input[axis] + 2 * padding[axis]);
        Self { padded: Padded { before: padding, size }, channels: channels.map(|c| c / groups) }
    }

    /// The offset of the tap `(channel, row, column)` from the window's start.
    pub(crate) fn tap(&self, shape: &ConvShape, [channel, row, column]: [usize; 3]) -> u32 {
        let row = channel * self.padded.size[0] + row * shape.dilation[0];
        (row * self.padded.size[1] + column * shape.dilation[1]) as u32
    }
}

/// The input pixels `row ≡ phase.0, column ≡ phase.1` modulo the stride, and the windows of the
/// output's gradient that reach them.
///
/// `dx[s·j + a] = Σ_k g[j + (a + padding − k·dilation)/s] · w[k]` over the taps `k` for which the
/// division leaves no remainder, on both axes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Phase {
    /// First row and column.
    pub(crate) first: [usize; 2],
    /// The number of rows and columns.
    pub(crate) pixels: [usize; 2],
    /// Taps of each axis: the index in the kernel, and the pixel of the padded gradient that it
    /// is multiplied by, relative to that of the first input pixel.
    pub(crate) taps: [Vec<(usize, usize)>; 2],
}

/// All phases of an input gradient over one padded gradient.
#[derive(Debug, Clone)]
pub(crate) struct Phases {
    pub(crate) padded: Padded,
    pub(crate) all: Vec<Phase>,
}

/// One axis of the phases: the padding, and for each phase its pixels with its taps.
pub(crate) struct Axis {
    pub(crate) before: usize,
    pub(crate) size: usize,
    pub(crate) phases: Vec<(usize, Vec<(usize, usize)>)>,
}

impl Phases {
    pub(crate) fn of(geometry: &ConvGeometry) -> Self {
        let [rows, columns] = [0, 1].map(|axis| Axis::of(geometry, axis));
        let mut all = Vec::new();
        for (row, (height, row_taps)) in rows.phases.iter().enumerate() {
            for (column, (width, column_taps)) in columns.phases.iter().enumerate() {
                all.push(Phase {
                    first: [row, column],
                    pixels: [*height, *width],
                    taps: [row_taps.clone(), column_taps.clone()],
                });
            }
        }
        let padded =
            Padded { before: [rows.before, columns.before], size: [rows.size, columns.size] };
        Self { padded, all }
    }
}

impl Axis {
    /// The phases of an axis of a convolution.
    pub(crate) fn of<const D: usize>(geometry: &ConvGeometry<D>, axis: usize) -> Self {
        let ConvShape { input, kernel, stride, padding, dilation, .. } = *geometry.shape();
        let [kernel, stride, padding, dilation, input, output] =
            [kernel, stride, padding, dilation, input, geometry.output()]
                .map(|of| of[axis] as isize);
        let reached = |phase: isize| {
            // In the order of the pixels that they are multiplied by.
            (0..kernel).rev().filter_map(move |k| {
                let from = phase + padding - k * dilation;
                (from.rem_euclid(stride) == 0).then_some((k, from / stride))
            })
        };
        let pixels = |phase: isize| (input - phase + stride - 1) / stride;
        let phases = 0..stride.min(input);
        let all = phases.clone().flat_map(|phase| {
            reached(phase).map(move |(_, first)| (first, first + pixels(phase) - 1))
        });
        let (lowest, highest) = all
            .fold((0, output - 1), |(low, high), (first, last)| (low.min(first), high.max(last)));
        let before = -lowest;
        let taps = |phase| {
            let meets = |(k, first): (isize, isize)| (k as usize, (first + before) as usize);
            reached(phase).map(meets).collect()
        };
        Self {
            before: before as usize,
            size: (highest + before + 1) as usize,
            phases: phases.map(|phase| (pixels(phase) as usize, taps(phase))).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::reference;

    /// Shapes whose axes differ.
    fn shapes() -> [ConvGeometry; 5] {
        let shape = ConvShape::new(1, [1, 1], [7, 9], [3, 2]);
        [
            shape,
            ConvShape { padding: [2, 1], ..shape },
            ConvShape { stride: [2, 3], padding: [1, 0], ..shape },
            ConvShape { stride: [3, 2], dilation: [2, 3], padding: [0, 4], ..shape },
            ConvShape { stride: [4, 9], ..ConvShape::new(1, [1, 1], [3, 8], [2, 3]) },
        ]
        .map(|shape| ConvGeometry::try_new(shape).expect("valid"))
    }

    /// Whole numbers, whose sums are exact.
    fn numbers(count: usize) -> Vec<f64> {
        (0..count).map(|at| (at * 7 % 11) as f64 - 5.0).collect()
    }

    fn padded(Padded { before, size }: Padded, plane: &[f64], width: usize) -> Vec<f64> {
        let mut padded = vec![0.0; size[0] * size[1]];
        for (row, numbers) in plane.chunks(width).enumerate() {
            padded[(before[0] + row) * size[1] + before[1]..][..width].copy_from_slice(numbers);
        }
        padded
    }

    #[test]
    fn phases_sum_the_products_of_the_input_gradient() {
        for geometry in shapes() {
            let ConvShape { input, kernel, stride, .. } = *geometry.shape();
            let (dy, w) = (numbers(geometry.output_len()), numbers(geometry.weight_len()));
            let phases = Phases::of(&geometry);
            let image = padded(phases.padded, &dy, geometry.output()[1]);
            let mut dx = vec![f64::NAN; geometry.input_len()];
            for Phase { first, pixels, taps: [row_taps, column_taps] } in phases.all {
                for at in 0..pixels[0] * pixels[1] {
                    let (row, column) = (at / pixels[1], at % pixels[1]);
                    let mut sum = 0.0;
                    for &(k, y) in &row_taps {
                        for &(l, x) in &column_taps {
                            let from = (row + y) * phases.padded.size[1] + column + x;
                            sum += image[from] * w[k * kernel[1] + l];
                        }
                    }
                    let [row, column] = [first[0] + stride[0] * row, first[1] + stride[1] * column];
                    dx[row * input[1] + column] = sum;
                }
            }
            assert_eq!(dx, reference::input_gradient(&geometry, &dy, &w), "{:?}", geometry.shape());
        }
    }

    #[test]
    fn windows_sum_the_products_of_the_output() {
        for geometry in shapes() {
            let shape = ConvShape { channels: [4, 2], groups: 2, ..*geometry.shape() };
            let geometry = ConvGeometry::try_new(shape).expect("valid");
            let ConvShape { input, kernel, stride, .. } = shape;
            let (x, w) = (numbers(geometry.input_len()), numbers(geometry.weight_len()));
            let windows = Windows::of(&geometry);
            assert_eq!(windows.channels, [2, 1]);
            let image: Vec<f64> = x
                .chunks(input[0] * input[1])
                .flat_map(|plane| padded(windows.padded, plane, input[1]))
                .collect();
            let mut y = Vec::new();
            for (group, w) in w.chunks(2 * kernel[0] * kernel[1]).enumerate() {
                let image = &image[group * 2 * windows.padded.plane()..];
                let [rows, columns] = geometry.output();
                for at in 0..rows * columns {
                    let start = at / columns * stride[0] * windows.padded.size[1]
                        + at % columns * stride[1];
                    let product = |(tap, w): (usize, &f64)| {
                        let (row, column) = (tap / kernel[1], tap % kernel[1]);
                        let tap = [row / kernel[0], row % kernel[0], column];
                        image[start + windows.tap(&shape, tap) as usize] * w
                    };
                    y.push(w.iter().enumerate().map(product).sum::<f64>());
                }
            }
            assert_eq!(y, reference::forward(&geometry, &x, &w, None), "{shape:?}");
        }
    }

    #[test]
    fn an_image_without_zeros_around_it_is_read_where_it_is() {
        let is_bare = |padding| {
            let shape = ConvShape { padding, ..ConvShape::new(1, [1, 1], [5, 6], [3, 3]) };
            let geometry = ConvGeometry::try_new(shape).expect("valid");
            Windows::of(&geometry).padded.is_bare([5, 6])
        };
        assert_eq!([[0, 0], [1, 0], [0, 1]].map(is_bare), [true, false, false]);
    }

    fn axis(stride: usize, padding: usize, kernel: usize) -> (usize, usize, Vec<Phase>) {
        let shape = ConvShape {
            stride: [1, stride],
            padding: [0, padding],
            ..ConvShape::new(1, [1, 1], [1, 5], [1, kernel])
        };
        let phases = Phases::of(&ConvGeometry::try_new(shape).expect("valid"));
        (phases.padded.before[1], phases.padded.size[1], phases.all)
    }

    #[test]
    fn a_stride_of_one_is_a_convolution_with_the_kernel_turned_around() {
        // Output 5; input pixel j uses g[j + 1 − k].
        let (before, size, phases) = axis(1, 1, 3);
        assert_eq!((before, size), (1, 7));
        assert_eq!(phases.len(), 1);
        assert_eq!(phases[0].pixels, [1, 5]);
        assert_eq!(phases[0].taps[1], [(2, 0), (1, 1), (0, 2)]);
    }

    #[test]
    fn a_stride_of_two_splits_even_pixels_from_odd() {
        // Output 3; pixel 2j uses tap 1 of g[j], pixel 2j + 1 tap 0 of g[j + 1], tap 2 of g[j].
        let (before, size, phases) = axis(2, 1, 3);
        assert_eq!((before, size), (0, 3));
        assert_eq!(phases[0].pixels, [1, 3]);
        assert_eq!(phases[0].taps[1], [(1, 0)]);
        assert_eq!(phases[1].pixels, [1, 2]);
        assert_eq!(phases[1].taps[1], [(2, 0), (0, 1)]);
    }

    #[test]
    fn a_stride_above_the_kernel_leaves_pixels_without_taps() {
        let (_, _, phases) = axis(3, 0, 2);
        assert_eq!(phases.len(), 3);
        assert!(phases[2].taps[1].is_empty());
    }
}
