//! A convolution's gradients: a line of pixels, sorted by interval once per channel, is used for
//! all taps.

use std::ops::Range;

use updraft_simd::{Isa, Kernel, MAX_LANES, Simd, dispatch};

use super::bspline_uniform::Bases;
use super::conv_run::ConvRun;
use super::gradient::add_sums;
use super::taps::{self, Evaluation};
use super::{Blocking, GROUP, pitch};
use crate::kernels::conv::{ConvGeometry, LINE, Lines, Pixels};
use crate::kernels::scratch::{Taps, Workspace, grown};

/// The distance between the lines of values of two bases.
pub(crate) const LINE_PITCH: usize = pitch(LINE);

/// Outputs of a tile of gradients.
pub(crate) fn gradient_tile(isa: Isa, outputs: usize) -> usize {
    let lanes = isa.lanes();
    let vectors = outputs.div_ceil(lanes);
    vectors.div_ceil(outputs.div_ceil(super::tile(isa))) * lanes
}

/// The values of a channel's bases at a position, followed by that of the base branch, with the
/// first of the bases.
///
/// # Panics
/// If the CPU does not have `isa`.
pub(crate) fn pixel_values(
    isa: Isa,
    geometry: &ConvGeometry,
    has_base: bool,
    channel: usize,
    x: f32,
) -> (usize, Vec<f32>) {
    assert!(isa.is_available(), "this CPU has no {isa}");
    let taps = geometry.grid().degree() + 1 + usize::from(has_base);
    let (mut values, mut windows) = (vec![0.0; taps * GROUP], [0; GROUP]);
    of_pixel(isa.vectors(), geometry, has_base, channel, x, &mut values, &mut windows);
    (windows[0] as usize, values.iter().step_by(GROUP).copied().collect())
}

/// The gradients of some channels over some images.
#[derive(Debug)]
pub(crate) struct ConvGradientJob<'a> {
    pub(crate) geometry: &'a ConvGeometry,
    pub(crate) lines: &'a Lines,
    pub(crate) has_spline: bool,
    pub(crate) has_base: bool,
    pub(crate) images: Range<usize>,
    /// Of one group.
    pub(crate) channels: Range<usize>,
    /// The channels' weights in tiles of `width`; empty if no gradient of the input is required.
    pub(crate) packed: &'a [f32],
    pub(crate) width: usize,
    /// All images, `[batch, in_channels, pixels]`.
    pub(crate) x: &'a [f32],
    /// The outputs' gradients of all images around the boxes, `[batch][groups][boxes]`.
    pub(crate) dy: &'a [f32],
}

impl ConvGradientJob<'_> {
    /// Computes the sums for the parameters' gradients, `[channels][tiles, taps, rows of
    /// weights, outputs of the tile]`, and the gradients of the channels' pixels, image by image.
    ///
    /// # Panics
    /// If a slice does not fit, or the CPU does not have `isa`.
    pub(crate) fn run(
        &self,
        isa: Isa,
        sums: Option<&mut [f32]>,
        dx: Option<&mut [&mut [f32]]>,
        space: &mut Workspace,
    ) {
        assert!(isa.is_available(), "this CPU has no {isa}");
        all_images(isa.vectors(), self, sums, dx, space);
    }

    fn rows(&self) -> usize {
        self.geometry.grid().bases() + usize::from(self.has_base)
    }
}

