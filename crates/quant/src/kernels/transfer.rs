//! Conversion of real numbers to codes and back, over whole slices.

use updraft_simd::{Clamp, Isa};

use super::cpu::{Dequantize, Quantize};
use crate::scheme::ActivationScheme;

/// Codes of real numbers: `zero_point + round(x / scale)`, halves to even, within 0 and 255.
///
/// NaN becomes the code 0.
///
/// # Panics
/// If the slices differ in length, or the CPU does not have `isa`.
pub fn quantize(isa: Isa, scheme: ActivationScheme, x: &[f32], codes: &mut [u8]) {
    assert_eq!(x.len(), codes.len(), "one code for each number");
    let clamp = Clamp::new(scheme.zero_point(), 0, 255);
    isa.int8_vectors().run(Quantize { from: x, scale: scheme.scale(), clamp, to: codes });
}

/// Real numbers of codes: `(code − zero_point)·scale`.
///
/// # Panics
/// If the slices differ in length, or the CPU does not have `isa`.
pub(crate) fn dequantize(isa: Isa, scheme: ActivationScheme, codes: &[u8], x: &mut [f32]) {
    assert_eq!(x.len(), codes.len(), "one number for each code");
    let (scale, zero) = (scheme.scale(), scheme.zero_point());
    isa.int8_vectors().run(Dequantize { from: codes, scale, zero, to: x });
}

/// Codes of images `[batch, channels, height, width]` as `[batch, height, width, channels]`.
///
/// # Panics
/// If a slice holds no whole number of images or the two differ in length, or the CPU
/// does not have `isa`.
pub(crate) fn quantize_images(
    isa: Isa,
    scheme: ActivationScheme,
    channels: usize,
    pixels: usize,
    x: &[f32],
    codes: &mut [u8],
) {
    assert_eq!(x.len(), codes.len(), "one code for each number");
    assert_eq!(x.len() % (channels * pixels), 0, "whole images");
    if channels == 1 || pixels == 1 {
        quantize(isa, scheme, x, codes);
        return;
    }
    let clamp = Clamp::new(scheme.zero_point(), 0, 255);
    let vectors = isa.int8_vectors();
    let images = x.chunks_exact(channels * pixels).zip(codes.chunks_exact_mut(channels * pixels));
    for (x, codes) in images {
        // The pixels of a line stay in the cache for all channels.
        for (part, codes) in codes.chunks_mut(LINE * channels).enumerate() {
            let len = codes.len() / channels;
            for first in (0..channels).step_by(TILE) {
                let mut lines = [[0; LINE]; TILE];
                for (line, channel) in lines.iter_mut().zip(first..channels) {
                    let from = &x[channel * pixels + part * LINE..][..len];
                    let scale = scheme.scale();
                    vectors.run(Quantize { from, scale, clamp, to: &mut line[..len] });
                }
                to_pixels(&lines, codes, channels, first);
            }
        }
    }
}

/// Numbers `[batch, channels, height, width]` of codes `[batch, height, width, channels]`.
///
/// # Panics
/// If a slice holds no whole number of images or the two differ in length, or the CPU
/// does not have `isa`.
pub(crate) fn dequantize_images(
    isa: Isa,
    scheme: ActivationScheme,
    channels: usize,
    pixels: usize,
    codes: &[u8],
    x: &mut [f32],
) {
    assert_eq!(x.len(), codes.len(), "one number for each code");
    assert_eq!(x.len() % (channels * pixels), 0, "whole images");
    if channels == 1 || pixels == 1 {
        dequantize(isa, scheme, codes, x);
        return;
    }
    let (scale, zero) = (scheme.scale(), scheme.zero_point());
    let vectors = isa.int8_vectors();
    let images = codes.chunks_exact(channels * pixels).zip(x.chunks_exact_mut(channels * pixels));
    for (codes, x) in images {
        for (part, codes) in codes.chunks(LINE * channels).enumerate() {
            let len = codes.len() / channels;
            for first in (0..channels).step_by(TILE) {
                let mut lines = [[0; LINE]; TILE];
                from_pixels(codes, channels, first, &mut lines);
                for (line, channel) in lines.iter().zip(first..channels) {
                    let to = &mut x[channel * pixels + part * LINE..][..len];
                    vectors.run(Dequantize { from: &line[..len], scale, zero, to });
                }
            }
        }
    }
}

/// Distributes lines of channels, from `first` on, over pixels `[…][channels]`.
fn to_pixels(lines: &[[u8; LINE]; TILE], codes: &mut [u8], channels: usize, first: usize) {
    let pixels = codes.len() / channels;
    let mut is_done = 0;
    if first + TILE <= channels {
        while is_done + TILE <= pixels {
            let rows = lines.each_ref().map(|line| eight(&line[is_done..]));
            for (pixel, row) in transposed(rows).into_iter().enumerate() {
                let at = (is_done + pixel) * channels + first;
                codes[at..at + TILE].copy_from_slice(&row.to_le_bytes());
            }
            is_done += TILE;
        }
    }
    for (pixel, codes) in codes.chunks_exact_mut(channels).enumerate().skip(is_done) {
        codes[first..].iter_mut().zip(lines).for_each(|(code, line)| *code = line[pixel]);
    }
}

