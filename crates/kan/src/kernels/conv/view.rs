//! A box of output pixels and its receptive field, laid out so that all strides are 1.
//!
//! Along an axis with stride `s`, a tap reads the pixels of one remainder modulo `s`.
//! They are laid out as a separate plane, a phase; in it, the next output reads the next pixel,
//! for any stride and dilation, and a tap is an offset.

use std::ops::Range;

use super::geometry::{ConvGeometry, Shapes};

/// The most pixels of a box's receptive field. The basis values of the pixels are stored in planes
/// of so many numbers: a constant is part of an instruction's address.
const REGION: usize = 4096;

/// Numbers from one plane to the next. Not a power of two, because the planes' numbers of one pixel
/// would map to the same sets of the cache.
pub(crate) const PLANE: usize = REGION + 16;

/// Output pixels of a box, at least and at most.
const BOX: [usize; 2] = [128, 1024];

/// Sums of all outputs of a box, which fit into the second-level cache.
const SUMS: usize = 1 << 17;

/// The division of images into boxes, and of a box's taps.
#[derive(Debug)]
pub(crate) struct View {
    pub(crate) shapes: Shapes,
    /// Output pixels of a box along each axis.
    pub(crate) cut: [usize; 3],
    /// All taps, or, if they read too many pixels, each separately.
    pub(crate) parts: Vec<Part>,
}

/// Some taps of a box.
#[derive(Debug)]
pub(crate) struct Part {
    pub(crate) taps: Range<usize>,
    /// Remainders modulo the stride, and the first pixel of the phases, counted in strides.
    axes: [(Vec<usize>, usize); 3],
    /// Pixels of a phase along each axis.
    extent: [usize; 3],
    /// The offset of each tap for a box's first pixel.
    pub(crate) offsets: Vec<usize>,
}

impl View {
    pub(crate) fn new(geometry: &ConvGeometry, shapes: Shapes) -> Self {
        let [least, most] = BOX;
        let pixels = (SUMS / geometry.pixel.out_features()).clamp(least, most);
        let [depth, height, width] = shapes.output;
        let width = even(width, pixels);
        let height = even(height, pixels / width);
        let depth = even(depth, pixels / (width * height));
        let mut cut = [depth, height, width];
        let taps = geometry.taps();
        loop {
            let all = Part::new(geometry, 0..taps, cut);
            if all.pixels() <= REGION {
                return Self { shapes, cut, parts: vec![all] };
            }
            // The outermost axis that can be divided.
            match cut.iter().position(|&size| size > 1) {
                Some(axis) => cut[axis] = cut[axis].div_ceil(2),
                None => break,
            }
        }
        let cut = [depth, height, width];
        let parts = (0..taps).map(|tap| Part::new(geometry, tap..tap + 1, cut)).collect();
        Self { shapes, cut, parts }
    }

    /// The axis along which images are divided into slabs, for threads.
    pub(crate) fn slab_axis(&self) -> usize {
        self.shapes.output.iter().position(|&size| size > 1).unwrap_or(2)
    }

    /// Output pixels of a slab: one box along its axis and all of the others.
    pub(crate) fn slab_pixels(&self) -> usize {
        let axis = self.slab_axis();
        self.cut[axis] * self.shapes.output[axis + 1..].iter().product::<usize>()
    }

    /// The boxes of a slab: their ranges of output pixels.
    pub(crate) fn boxes(&self, slab: usize) -> impl Iterator<Item = [Range<usize>; 3]> + use<> {
        let axis = self.slab_axis();
        let (cut, output) = (self.cut, self.shapes.output);
        let ranges = move |own: usize| {
            let all = if own == axis { slab..slab + 1 } else { 0..output[own].div_ceil(cut[own]) };
            all.map(move |index| index * cut[own]..((index + 1) * cut[own]).min(output[own]))
        };
        ranges(0).flat_map(move |depth| {
            ranges(1).flat_map(move |height| {
                let depth = depth.clone();
                ranges(2).map(move |width| [depth.clone(), height.clone(), width])
            })
        })
    }
}

/// Pixels of a box along an axis: at most so many, in boxes of nearly equal size.
fn even(size: usize, most: usize) -> usize {
    let most = most.max(1);
    size.div_ceil(size.div_ceil(most).max(1)).max(1)
}