/// All images of a job.
#[inline(always)]
fn images<S: Simd>(
    simd: S,
    job: &ConvGradientJob<'_>,
    mut sums: Option<&mut [f32]>,
    mut dx: Option<&mut [&mut [f32]]>,
    space: &mut Workspace,
) {
    let ConvGradientJob { geometry, lines, width, .. } = *job;
    let columns = geometry.pixel.out_features().next_multiple_of(S::LANES);
    let of_channel = geometry.taps() * job.rows() * columns;
    // Offsets are counted in bytes of a vector.
    assert!(lines.region() <= u32::MAX as usize / (S::LANES * size_of::<f32>()), "a box's outputs");
    let of_box = lines.region() * columns;
    let pixels = lines.shapes.in_pixels();
    let channels = geometry.in_channels();
    let group = job.channels.start / (channels / geometry.groups());
    if let Some(sums) = &mut sums {
        assert_eq!(sums.len(), job.channels.len() * of_channel, "sums");
        sums.fill(0.0);
    }
    let Workspace { taps, tile, pixels: own, .. } = space;
    if taps.is_empty() {
        taps.resize_with(1, Taps::default);
    }
    let taps = &mut taps[0];
    let partial = tile.grown(LINE_PITCH * S::LANES);
    let mut has_nan = vec![false; job.channels.len()];
    for image in job.images.clone() {
        for index in 0..lines.boxes() {
            let box_index = (image * geometry.groups() + group) * lines.boxes() + index;
            let dy = &job.dy[box_index * of_box..][..of_box];
            for phases in lines.parts() {
                lines.pixels(geometry, index, phases.clone(), own);
                if own.sources.is_empty() {
                    continue;
                }
                for (at, channel) in job.channels.clone().enumerate() {
                    let x = &job.x[(image * channels + channel) * pixels..][..pixels];
                    let line = Line { job, own, phases: phases.clone() };
                    has_nan[at] |= line.order(simd, channel, x, dx.is_some(), taps);
                    for (tile, column) in (0..columns).step_by(width).enumerate() {
                        let own_width = width.min(columns - column);
                        let place = column * geometry.taps() * job.rows();
                        let count = own_width * geometry.taps() * job.rows();
                        let place = at * of_channel + place..at * of_channel + place + count;
                        let tile = Tile {
                            line: &line,
                            taps,
                            is_first: tile == 0,
                            dy: &dy[column * lines.region()..][..own_width * lines.region()],
                            packed: job.packed.get(place.clone()).unwrap_or_default(),
                        };
                        let sums = sums.as_deref_mut().map(|sums| &mut sums[place]);
                        let partial = dx.is_some().then_some(&mut *partial);
                        tile.vectors(simd, own_width / S::LANES, sums, partial);
                    }
                    if let Some(dx) = &mut dx {
                        let dx = &mut *dx[image - job.images.start];
                        add_lanes(simd, partial, &own.sources, &mut dx[at * pixels..][..pixels]);
                    }
                }
            }
        }
    }
    let Some(sums) = sums else { return };
    // A pixel that is NaN belongs to no interval: it makes all coefficients' gradients NaN.
    for (sums, _) in sums.chunks_exact_mut(of_channel).zip(has_nan).filter(|(_, nan)| *nan) {
        for column in (0..columns).step_by(width) {
            let own_width = width.min(columns - column);
            let place = column * geometry.taps() * job.rows();
            let tile = &mut sums[place..][..own_width * geometry.taps() * job.rows()];
            for rows in tile.chunks_exact_mut(own_width * job.rows()) {
                if job.has_spline {
                    rows[..geometry.grid().bases() * own_width].fill(f32::NAN);
                }
            }
        }
    }
}

/// Writes the sum over the lanes of each pixel's vector to the pixel's position.
#[inline(always)]
fn add_lanes<S: Simd>(simd: S, vectors: &[f32], sources: &[usize], dx: &mut [f32]) {
    for (vectors, sources) in vectors.chunks(S::LANES * S::LANES).zip(sources.chunks(S::LANES)) {
        let mut numbers = [0.0; MAX_LANES];
        add_sums(simd, vectors, &mut numbers[..S::LANES]);
        for (&source, number) in sources.iter().zip(numbers) {
            dx[source] = number;
        }
    }
}

/// A line of pixels.
struct Line<'a> {
    job: &'a ConvGradientJob<'a>,
    own: &'a Pixels,
    phases: Range<usize>,
}

impl Line<'_> {
    /// Evaluates a channel's splines, and sorts the pixels of each phase by window; returns whether
    /// any is NaN.
    #[inline(always)]
    fn order<S: Simd>(
        &self,
        simd: S,
        channel: usize,
        x: &[f32],
        has_slopes: bool,
        to: &mut Taps,
    ) -> bool {
        let geometry = &self.job.geometry.pixel;
        let count = geometry.grid().degree() + 1 + usize::from(self.job.has_base);
        let Taps {
            columns, values, slopes, windows, order, places, runs, run_ends, starts, ..
        } = to;
        let column = grown(columns, LINE_PITCH);
        let values = grown(values, count * LINE_PITCH);
        let slopes = grown(slopes, if has_slopes { count * LINE_PITCH } else { 0 });
        let windows = grown(windows, LINE_PITCH);
        let order = grown(order, LINE_PITCH);
        let places = grown(places, LINE_PITCH);
        for (to, &source) in column.iter_mut().zip(&self.own.sources) {
            *to = x[source];
        }
        let pixels = self.own.sources.len();
        let evaluation =
            Evaluation::of(simd, geometry, self.job.has_base, channel, &column[..pixels]);
        let slopes = has_slopes.then_some(slopes);
        let padded = pixels.next_multiple_of(GROUP);
        evaluation.run(
            simd,
            &column[..padded],
            Bases { values, slopes, pitch: LINE_PITCH, windows },
        );
        runs.clear();
        run_ends.clear();
        let intervals = geometry.grid().intervals();
        let mut start = 0;
        for &end in &self.own.ends {
            taps::sort(simd, &windows[start..end], intervals, &mut order[start..], runs, starts);
            run_ends.push(runs.len());
            let positions = &self.own.positions[start..end];
            for (place, &pixel) in places[start..end].iter_mut().zip(&order[start..end]) {
                *place = positions[pixel as usize] * (S::LANES * size_of::<f32>()) as u32;
            }
            start = end;
        }
        column[..pixels].iter().fold(false, |any, x| any | x.is_nan())
    }
}

