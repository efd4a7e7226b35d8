//! Lines of input pixels for the gradients, and the outputs' gradients that depend on them.
//!
//! As in a [view](super::view), the pixels of one remainder modulo the stride are a phase in which a
//! tap is an offset. A line has the pixels of a box of phase pixels: each pixel of an image is in
//! one line, and its outputs' gradients are laid out around the box, with zeros where there are
//! none.

use std::ops::Range;

use super::geometry::{ConvGeometry, Shapes};

/// Pixels of a line at most: the more, the longer are the runs of pixels in one interval.
pub(crate) const LINE: usize = 1024;

/// The division of images into lines.
#[derive(Debug)]
pub(crate) struct Lines {
    pub(crate) shapes: Shapes,
    /// The first phase pixel of an image along each axis, and how many there are.
    low: [usize; 3],
    count: [usize; 3],
    /// Phase pixels of a box along each axis.
    cut: [usize; 3],
    /// The distance between the first and the last tap, in phase pixels.
    reach: [usize; 3],
    pub(crate) phases: Vec<Phase>,
}

/// The pixels of one remainder modulo the strides.
#[derive(Debug)]
pub(crate) struct Phase {
    remainder: [usize; 3],
    /// The taps that read them, and the distance from a pixel's position to that of its output.
    pub(crate) taps: Vec<(usize, usize)>,
}

/// The pixels of a line.
#[derive(Debug, Clone, Default)]
pub(crate) struct Pixels {
    /// Their offsets in a channel.
    pub(crate) sources: Vec<usize>,
    /// The offset of the outputs' gradients around the box for each.
    pub(crate) positions: Vec<u32>,
    /// The end of each phase's pixels.
    pub(crate) ends: Vec<usize>,
}

impl Lines {
    pub(crate) fn new(geometry: &ConvGeometry, shapes: Shapes) -> Self {
        let axes = geometry.axes;
        let low = axes.map(|axis| axis.padding / axis.stride);
        let end = |axis: usize| match shapes.input[axis] {
            0 => low[axis],
            size => (axes[axis].padding + size - 1) / axes[axis].stride + 1,
        };
        let count: [usize; 3] = std::array::from_fn(|axis| end(axis) - low[axis]);
        let width = count[2].clamp(1, LINE);
        let height = (LINE / width).clamp(1, count[1].max(1));
        let depth = (LINE / (width * height)).clamp(1, count[0].max(1));
        let even = |size: usize, most: usize| size.div_ceil(size.div_ceil(most).max(1)).max(1);
        let cut = [even(count[0], depth), even(count[1], height), even(count[2], width)];
        let reach = axes.map(|axis| (axis.kernel - 1) * axis.dilation / axis.stride);
        let extent: [usize; 3] = std::array::from_fn(|axis| cut[axis] + reach[axis]);
        let mut phases: Vec<Phase> = Vec::new();
        for (tap, place) in geometry.places().enumerate() {
            let pixel: [usize; 3] = std::array::from_fn(|axis| place[axis] * axes[axis].dilation);
            let remainder: [usize; 3] = std::array::from_fn(|axis| pixel[axis] % axes[axis].stride);
            let offset = (0..3).fold(0, |all, axis| {
                all * extent[axis] + reach[axis] - pixel[axis] / axes[axis].stride
            });
            match phases.iter_mut().find(|phase| phase.remainder == remainder) {
                Some(phase) => phase.taps.push((tap, offset)),
                None => phases.push(Phase { remainder, taps: vec![(tap, offset)] }),
            }
        }
        Self { shapes, low, count, cut, reach, phases }
    }

    /// Boxes of an image.
    pub(crate) fn boxes(&self) -> usize {
        (0..3).map(|axis| self.count[axis].div_ceil(self.cut[axis])).product()
    }

    /// Pixels of a line at most, all phases that it holds.
    pub(crate) fn pixels_of_line(&self) -> usize {
        let of_phase = self.cut.iter().product::<usize>();
        of_phase * self.phases.len().min(LINE / of_phase)
    }

    /// Outputs that are laid out around a box.
    pub(crate) fn region(&self) -> usize {
        (0..3).map(|axis| self.cut[axis] + self.reach[axis]).product()
    }

