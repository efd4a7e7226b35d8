//! The forward pass of a convolution: the basis values of a pixel are computed once and shared by
//! all taps.
//!
//! For each input channel, the basis values of all pixels in the receptive field of a box of
//! outputs are stored in planes, one plane for each basis of a window; a tap is an offset in them.
//! The weights of a channel's taps for a tile of outputs stay in the L1 cache for all pixels of the
//! box; the sums of the box stay in the L2 cache until all channels are added.

use std::ops::Range;

use updraft_simd::{Isa, Simd, dispatch};

use super::bspline_uniform::Bases;
use super::conv_panel::ConvPanel;
use super::taps::{self, Evaluation};
use super::weights::{self, rows_of_weights};
use super::{Blocking, GROUP};
use crate::kernels::conv::{ConvGeometry, PLANE, Part, View};
use crate::kernels::geometry::Weights;
use crate::kernels::scratch::{Taps, Workspace, grown};

/// Size of a panel: the weights of some taps, so that the values of the pixels fit into the L1
/// cache too.
const PANEL: usize = 6 * 1024;

/// The number of pixels is padded to a multiple of this, the size of the largest group.
pub(crate) const MOST_PIXELS: usize = 16;

/// Outputs per tile, for the fewest tiles of nearly equal size.
pub(crate) fn conv_tile(isa: Isa, outputs: usize) -> usize {
    let lanes = isa.lanes();
    let vectors = outputs.div_ceil(lanes);
    vectors.div_ceil(outputs.div_ceil(super::conv_forward_tile(isa))) * lanes
}

/// The size of one channel's packed weights.
pub(crate) fn numbers_of_conv(isa: Isa, geometry: &ConvGeometry, weights: &Weights<'_>) -> usize {
    let columns = geometry.pixel.out_features().next_multiple_of(isa.lanes());
    geometry.taps() * rows_of_weights(&geometry.pixel, weights) * columns
}

/// Packs a channel's weights by tiles of `width` outputs, `[tiles, taps, rows of weights, width]`.
///
/// The geometry has checked the weights.
///
/// # Panics
/// If `to` does not fit, or the CPU does not have `isa`.
pub(crate) fn pack_conv(
    isa: Isa,
    geometry: &ConvGeometry,
    weights: &Weights<'_>,
    channel: usize,
    width: usize,
    to: &mut [f32],
) {
    assert!(isa.is_available(), "this CPU has no {isa}");
    assert_eq!(to.len(), numbers_of_conv(isa, geometry, weights), "packed weights");
    pack_channel(isa.vectors(), geometry, weights, channel, width, to);
}

/// The outputs of one slab of a group of an image.
#[derive(Debug)]
pub(crate) struct ConvJob<'a> {
    pub(crate) geometry: &'a ConvGeometry,
    pub(crate) view: &'a View,
    /// The group's weights; each channel is packed by [`pack_conv`].
    pub(crate) packed: &'a [f32],
    pub(crate) has_spline: bool,
    pub(crate) has_base: bool,
    /// Of the group.
    pub(crate) bias: Option<&'a [f32]>,
    /// Outputs of a tile.
    pub(crate) width: usize,
    pub(crate) group: usize,
    pub(crate) slab: usize,
    /// The group's channels, `[channels, pixels]`.
    pub(crate) x: &'a [f32],
}

impl ConvJob<'_> {
    /// Computes the slab's part of each output channel.
    ///
    /// # Panics
    /// If a slice does not fit, or the CPU does not have `isa`.
    pub(crate) fn run(&self, isa: Isa, y: &mut [&mut [f32]], space: &mut Workspace) {
        assert!(isa.is_available(), "this CPU has no {isa}");
        assert_eq!(y.len(), self.geometry.pixel.out_features(), "output channels");
        all_pixels(isa.vectors(), self, y, space);
    }

    /// Rows of weights of a tap.
    fn rows(&self) -> usize {
        self.geometry.grid().bases() + usize::from(self.has_base)
    }
}

