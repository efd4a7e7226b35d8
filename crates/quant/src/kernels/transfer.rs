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
    let mut line = [0; LINE];
    let images = x.chunks_exact(channels * pixels).zip(codes.chunks_exact_mut(channels * pixels));
    for (x, codes) in images {
        for (channel, plane) in x.chunks_exact(pixels).enumerate() {
            for (part, from) in plane.chunks(LINE).enumerate() {
                let to = &mut line[..from.len()];
                vectors.run(Quantize { from, scale: scheme.scale(), clamp, to });
                let codes = codes[part * LINE * channels + channel..].iter_mut().step_by(channels);
                codes.zip(&*to).for_each(|(code, &given)| *code = given);
            }
        }
    }
}

/// Numbers that are converted to codes before they are distributed over their pixels.
const LINE: usize = 256;

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
            let mut codes = vec![0; 12];
            quantize_images(Isa::detect(), scheme, channels, pixels, &x, &mut codes);
            assert_eq!(codes, right);
        }
    }

    #[test]
    fn channels_move_to_the_inside() {
        let scheme = ActivationScheme::try_new(1.0, 0).expect("valid");
        // Two images of three channels and LINE + 2 pixels: channel c of pixel p holds p % 50 + 60·c.
        let pixels = LINE + 2;
        let one = (0..3 * pixels).map(|i| ((i % pixels) % 50 + 60 * (i / pixels)) as f32);
        let x: Vec<f32> = one.clone().chain(one).collect();
        for isa in paths() {
            let mut codes = vec![0; x.len()];
            quantize_images(isa, scheme, 3, pixels, &x, &mut codes);
            for (pixel, code) in codes.chunks_exact(3).enumerate() {
                let first = (pixel % pixels % 50) as u8;
                assert_eq!(code, [first, first + 60, first + 120]);
            }
        }
    }
}
