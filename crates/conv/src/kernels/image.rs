//! Copies of images for the inner loops: padded by zeros, or pixel by pixel.
#![expect(unsafe_code, reason = "reads and writes through pointers that were checked once")]

use std::ops::Range;

use updraft_simd::pixels::transpose;
use updraft_simd::{Isa, MAX_LANES, Simd, dispatch};

/// Copies `[channels][height][width]` into `[channels][padded.0][padded.1]`, `before` rows and
/// columns from its start; the border is not written.
///
/// # Panics
/// If `to` is too short, or the CPU does not have `isa`.
pub(crate) fn pad(
    isa: Isa,
    image: &[f32],
    size: [usize; 2],
    before: [usize; 2],
    padded: [usize; 2],
    to: &mut [f32],
) {
    assert!(isa.is_available(), "this CPU has no {isa}");
    let channels = image.len() / (size[0] * size[1]);
    assert!(before[0] + size[0] <= padded[0], "rows fit");
    assert!(before[1] + size[1] <= padded[1], "columns fit");
    assert!(channels * padded[0] * padded[1] <= to.len(), "the target is too short");
    let to = &mut to[before[0] * padded[1] + before[1]..];
    copy_planes(isa.vectors(), image, size, padded, to);
}

/// Copies planes, row by row, into planes of the padded size.
///
/// # Safety
/// [`pad`] has checked that they fit behind the start of `to`.
#[inline(always)]
unsafe fn planes<S: Simd>(
    simd: S,
    image: &[f32],
    [height, width]: [usize; 2],
    padded: [usize; 2],
    to: &mut [f32],
) {
    for (channel, plane) in image.chunks_exact(height * width).enumerate() {
        for row in 0..height {
            let from = plane.as_ptr().wrapping_add(row * width);
            let place = (channel * padded[0] + row) * padded[1];
            let to = to.as_mut_ptr().wrapping_add(place);
            if width < S::LANES {
                for column in 0..width {
                    // SAFETY: the pixel lies in both rows.
                    let pixel = unsafe { from.wrapping_add(column).read() };
                    // SAFETY: the pixel lies in both rows.
                    unsafe { to.wrapping_add(column).write(pixel) };
                }
                continue;
            }
            // The last vector overlaps the one before it, so that no vector is partial.
            for column in (0..width).step_by(S::LANES) {
                let column = column.min(width - S::LANES);
                // SAFETY: the vector lies in both rows.
                let pixels = unsafe { simd.load(from.wrapping_add(column)) };
                // SAFETY: the vector lies in both rows.
                unsafe { simd.store(to.wrapping_add(column), pixels) };
            }
        }
    }
}

/// Writes pixels of channels, `pitch` numbers apart, to places of the channels' planes.
///
/// # Panics
/// If a slice is too short, `pitch` is less than the planes' whole vectors, or the CPU does not have
/// `isa`.
pub(crate) fn transpose_to_planes(
    isa: Isa,
    from: &[f32],
    pitch: usize,
    places: Range<usize>,
    planes: &mut [&mut [f32]],
) {
    /// Pixels at a time, and numbers from one channel's to the next's: not a power of two.
    const RUN: usize = 128;
    const APART: usize = RUN + MAX_LANES;
    let mut channels = [0.0; MAX_LANES * APART];
    let lanes = isa.lanes();
    for (block, planes) in planes.chunks_mut(lanes).enumerate() {
        for first in (0..places.len()).step_by(RUN) {
            let count = RUN.min(places.len() - first);
            let from = &from[first * pitch + block * lanes..];
            transpose(isa, from, [count, lanes], pitch, &mut channels, APART);
            for (plane, channel) in planes.iter_mut().zip(channels.chunks_exact(APART)) {
                plane[places.start + first..][..count].copy_from_slice(&channel[..count]);
            }
        }
    }
}

dispatch! {
    /// Copies planes that were checked.
    fn copy_planes(
        simd,
        image: &[f32],
        size: [usize; 2],
        padded: [usize; 2],
        to: &mut [f32],
    ) {
        // SAFETY: `pad` has checked that they fit.
        unsafe { planes(simd, image, size, padded, to) };
    }
}