/// All pixels of a job.
#[inline(always)]
fn pixels<S: Simd>(simd: S, job: &ConvJob<'_>, y: &mut [&mut [f32]], space: &mut Workspace) {
    let ConvJob { geometry, view, width, .. } = *job;
    let outputs = geometry.pixel.out_features();
    let channels = geometry.in_channels() / geometry.groups();
    let of_channel = job.packed.len() / channels;
    let most = view.cut.iter().product::<usize>().next_multiple_of(MOST_PIXELS);
    let columns = outputs.next_multiple_of(S::LANES);
    let planes = geometry.grid().degree() + 3;
    let Workspace { taps: own, packed: column, tile, sums, .. } = space;
    if own.is_empty() {
        own.resize_with(1, Taps::default);
    }
    let Taps { order: positions, windows, .. } = &mut own[0];
    let windows = grown(windows, PLANE);
    let column = column.grown(PLANE.max(S::LANES * most));
    let planes = tile.grown(planes * PLANE);
    let sums = sums.grown(most * columns);
    let in_pixels = view.shapes.in_pixels();

    for own in view.boxes(job.slab) {
        let count = own.iter().map(Range::len).product::<usize>();
        let padded = count.next_multiple_of(MOST_PIXELS);
        // All parts with a single tap use the same box.
        view.parts[0].positions(&own, positions);
        positions.resize(padded, positions.last().copied().unwrap_or(0));
        for channel in 0..channels {
            let x = &job.x[channel * in_pixels..][..in_pixels];
            let weights = &job.packed[channel * of_channel..][..of_channel];
            for part in &view.parts {
                let pixels = part.pixels();
                part.gather(geometry, view.shapes.input, &own, x, &mut column[..pixels]);
                let input = job.group * channels + channel;
                let column = &column[..pixels.next_multiple_of(GROUP)];
                evaluate(simd, job, input, column, &mut planes[PLANE..], windows);
                let is_first = channel == 0 && part.taps.start == 0;
                let mut width_before = 0;
                for (tile_column, weights) in tiles::<S>(geometry, job.rows(), width, weights) {
                    let own_width = width.min(columns - tile_column);
                    if own_width != width_before {
                        width_before = own_width;
                        let rows = planes.iter_mut().zip(&windows[..pixels]);
                        rows.for_each(|(row, window)| {
                            *row = f32::from_bits(window * own_width as u32);
                        });
                    }
                    let sums = &mut sums[tile_column * padded..][..own_width * padded];
                    let panel = Panels { job, part, planes, pixels, positions, is_first };
                    panel.run(simd, own_width / S::LANES, weights, sums);
                }
            }
        }
        flush(simd, job, &own, &sums[..columns * padded], column, y);
    }
}

/// The tiles of a channel's weights: their first output, and the weights.
fn tiles<'a, S: Simd>(
    geometry: &ConvGeometry,
    rows: usize,
    width: usize,
    weights: &'a [f32],
) -> impl Iterator<Item = (usize, &'a [f32])> {
    let of_output = geometry.taps() * rows;
    let columns = geometry.pixel.out_features().next_multiple_of(S::LANES);
    (0..columns).step_by(width).map(move |column| {
        let end = (column + width).min(columns);
        (column, &weights[column * of_output..end * of_output])
    })
}

/// Basis values of the splines and the base branch for each pixel of a column.
#[inline(always)]
fn evaluate<S: Simd>(
    simd: S,
    job: &ConvJob<'_>,
    channel: usize,
    column: &[f32],
    values: &mut [f32],
    windows: &mut [u32],
) {
    let geometry = &job.geometry.pixel;
    let evaluation = Evaluation::of(simd, geometry, job.has_base, channel, column);
    evaluation.run(simd, column, Bases { values, slopes: None, pitch: PLANE, windows });
}

/// Data that all panels of a channel's tile share.
struct Panels<'a> {
    job: &'a ConvJob<'a>,
    part: &'a Part,
    planes: &'a [f32],
    pixels: usize,
    positions: &'a [u32],
    is_first: bool,
}