/// A tile of outputs for a line of pixels.
struct Tile<'a> {
    line: &'a Line<'a>,
    taps: &'a Taps,
    /// Whether the pixels' gradients are written, not added.
    is_first: bool,
    /// `[region][N vectors]`.
    dy: &'a [f32],
    /// `[taps][rows of weights][N vectors]`; empty if no gradients of the input are required.
    packed: &'a [f32],
}

impl Tile<'_> {
    #[inline(always)]
    fn vectors<S: Simd>(
        &self,
        simd: S,
        vectors: usize,
        sums: Option<&mut [f32]>,
        partial: Option<&mut [f32]>,
    ) {
        // Compile only the tile sizes that the instruction set uses.
        if const { S::TILE == 1 } {
            self.wanted::<S, 1>(simd, sums, partial);
        } else {
            match vectors {
                1 => self.wanted::<S, 1>(simd, sums, partial),
                2 => self.wanted::<S, 2>(simd, sums, partial),
                3 => self.wanted::<S, 3>(simd, sums, partial),
                _ => self.wanted::<S, 4>(simd, sums, partial),
            }
        }
    }

    /// Dispatches by the required gradients.
    #[inline(always)]
    fn wanted<S: Simd, const N: usize>(
        &self,
        simd: S,
        sums: Option<&mut [f32]>,
        partial: Option<&mut [f32]>,
    ) {
        if let Some(sums) = sums {
            simd.vectorize(TileGradients::<N, true> { tile: self, to: sums });
        }
        if let Some(partial) = partial {
            simd.vectorize(TileGradients::<N, false> { tile: self, to: partial });
        }
    }

    /// `N` vectors of outputs: the weights' gradients with `SUMS`, else the pixels'.
    #[inline(always)]
    fn all<S: Simd, const N: usize, const SUMS: bool>(&self, simd: S, to: &mut [f32]) {
        let Line { job, own, ref phases } = *self.line;
        let spline_taps = job.geometry.grid().degree() + 1;
        let of_tap = job.rows() * N * S::LANES;
        let all_taps = job.geometry.taps();
        let (mut start, mut first_run) = (0, 0);
        for (index, phase) in job.lines.phases[phases.clone()].iter().enumerate() {
            let end = own.ends[index];
            let positions = &own.positions[start..end];
            let last = phase.taps.iter().map(|&(_, offset)| offset).max().unwrap_or(0);
            let furthest = positions.iter().max().map_or(0, |&position| position as usize);
            assert!((furthest + last + 1) * N * S::LANES <= self.dy.len());
            assert!(phase.taps.iter().all(|&(tap, _)| tap < all_taps));
            for run in &self.taps.runs[first_run..self.taps.run_ends[index]] {
                let run = ConvRun {
                    order: &self.taps.order[start..end][run.start as usize..run.end as usize],
                    places: &self.taps.places[start..end][run.start as usize..run.end as usize],
                    pixels: end - start,
                    taps: &phase.taps,
                    all_taps,
                    dy: self.dy,
                    window: run.window as usize,
                    spline_taps,
                    has_spline: job.has_spline,
                    has_base: job.has_base,
                    values: &self.taps.values[start..],
                    slopes: self.taps.slopes.get(start..).unwrap_or_default(),
                    packed: self.packed,
                    of_tap,
                    is_first: self.is_first,
                };
                if SUMS {
                    run.sums::<S, N>(simd, to);
                } else {
                    run.inner::<S, N>(simd, &mut to[start * S::LANES..]);
                }
            }
            first_run = self.taps.run_ends[index];
            start = end;
        }
    }
}

/// [`Tile::all`] in a separate function; a single function would take minutes to compile.
struct TileGradients<'a, const N: usize, const SUMS: bool> {
    tile: &'a Tile<'a>,
    to: &'a mut [f32],
}

impl<const N: usize, const SUMS: bool> Kernel for TileGradients<'_, N, SUMS> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        self.tile.all::<S, N, SUMS>(simd, self.to);
    }
}

/// The weights and bases of one pixel, for a group of pixels with the same.
#[inline(always)]
fn pixel<S: Simd>(
    simd: S,
    geometry: &ConvGeometry,
    has_base: bool,
    channel: usize,
    x: f32,
    values: &mut [f32],
    windows: &mut [u32],
) {
    let column = [x; GROUP];
    let evaluation = Evaluation::of(simd, &geometry.pixel, has_base, channel, &column);
    evaluation.run(simd, &column, Bases { values, slopes: None, pitch: GROUP, windows });
}

dispatch! {
    /// All images of a job.
    fn all_images(
        simd,
        job: &ConvGradientJob<'_>,
        sums: Option<&mut [f32]>,
        dx: Option<&mut [&mut [f32]]>,
        space: &mut Workspace,
    ) {
        images(simd, job, sums, dx, space);
    }

    /// The weights and bases of one pixel.
    fn of_pixel(
        simd,
        geometry: &ConvGeometry,
        has_base: bool,
        channel: usize,
        x: f32,
        values: &mut [f32],
        windows: &mut [u32],
    ) {
        pixel(simd, geometry, has_base, channel, x, values, windows);
    }
}
