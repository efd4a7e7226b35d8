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
        self.before == [0, 0] && self.size == image
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