impl Panels<'_> {
    /// Adds the products of all taps to the sums of a tile.
    #[inline(always)]
    fn run<S: Simd>(&self, simd: S, vectors: usize, weights: &[f32], sums: &mut [f32]) {
        // Compile only the tile sizes that the instruction set uses.
        if const { S::LANES * S::TILE == 8 } {
            self.tile::<S, 1, 8>(simd, weights, sums);
        } else if const { S::LANES > 8 } {
            match vectors {
                1 => self.tile::<S, 1, 8>(simd, weights, sums),
                2 => self.tile::<S, 2, 8>(simd, weights, sums),
                3 => self.tile::<S, 3, 4>(simd, weights, sums),
                _ => self.tile::<S, 4, 4>(simd, weights, sums),
            }
        } else {
            match vectors {
                1 => self.tile::<S, 1, 8>(simd, weights, sums),
                2 => self.tile::<S, 2, 4>(simd, weights, sums),
                3 => self.tile::<S, 3, 4>(simd, weights, sums),
                4 => self.tile::<S, 4, 2>(simd, weights, sums),
                5 => self.tile::<S, 5, 2>(simd, weights, sums),
                _ => self.tile::<S, 6, 2>(simd, weights, sums),
            }
        }
    }

    #[inline(always)]
    fn tile<S: Simd, const N: usize, const R: usize>(
        &self,
        simd: S,
        weights: &[f32],
        sums: &mut [f32],
    ) {
        let of_tap = self.job.rows() * N * S::LANES;
        let weights = &weights[self.part.taps.start * of_tap..self.part.taps.end * of_tap];
        let taps_of_panel = (PANEL / of_tap).max(1);
        let panels = self.part.taps.len().div_ceil(taps_of_panel);
        let taps_of_panel = self.part.taps.len().div_ceil(panels);
        let panels = weights.chunks(taps_of_panel * of_tap);
        let mut is_first = self.is_first;
        for (weights, offsets) in panels.zip(self.part.offsets.chunks(taps_of_panel)) {
            let panel = ConvPanel {
                window: self.job.geometry.grid().degree() + 1,
                has_spline: self.job.has_spline,
                has_base: self.job.has_base,
                planes: self.planes,
                pixels: self.pixels,
                positions: self.positions,
                offsets,
                weights,
                of_tap,
            };
            panel.add::<S, N, R>(simd, is_first, sums);
            is_first = false;
        }
    }
}

/// Writes the sums of a box, `[tiles, pixels, outputs of a tile]`, with the bias to the outputs.
#[inline(always)]
fn flush<S: Simd>(
    simd: S,
    job: &ConvJob<'_>,
    own: &[Range<usize>; 3],
    sums: &[f32],
    square: &mut [f32],
    y: &mut [&mut [f32]],
) {
    let output = job.view.shapes.output;
    let columns = job.geometry.pixel.out_features().next_multiple_of(S::LANES);
    let padded = sums.len() / columns;
    let (rows, line) = (own[0].len() * own[1].len(), own[2].len());
    let slab_start = job.slab * job.view.slab_pixels();
    for column in (0..columns).step_by(S::LANES) {
        // The vector of its tile.
        let start = column / job.width * job.width;
        let width = job.width.min(columns - start);
        let from = &sums[start * padded..][..width * padded];
        // `[lanes, pixels]`
        let lines = &mut square[..S::LANES * padded];
        taps::gather(simd, from, width, column - start..column - start + S::LANES, lines, padded);
        for (lane, numbers) in lines.chunks_exact(padded).enumerate() {
            let Some(y) = y.get_mut(column + lane) else { break };
            let bias = job.bias.map_or(0.0, |bias| bias[column + lane]);
            for row in 0..rows {
                let (z, h) = (own[0].start + row / own[1].len(), own[1].start + row % own[1].len());
                let place = (z * output[1] + h) * output[2] + own[2].start - slab_start;
                let to = &mut y[place..place + line];
                for (to, number) in to.iter_mut().zip(&numbers[row * line..]) {
                    *to = number + bias;
                }
            }
        }
    }
}

dispatch! {
    /// All pixels of a job.
    fn all_pixels(simd, job: &ConvJob<'_>, y: &mut [&mut [f32]], space: &mut Workspace) {
        pixels(simd, job, y, space);
    }

    /// Packs a channel's weights.
    fn pack_channel(
        simd,
        geometry: &ConvGeometry,
        weights: &Weights<'_>,
        channel: usize,
        width: usize,
        to: &mut [f32],
    ) {
        weights::pack_channel(simd, geometry, weights, channel, width, to);
    }
}
