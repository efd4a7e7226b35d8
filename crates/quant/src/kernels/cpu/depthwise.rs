//! Sums of products of each channel with its own weights: lanes are channels.
#![expect(unsafe_code, reason = "reads and writes through pointers that were checked once")]

use updraft_simd::{INT8_LANES as LANES, Int8, Int8Kernel, Isa};

use super::sink::{Sink, filled};

/// Pixels whose sums stay in registers together.
const PIXELS: usize = 8;

/// A depthwise convolution of one padded image, for a grid of pixels.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ChannelJob<'a> {
    /// The padded image in channels-last order.
    pub(crate) image: &'a [u8],
    /// The offset of each tap from the window's start.
    pub(crate) taps: &'a [u32],
    /// `[vectors][taps][lanes]`.
    pub(crate) weights: &'a [i8],
    /// The initial value of each sum, padded to whole vectors.
    pub(crate) start: &'a [i32],
    pub(crate) channels: usize,
    /// Pixels of the grid, and the distance between their windows in the image.
    pub(crate) rows: usize,
    pub(crate) columns: usize,
    pub(crate) row_step: usize,
    pub(crate) column_step: usize,
}

impl ChannelJob<'_> {
    /// Computes the grid into `output`, pixel by pixel.
    ///
    /// # Panics
    /// If a slice is too short for what the job says of it, or the CPU does not have `isa`.
    pub(crate) fn run<K: Codes>(&self, isa: Isa, sink: K, output: &mut [u8]) {
        if self.rows == 0 || self.columns == 0 {
            return;
        }
        self.check(&sink, output);
        isa.int8_vectors().run(Checked { job: self, sink, output });
    }

    /// Checks what the inner loop assumes.
    fn check<K: Codes>(&self, sink: &K, output: &[u8]) {
        let vectors = self.channels.div_ceil(LANES);
        let furthest = self.taps.iter().max().copied().unwrap_or(0) as usize;
        let last = (self.rows - 1) * self.row_step + (self.columns - 1) * self.column_step;
        assert!(last + furthest + vectors * LANES <= self.image.len(), "windows reach too far");
        assert_eq!(self.weights.len(), vectors * self.taps.len() * LANES, "packed weights");
        assert!(self.start.len() >= vectors * LANES, "starts of the sums");
        assert!(sink.columns() >= vectors * LANES, "scales of the channels");
        let numbers = self.rows * self.columns * self.channels;
        assert!(numbers <= output.len(), "output too short");
        assert!(sink.reaches(numbers), "codes to add");
    }
}

/// A sink that writes int8 codes.
pub(crate) trait Codes: Sink<Number = u8> {}

impl<K: Sink<Number = u8>> Codes for K {}

/// A job that [`ChannelJob::check`] has passed for this sink and output.
struct Checked<'a, K> {
    job: &'a ChannelJob<'a>,
    sink: K,
    output: &'a mut [u8],
}

impl<K: Codes> Int8Kernel for Checked<'_, K> {
    type Output = ();

    #[inline(always)]
    fn run<S: Int8>(self, simd: S) {
        // SAFETY: the job was checked.
        unsafe { channels(simd, self.job, self.sink, self.output) };
    }
}

/// All vectors of channels of all rows.
///
/// # Safety
/// [`ChannelJob::check`] has passed for this job, sink and output.
#[inline(always)]
unsafe fn channels<S: Int8, K: Codes>(simd: S, job: &ChannelJob<'_>, sink: K, output: &mut [u8]) {
    for row in 0..job.rows {
        for first in (0..job.channels).step_by(LANES) {
            let mut column = 0;
            while column < job.columns {
                let window = row * job.row_step + column * job.column_step + first;
                let window = job.image.as_ptr().wrapping_add(window);
                let pixel = (row * job.columns + column) * job.channels + first;
                let to = (output.as_mut_ptr(), pixel);
                let is_whole = column + PIXELS <= job.columns;
                if is_whole {
                    // SAFETY: the job was checked, and the pixels lie in its grid.
                    unsafe { pixels::<S, K, PIXELS>(simd, job, sink, first, window, to) };
                } else {
                    // SAFETY: the job was checked, and the pixel lies in its grid.
                    unsafe { pixels::<S, K, 1>(simd, job, sink, first, window, to) };
                }
                column += if is_whole { PIXELS } else { 1 };
            }
        }
    }
}

/// One vector of channels of `Q` pixels.
///
/// # Safety
/// The job was checked, and `Q` pixels from `window` on lie in its grid, as in the output from the
/// place beside it on.
#[inline(always)]
unsafe fn pixels<S: Int8, K: Codes, const Q: usize>(
    simd: S,
    job: &ChannelJob<'_>,
    sink: K,
    first: usize,
    window: *const u8,
    (output, at): (*mut u8, usize),
) {
    let weights = job.weights.as_ptr().wrapping_add(first * job.taps.len());
    // SAFETY: every channel has its start.
    let start = unsafe { simd.load(job.start.as_ptr().wrapping_add(first)) };
    let mut sums = [start; Q];
    for (index, &tap) in job.taps.iter().enumerate() {
        // SAFETY: every tap has a vector of weights.
        let weights = unsafe { simd.widen_signed(weights.wrapping_add(index * LANES)) };
        let at = window.wrapping_add(tap as usize);
        for (pixel, sum) in sums.iter_mut().enumerate() {
            // SAFETY: the windows of all pixels lie in the image.
            let values = unsafe { simd.widen(at.wrapping_add(pixel * job.column_step)) };
            *sum = simd.multiply_add(*sum, values, weights);
        }
    }
    for (pixel, sum) in sums.into_iter().enumerate() {
        let (at, count) = (at + pixel * job.channels, filled(job.channels, first));
        // SAFETY: the pixels lie in the output, and the sink knows all channels.
        unsafe { sink.put(simd, sum, first, output, at, count) };
    }
}
