//! Sums over windows: lanes are pixels of a row, a register tile is some channels of some vectors.
//!
//! Where windows of neighbors are adjacent, the image is read as vectors, each for all
//! channels of the tile, and a weight is broadcast to all lanes. Fewer numbers are read for each
//! product than where lanes are channels, and the results are planes without a transpose.
#![expect(unsafe_code, reason = "reads and writes through pointers that were checked once")]

use std::ops::Range;

use updraft_simd::{Isa, Kernel, Simd, Vectors};

/// A sum over windows of one padded image, for a grid of pixels, channel by channel.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LineJob<'a> {
    /// The padded image; the first pixel's window starts at its start.
    pub(crate) image: &'a [f32],
    /// The offset of each tap from the window's start.
    pub(crate) taps: &'a [u32],
    /// `[blocks][taps][lanes]`, the lanes of a block being output channels.
    pub(crate) weights: &'a [f32],
    /// The initial value of each sum: `[blocks][lanes]`.
    pub(crate) start: &'a [f32],
    /// Output channels; the last block may have lanes without one.
    pub(crate) channels: usize,
    /// Pixels of the grid: windows of a row are neighbours in the image.
    pub(crate) rows: usize,
    pub(crate) columns: usize,
    /// The distance between the windows of two rows in the image.
    pub(crate) row_step: usize,
}

impl LineJob<'_> {
    /// Whether rows of so many pixels fill a vector.
    pub(crate) const fn fits(isa: Isa, columns: usize) -> bool {
        columns >= isa.lanes()
    }

    /// Numbers of a tile's pixels in the panel.
    pub(crate) fn panel_len(isa: Isa, taps: usize) -> usize {
        taps.min(TAPS) * VECTORS * isa.lanes()
    }

    /// Computes the planes, `[rows][columns]` each; `panel` is work space.
    ///
    /// # Panics
    /// If a slice is shorter than the job requires, rows do not [fit](Self::fits), or the
    /// CPU does not have `isa`.
    pub(crate) fn run(&self, isa: Isa, output: &mut [&mut [f32]], panel: &mut [f32]) {
        assert!(isa.is_available(), "this CPU has no {isa}");
        if self.rows == 0 || self.channels == 0 {
            return;
        }
        self.check(isa, output);
        assert!(panel.len() >= Self::panel_len(isa, self.taps.len()), "room for a panel");
        match isa.vectors() {
            Vectors::Portable(simd) => simd.vectorize(Planes::<2, 2> { job: self, output, panel }),
            #[cfg(target_arch = "aarch64")]
            Vectors::Neon(simd) => simd.vectorize(Planes::<6, 2> { job: self, output, panel }),
            #[cfg(target_arch = "x86_64")]
            Vectors::Avx2(simd) => simd.vectorize(Planes::<6, 2> { job: self, output, panel }),
            #[cfg(target_arch = "x86_64")]
            Vectors::Avx512(simd) => simd.vectorize(Planes::<8, 3> { job: self, output, panel }),
        }
    }

    /// Whether no two neighboring taps read the same row.
    fn is_spread(&self) -> bool {
        matches!(*self.taps, [first, second, ..] if first.abs_diff(second) as usize >= self.columns)
    }

    /// Checks what the inner loop assumes.
    fn check(&self, isa: Isa, output: &[&mut [f32]]) {
        assert!(Self::fits(isa, self.columns), "rows of {} fill no vector", self.columns);
        let furthest = self.taps.iter().fold(0, |most, &tap| most.max(tap)) as usize;
        let window = (self.rows - 1) * self.row_step + self.columns - 1;
        assert!(window + furthest < self.image.len(), "windows reach over the image");
        let blocks = self.channels.div_ceil(isa.lanes());
        let lanes = blocks * isa.lanes();
        assert_eq!(self.weights.len(), self.taps.len() * lanes, "packed weights");
        assert_eq!(self.start.len(), lanes, "starts of the sums");
        assert_eq!(output.len(), self.channels, "one plane for each channel");
        let pixels = self.rows * self.columns;
        assert!(output.iter().all(|plane| plane.len() == pixels), "numbers of a plane");
    }
}

/// Taps whose weights stay in the first-level cache, beside the part of the image that they read.
const TAPS: usize = 144;

/// The most vectors of a tile.
const VECTORS: usize = 3;

/// The number of channels from which copying a tile's pixels into a panel pays: planes whose
/// distance is a power of two share sets of the cache.
const WORTH_A_PANEL: usize = 12;

