//! Inputs of the passes: taps as offsets, packed weights, padded images.

use updraft_simd::Isa;

use super::geometry::ConvShape;
use super::image::pad;
use super::plan::{Padded, Phase, Windows};
use super::scratch::CACHE_LINE;

/// The taps of a forward window in the order of the weights: channel, row, column.
pub(crate) fn taps_of(shape: &ConvShape, windows: &Windows) -> Vec<u32> {
    let [rows, columns] = shape.kernel;
    let taps = 0..windows.channels[0] * rows * columns;
    taps.map(|tap| {
        let (row, column) = (tap / columns % rows, tap % columns);
        windows.tap(shape, [tap / columns / rows, row, column])
    })
    .collect()
}

/// The taps of a phase's windows: output channel, row, column.
pub(crate) fn phase_taps(phase: &Phase, padded: Padded, outputs: usize) -> Vec<u32> {
    let [rows, columns] = &phase.taps;
    let mut taps = Vec::with_capacity(outputs * rows.len() * columns.len());
    for output in 0..outputs {
        for (_, row) in rows {
            for (_, column) in columns {
                let row = output * padded.size[0] + row;
                taps.push((row * padded.size[1] + column) as u32);
            }
        }
    }
    taps
}

/// Fills `[blocks][taps][lanes]` with the weight of each channel and tap, and zeros beyond.
///
/// The first channel's weight of a tap is `w[first(tap)]`; channels are `step` apart.
pub(crate) fn pack(
    packed: &mut [f32],
    [taps, lanes]: [usize; 2],
    w: &[f32],
    [channels, step]: [usize; 2],
    first: impl Fn(usize) -> usize,
) {
    for (index, vector) in packed.chunks_exact_mut(lanes).enumerate() {
        let channel = index / taps * lanes;
        let (filled, rest) = vector.split_at_mut(lanes.min(channels - channel));
        let weights = w[first(index % taps) + channel * step..].iter().step_by(step);
        for (packed, &weight) in filled.iter_mut().zip(weights) {
            *packed = weight;
        }
        rest.fill(0.0);
    }
}

/// Numbers of the padded copy of an image; 0 if the image is read without a copy.
pub(crate) fn padded_len(padded: Padded, image: [usize; 2], channels: usize) -> usize {
    let numbers = if padded.is_bare(image) { 0 } else { channels * padded.plane() };
    // The data after it starts at a cache line too.
    numbers.next_multiple_of(CACHE_LINE)
}

/// The image itself, or its padded copy.
pub(crate) fn padded_image<'a>(
    isa: Isa,
    image: &'a [f32],
    size: [usize; 2],
    padded: Padded,
    own: &'a mut [f32],
) -> &'a [f32] {
    if padded.is_bare(size) {
        return image;
    }
    pad(isa, image, size, padded.before, padded.size, own);
    own
}