/// The reverse of [`to_pixels`].
fn from_pixels(codes: &[u8], channels: usize, first: usize, lines: &mut [[u8; LINE]; TILE]) {
    let pixels = codes.len() / channels;
    let mut is_done = 0;
    if first + TILE <= channels {
        while is_done + TILE <= pixels {
            let rows: [u64; TILE] =
                std::array::from_fn(|pixel| eight(&codes[(is_done + pixel) * channels + first..]));
            for (line, row) in lines.iter_mut().zip(transposed(rows)) {
                line[is_done..is_done + TILE].copy_from_slice(&row.to_le_bytes());
            }
            is_done += TILE;
        }
    }
    for (pixel, codes) in codes.chunks_exact(channels).enumerate().skip(is_done) {
        lines.iter_mut().zip(&codes[first..]).for_each(|(line, code)| line[pixel] = *code);
    }
}

/// The first eight bytes, the first of them lowest.
fn eight(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(*bytes.first_chunk().expect("eight bytes"))
}

/// Eight rows of eight bytes, transposed: blocks of 4, 2 and 1 change places across the diagonal.
fn transposed(mut rows: [u64; TILE]) -> [u64; TILE] {
    let halves =
        [(4, 0x0000_0000_FFFF_FFFF), (2, 0x0000_FFFF_0000_FFFF), (1, 0x00FF_00FF_00FF_00FF)];
    for (distance, mask) in halves {
        for first in (0..TILE).filter(|row| row & distance == 0) {
            let second = first + distance;
            let change = (rows[first] >> (8 * distance) ^ rows[second]) & mask;
            rows[second] ^= change;
            rows[first] ^= change << (8 * distance);
        }
    }
    rows
}

/// Numbers of a channel that are converted at a time.
const LINE: usize = 64;

/// Channels and pixels that change places together.
const TILE: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    fn paths() -> impl Iterator<Item = Isa> {
        Isa::DOTS.into_iter().filter(|isa| isa.is_available())
    }

    #[test]
    fn every_code_survives_the_way_there_and_back() {
        let codes: Vec<u8> = (0..=255).collect();
        for (scale, zero) in [(0.02, 50), (1e-30, 0), (3.3e4, 255)] {
            let scheme = ActivationScheme::try_new(scale, zero).expect("valid");
            for isa in paths() {
                let (mut x, mut back) = (vec![0.0; 256], vec![0; 256]);
                dequantize(isa, scheme, &codes, &mut x);
                quantize(isa, scheme, &x, &mut back);
                assert_eq!(back, codes, "{isa}");
            }
        }
    }

    #[test]
    fn all_paths_round_alike_and_take_what_is_not_finite() {
        let scheme = ActivationScheme::try_new(0.1, 100).expect("valid");
        let mut x: Vec<f32> = (-3000..3000).map(|i| i as f32 * 0.005_001).collect();
        x.extend([f32::NAN, f32::INFINITY, f32::NEG_INFINITY, f32::MAX, 1e-42, -0.0]);
        let mut right = vec![0; x.len()];
        quantize(Isa::Portable, scheme, &x, &mut right);
        assert_eq!(right[6000..], [0, 255, 0, 255, 100, 100]);
        for isa in paths() {
            let mut codes = vec![0; x.len()];
            quantize(isa, scheme, &x, &mut codes);
            assert_eq!(codes, right, "{isa}");
        }
    }

    #[test]
    fn one_channel_or_one_pixel_stays_where_it_is() {
        let scheme = ActivationScheme::try_new(1.0, 0).expect("valid");
        let x: Vec<f32> = (0..12).map(|value| value as f32).collect();
        let right: Vec<u8> = (0..12).collect();
        for (channels, pixels) in [(1, 6), (6, 1)] {
            let (mut codes, mut back) = (vec![0; 12], vec![0.0; 12]);
            quantize_images(Isa::detect(), scheme, channels, pixels, &x, &mut codes);
            assert_eq!(codes, right);
            dequantize_images(Isa::detect(), scheme, channels, pixels, &codes, &mut back);
            assert_eq!(back, x);
        }
    }

    #[test]
    fn channels_move_to_the_inside() {
        let scheme = ActivationScheme::try_new(1.0, 0).expect("valid");
        // Two images of some channels and LINE + 9 pixels, of which no two neighbors are alike.
        let pixels = LINE + 9;
        for channels in [3, 8, 21] {
            let one = (0..channels * pixels).map(|i| (i * 7 % 251) as f32);
            let x: Vec<f32> = one.clone().chain(one).collect();
            for isa in paths() {
                let mut codes = vec![0; x.len()];
                quantize_images(isa, scheme, channels, pixels, &x, &mut codes);
                for (pixel, codes) in codes.chunks_exact(channels).enumerate() {
                    for (channel, &code) in codes.iter().enumerate() {
                        let right = (channel * pixels + pixel % pixels) * 7 % 251;
                        assert_eq!(usize::from(code), right, "channel {channel} of {channels}");
                    }
                }
                let mut back = vec![0.0; x.len()];
                dequantize_images(isa, scheme, channels, pixels, &codes, &mut back);
                assert_eq!(back, x);
            }
        }
    }
}