/// All planes, up to `C` channels of up to `V` vectors at a time; `V` is 2 or 3.
///
/// # Safety
/// [`LineJob::check`] has passed for this job and output.
#[inline(always)]
unsafe fn planes<S: Simd, const C: usize, const V: usize>(
    simd: S,
    job: &LineJob<'_>,
    output: &mut [&mut [f32]],
    panel: &mut [f32],
) {
    let vectors = job.rows * job.columns.div_ceil(S::LANES);
    // Also for a window without taps.
    let parts = job.taps.len().div_ceil(TAPS).max(1);
    for part in 0..parts {
        let taps = part * TAPS..((part + 1) * TAPS).min(job.taps.len());
        let mut place = Place { row: 0, column: 0 };
        let mut left = vectors;
        while left > 0 {
            let count = match left {
                // Two and two keep more sums in flight than three and one.
                2 | 4 => 2,
                left => left.min(V),
            };
            let taps = taps.clone();
            match count {
                3 => {
                    let tile = Tile::<V>::at::<S>(job, taps, &mut place);
                    // SAFETY: the job, which was checked, has these vectors.
                    unsafe { tile.run::<S, C>(simd, job, output, panel) };
                }
                2 => {
                    let tile = Tile::<2>::at::<S>(job, taps, &mut place);
                    // SAFETY: the same.
                    unsafe { tile.run::<S, C>(simd, job, output, panel) };
                }
                _ => {
                    let tile = Tile::<1>::at::<S>(job, taps, &mut place);
                    // SAFETY: the same.
                    unsafe { tile.run::<S, C>(simd, job, output, panel) };
                }
            }
            left -= count;
        }
    }
}

/// Where a vector begins if it is not the last of a row.
struct Place {
    row: usize,
    column: usize,
}

/// Some taps for some vectors of pixels.
struct Tile<const V: usize> {
    taps: Range<usize>,
    /// The windows of the vectors' first pixels.
    windows: [*const f32; V],
    /// The offsets of the vectors in a plane.
    places: [usize; V],
    /// The number of a vector's last pixels that no vector before it has.
    own: [usize; V],
}

impl<const V: usize> Tile<V> {
    /// The next `V` vectors from a position, which moves past them.
    ///
    /// The last vector of a row overlaps the one before it, so that no vector is partial.
    #[inline(always)]
    fn at<S: Simd>(job: &LineJob<'_>, taps: Range<usize>, place: &mut Place) -> Self {
        let image = job.image.as_ptr();
        let mut tile = Self { taps, windows: [image; V], places: [0; V], own: [0; V] };
        for index in 0..V {
            let own = S::LANES.min(job.columns - place.column);
            let column = place.column + own - S::LANES;
            tile.windows[index] = image.wrapping_add(place.row * job.row_step + column);
            tile.places[index] = place.row * job.columns + column;
            tile.own[index] = own;
            place.column += own;
            if place.column == job.columns {
                *place = Place { row: place.row + 1, column: 0 };
            }
        }
        tile
    }

    /// All channels: some together, or one by one where few are left.
    ///
    /// # Safety
    /// [`LineJob::check`] has passed, the job has the taps and the vectors, and the panel has room.
    #[inline(always)]
    unsafe fn run<S: Simd, const C: usize>(
        &self,
        simd: S,
        job: &LineJob<'_>,
        output: &mut [&mut [f32]],
        panel: &mut [f32],
    ) {
        if job.channels < WORTH_A_PANEL || !job.is_spread() {
            // SAFETY: the caller promises that the tile lies in the job.
            unsafe { self.channels::<S, C, false>(simd, job, output, panel) };
            return;
        }
        let mut to = panel.as_mut_ptr();
        for &tap in &job.taps[self.taps.clone()] {
            for window in self.windows {
                // SAFETY: the windows of all pixels lie in the image.
                let pixels = unsafe { simd.load(window.wrapping_add(tap as usize)) };
                // SAFETY: the panel has room for the vectors of all taps.
                unsafe { simd.store(to, pixels) };
                to = to.wrapping_add(S::LANES);
            }
        }
        // SAFETY: the caller promises that the tile lies in the job; the panel is filled.
        unsafe { self.channels::<S, C, true>(simd, job, output, panel) };
    }

