//! Images and weights as tiles of bf16 read them.

use updraft_simd::{TILE_LANES, TILE_TERMS, bf16_bits, dispatch};

/// Where an image lies in its padded copy.
#[derive(Debug, Clone, Copy)]
pub(super) struct Padding {
    /// Rows and columns of the image.
    pub(super) size: [usize; 2],
    /// Rows and columns of zeros before it.
    pub(super) before: [usize; 2],
    /// Columns of the padded image.
    pub(super) width: usize,
}

dispatch! {
    /// Writes planes of pairs of channels, `plane` pairs apart; the border is not written.
    pub(super) fn pair_channels(
        _simd,
        image: &[f32],
        padding: Padding,
        plane: usize,
        to: &mut [u32],
    ) {
        let Padding { size: [rows, columns], before, width } = padding;
        let first = before[0] * width + before[1];
        for (pair, to) in image.chunks(2 * rows * columns).zip(to.chunks_mut(plane)) {
            let (low, high) = pair.split_at(rows * columns);
            for row in 0..rows {
                let to = &mut to[first + row * width..][..columns];
                let low = &low[row * columns..][..columns];
                if high.is_empty() {
                    for (to, &low) in to.iter_mut().zip(low) {
                        *to = bf16_bits(low);
                    }
                    continue;
                }
                let high = &high[row * columns..][..columns];
                for ((to, &low), &high) in to.iter_mut().zip(low).zip(high) {
                    *to = bf16_bits(low) | bf16_bits(high) << 16;
                }
            }
        }
    }

    /// Writes planes of pairs of neighboring pixels, `plane` pairs apart, of a padded image whose width
    /// and columns before are even; the border is not written, except for the second pixel of the last
    /// pair.
    pub(super) fn pair_pixels(
        _simd,
        image: &[f32],
        padding: Padding,
        plane: usize,
        to: &mut [u32],
    ) {
        let Padding { size: [rows, columns], before, width } = padding;
        let first = (before[0] * width + before[1]) / 2;
        for (image, to) in image.chunks(rows * columns).zip(to.chunks_mut(plane)) {
            for (row, from) in image.chunks(columns).enumerate() {
                let to = &mut to[first + row * width / 2..][..columns.div_ceil(2)];
                let (pairs, rest) = from.as_chunks::<2>();
                for (to, &[low, high]) in to.iter_mut().zip(pairs) {
                    *to = bf16_bits(low) | bf16_bits(high) << 16;
                }
                if let ([low], Some(to)) = (rest, to.last_mut()) {
                    *to = bf16_bits(*low);
                }
            }
        }
    }

    /// Writes pairs of rows as `[pair][number]`; both are `pitch` long.
    pub(super) fn pair_rows(_simd, rows: &[f32], pitch: usize, to: &mut [u32]) {
        for (rows, to) in rows.chunks_exact(2 * pitch).zip(to.chunks_exact_mut(pitch)) {
            let (low, high) = rows.split_at(pitch);
            for ((to, &low), &high) in to.iter_mut().zip(low).zip(high) {
                *to = bf16_bits(low) | bf16_bits(high) << 16;
            }
        }
    }
}

/// Writes weights as tiles, `[block of results][step][result][pair of channels]`; a step is a block of
/// channels and a tap. `weight` returns that of a result, a channel and a tap.
pub(super) fn pack_weights(
    [results, channels, taps]: [usize; 3],
    weight: impl Fn(usize, usize, usize) -> f32,
    to: &mut [u32],
) {
    let pairs = TILE_TERMS / 2;
    let steps = channels.div_ceil(TILE_TERMS) * taps;
    for (tile, to) in to.chunks_exact_mut(TILE_LANES * pairs).enumerate() {
        let (first, step) = (tile / steps * TILE_LANES, tile % steps);
        let (block, tap) = (step / taps * TILE_TERMS, step % taps);
        let bits = |result: usize, channel: usize| match result < results && channel < channels {
            true => bf16_bits(weight(result, channel, tap)),
            false => 0,
        };
        for (index, to) in to.iter_mut().enumerate() {
            let (result, channel) = (first + index / pairs, block + 2 * (index % pairs));
            *to = bits(result, channel) | bits(result, channel + 1) << 16;
        }
    }
}