impl Part {
    fn new(geometry: &ConvGeometry, taps: Range<usize>, cut: [usize; 3]) -> Self {
        let places: Vec<[usize; 3]> = geometry.places().skip(taps.start).take(taps.len()).collect();
        let along = |axis: usize| {
            let own = geometry.axes[axis];
            places.iter().map(move |place| {
                let pixel = place[axis] * own.dilation;
                (pixel % own.stride, pixel / own.stride)
            })
        };
        let mut extent = [0; 3];
        let axes = std::array::from_fn(|axis| {
            let mut phases: Vec<usize> = along(axis).map(|(phase, _)| phase).collect();
            phases.sort_unstable();
            phases.dedup();
            let first = along(axis).map(|(_, pixel)| pixel).min().unwrap_or(0);
            let last = along(axis).map(|(_, pixel)| pixel).max().unwrap_or(0);
            extent[axis] = cut[axis] + last - first;
            (phases, first)
        });
        let axes: [(Vec<usize>, usize); 3] = axes;
        let offsets = (0..places.len())
            .map(|tap| {
                let (mut phase, mut pixel) = (0, 0);
                for (axis, (phases, first)) in axes.iter().enumerate() {
                    let own = geometry.axes[axis];
                    let at = places[tap][axis] * own.dilation;
                    let index = phases.partition_point(|&phase| phase < at % own.stride);
                    phase = phase * phases.len() + index;
                    pixel = pixel * extent[axis] + at / own.stride - first;
                }
                phase * extent.iter().product::<usize>() + pixel
            })
            .collect();
        Self { taps, axes, extent, offsets }
    }

    /// Pixels that the taps of a box read, in all phases.
    pub(crate) fn pixels(&self) -> usize {
        let phases = self.axes.iter().map(|(phases, _)| phases.len()).product::<usize>();
        self.extent.iter().fold(phases, |all, &extent| all.saturating_mul(extent))
    }

    /// The offset of the first tap for each output pixel of a box.
    pub(crate) fn positions(&self, own: &[Range<usize>; 3], to: &mut Vec<u32>) {
        to.clear();
        let [_, height, width] = self.extent;
        for z in 0..own[0].len() {
            for y in 0..own[1].len() {
                let first = (z * height + y) * width;
                to.extend((first..first + own[2].len()).map(|at| at as u32));
            }
        }
    }

    /// Copies the pixels of a channel that the taps of a box read, `[phases][pixels]`, with zeros
    /// outside the image.
    pub(crate) fn gather(
        &self,
        geometry: &ConvGeometry,
        input: [usize; 3],
        own: &[Range<usize>; 3],
        channel: &[f32],
        to: &mut [f32],
    ) {
        let [zs, ys, xs] = &self.axes;
        let at = |axis: usize, phase: usize, index: usize| {
            let axes = geometry.axes[axis];
            let pixel = (own[axis].start + self.axes[axis].1 + index) * axes.stride + phase;
            pixel.checked_sub(axes.padding).filter(|&pixel| pixel < input[axis])
        };
        let width = self.extent[2];
        let mut rows = to.chunks_exact_mut(width);
        for (&pz, &py) in zs.0.iter().flat_map(|z| ys.0.iter().map(move |y| (z, y))) {
            for &px in &xs.0 {
                for (z, y) in grid_of(self.extent) {
                    let Some(row) = rows.next() else { return };
                    let (Some(z), Some(y)) = (at(0, pz, z), at(1, py, y)) else {
                        row.fill(0.0);
                        continue;
                    };
                    let line = &channel[(z * input[1] + y) * input[2]..][..input[2]];
                    let axis = geometry.axes[2];
                    let first = (own[2].start + xs.1) * axis.stride + px;
                    gather_row(line, first, axis.padding, axis.stride, row);
                }
            }
        }
    }
}

/// All pairs of indices of the outer axes.
fn grid_of(extent: [usize; 3]) -> impl Iterator<Item = (usize, usize)> {
    (0..extent[0]).flat_map(move |z| (0..extent[1]).map(move |y| (z, y)))
}

/// Copies each `stride`-th pixel of a line, from the padded line's pixel `first` on.
fn gather_row(line: &[f32], first: usize, padding: usize, stride: usize, row: &mut [f32]) {
    let before = padding.saturating_sub(first).div_ceil(stride).min(row.len());
    let start = (first + before * stride).saturating_sub(padding);
    let there = line.len().saturating_sub(start).div_ceil(stride).min(row.len() - before);
    let (left, rest) = row.split_at_mut(before);
    let (inside, right) = rest.split_at_mut(there);
    left.fill(0.0);
    right.fill(0.0);
    if stride == 1 {
        if there > 0 {
            inside.copy_from_slice(&line[start..start + there]);
        }
        return;
    }
    for (to, from) in inside.iter_mut().zip(line.iter().skip(start).step_by(stride)) {
        *to = *from;
    }
}