    /// All channels, from the panel or from the image.
    ///
    /// # Safety
    /// As [`run`](Self::run), and the panel is filled if it is read.
    #[inline(always)]
    unsafe fn channels<S: Simd, const C: usize, const PANEL: bool>(
        &self,
        simd: S,
        job: &LineJob<'_>,
        output: &mut [&mut [f32]],
        panel: &[f32],
    ) {
        let mut channel = 0;
        while channel < job.channels {
            let left = job.channels - channel;
            // Four and four keep more sums in flight than a larger tile and a remainder.
            let is_two_fours = 4 < C && C < left && left <= 8;
            channel += if left >= C && !is_two_fours {
                // SAFETY: the caller promises that the tile lies in the job.
                unsafe { self.sums::<S, C, PANEL>(simd, job, output, panel, channel) };
                C
            } else if left >= 4 {
                // SAFETY: the same.
                unsafe { self.sums::<S, 4, PANEL>(simd, job, output, panel, channel) };
                4
            } else if left == 3 {
                // SAFETY: the same.
                unsafe { self.sums::<S, 3, PANEL>(simd, job, output, panel, channel) };
                3
            } else if left == 2 {
                // SAFETY: the same.
                unsafe { self.sums::<S, 2, PANEL>(simd, job, output, panel, channel) };
                2
            } else {
                // SAFETY: the same.
                unsafe { self.sums::<S, 1, PANEL>(simd, job, output, panel, channel) };
                1
            };
        }
    }

    /// The sums of `C` channels.
    ///
    /// # Safety
    /// As [`channels`](Self::channels), and the channels exist.
    #[inline(always)]
    unsafe fn sums<S: Simd, const C: usize, const PANEL: bool>(
        &self,
        simd: S,
        job: &LineJob<'_>,
        output: &mut [&mut [f32]],
        panel: &[f32],
        channel: usize,
    ) {
        let weights: [*const f32; C] = std::array::from_fn(|index| {
            let lane = (channel + index) % S::LANES;
            let block = (channel + index - lane) * job.taps.len();
            job.weights.as_ptr().wrapping_add(block + self.taps.start * S::LANES + lane)
        });
        let planes: [*mut f32; C] =
            std::array::from_fn(|index| output[channel + index].as_mut_ptr());
        let mut sums = [[simd.zero(); V]; C];
        for (index, sums) in sums.iter_mut().enumerate() {
            if self.taps.start == 0 {
                let start = job.start.as_ptr().wrapping_add(channel + index);
                // SAFETY: every lane of a block has its start.
                *sums = [simd.splat(unsafe { start.read() }); V];
            } else {
                for (sum, place) in sums.iter_mut().zip(self.places) {
                    // SAFETY: the vector lies in a row of an existing plane.
                    *sum = unsafe { simd.load(planes[index].wrapping_add(place)) };
                }
            }
        }
        for (index, &tap) in job.taps[self.taps.clone()].iter().enumerate() {
            let at = index * S::LANES;
            let mut pixels = [simd.zero(); V];
            for (vector, pixels) in pixels.iter_mut().enumerate() {
                let from = if PANEL {
                    panel.as_ptr().wrapping_add((index * V + vector) * S::LANES)
                } else {
                    self.windows[vector].wrapping_add(tap as usize)
                };
                // SAFETY: the windows of all pixels lie in the image, and in a filled panel.
                *pixels = unsafe { simd.load(from) };
            }
            for (weights, sums) in weights.iter().zip(&mut sums) {
                // SAFETY: every block has a vector of weights for every tap.
                let weight = simd.splat(unsafe { weights.wrapping_add(at).read() });
                for (sum, &pixels) in sums.iter_mut().zip(&pixels) {
                    *sum = simd.multiply_add(*sum, weight, pixels);
                }
            }
        }
        for (index, sums) in sums.iter().enumerate() {
            for ((&sum, place), own) in sums.iter().zip(self.places).zip(self.own) {
                // Pixels that belong to another vector would be added twice by later taps.
                // SAFETY: the vector lies in a row of an existing plane.
                unsafe { simd.store_last(planes[index].wrapping_add(place), sum, own) };
            }
        }
    }
}

/// The planes of a job that was checked.
struct Planes<'a, 'b, const C: usize, const V: usize> {
    job: &'a LineJob<'a>,
    output: &'a mut [&'b mut [f32]],
    panel: &'a mut [f32],
}

impl<const C: usize, const V: usize> Kernel for Planes<'_, '_, C, V> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        // SAFETY: `LineJob::run` has checked job, output and panel.
        unsafe { planes::<S, C, V>(simd, self.job, self.output, self.panel) };
    }
}