    /// The phases whose pixels of a box form a line.
    pub(crate) fn parts(&self) -> impl Iterator<Item = Range<usize>> + use<> {
        let together = LINE / self.cut.iter().product::<usize>();
        let phases = self.phases.len();
        (0..phases).step_by(together).map(move |first| first..(first + together).min(phases))
    }

    /// The phase pixels of a box.
    fn of_box(&self, index: usize) -> [Range<usize>; 3] {
        let counts: [usize; 3] =
            std::array::from_fn(|axis| self.count[axis].div_ceil(self.cut[axis]));
        let places =
            [index / (counts[1] * counts[2]), index / counts[2] % counts[1], index % counts[2]];
        std::array::from_fn(|axis| {
            let start = places[axis] * self.cut[axis];
            let end = (start + self.cut[axis]).min(self.count[axis]);
            start + self.low[axis]..end + self.low[axis]
        })
    }

    /// The pixels of some phases in a box.
    pub(crate) fn pixels(
        &self,
        geometry: &ConvGeometry,
        index: usize,
        phases: Range<usize>,
        to: &mut Pixels,
    ) {
        let own = self.of_box(index);
        let [_, height, width] = std::array::from_fn(|axis| self.cut[axis] + self.reach[axis]);
        let Pixels { sources, positions, ends } = to;
        sources.clear();
        positions.clear();
        ends.clear();
        let input = self.shapes.input;
        for phase in &self.phases[phases] {
            let at = |axis: usize, pixel: usize| {
                let axes = geometry.axes[axis];
                let padded = pixel * axes.stride + phase.remainder[axis];
                padded.checked_sub(axes.padding).filter(|&pixel| pixel < input[axis])
            };
            for (z, own_z) in own[0].clone().enumerate() {
                let Some(from_z) = at(0, own_z) else { continue };
                for (y, own_y) in own[1].clone().enumerate() {
                    let Some(from_y) = at(1, own_y) else { continue };
                    for (x, own_x) in own[2].clone().enumerate() {
                        let Some(from_x) = at(2, own_x) else { continue };
                        sources.push((from_z * input[1] + from_y) * input[2] + from_x);
                        positions.push(((z * height + y) * width + x) as u32);
                    }
                }
            }
            ends.push(sources.len());
        }
    }

    /// Copies the gradients of a group's outputs, `[outputs, pixels]`, around a box, as
    /// `[tiles of width][region][outputs of the tile]`, with zeros up to whole vectors.
    pub(crate) fn pack(
        &self,
        index: usize,
        dy: &[f32],
        outputs: usize,
        width: usize,
        to: &mut [f32],
    ) {
        let own = self.of_box(index);
        let output = self.shapes.output;
        let pixels = self.shapes.out_pixels();
        let region = self.region();
        let columns = to.len() / region;
        let extent: [usize; 3] = std::array::from_fn(|axis| self.cut[axis] + self.reach[axis]);
        // The outputs along an axis that lie in the region, and the offset of the first.
        let there = |axis: usize| {
            let first = own[axis].start as isize - self.reach[axis] as isize;
            let start = first.max(0) as usize;
            let end = (first + extent[axis] as isize).clamp(0, output[axis] as isize) as usize;
            (start..end.max(start), (start as isize - first) as usize)
        };
        let [(zs, z0), (ys, y0), (xs, x0)] = [there(0), there(1), there(2)];
        to.fill(0.0);
        for (tile, to) in to.chunks_mut(width * region).enumerate() {
            let first = tile * width;
            let own_width = width.min(columns - first);
            for z in zs.clone() {
                for y in ys.clone() {
                    let place =
                        ((z - zs.start + z0) * extent[1] + y - ys.start + y0) * extent[2] + x0;
                    let to = &mut to[place * own_width..];
                    let from = (z * output[1] + y) * output[2] + xs.start;
                    for output in first..outputs.min(first + own_width) {
                        let line = &dy[output * pixels + from..][..xs.len()];
                        for (x, value) in line.iter().enumerate() {
                            to[x * own_width + output - first] = *value;
                        }
                    }
                }
            }
        }
    }
}
