//! Functions in closed form of pixels whose channels lie side by side.

use updraft_simd::Simd;

use super::function::{
    Bumps, Chebyshev, Fourier, Functions, Gaussian, Gradient, Legendre, Lines, MexicanHat,
    Rational, Rswaf, with_functions,
};
use super::layer::{DenseLayer, Parameters};
use crate::basis::Basis;
use crate::kernels::cpu;
use crate::kernels::pixel_functions::PixelFunctions;

/// The functions of a convolution's channels, and the base branch.
#[derive(Clone, Copy)]
pub(super) struct Pixels<'a> {
    pub(super) layer: &'a DenseLayer,
    pub(super) parameters: &'a Parameters<'a>,
    pub(super) has_base: bool,
}

impl Pixels<'_> {
    /// Functions of a channel and the base branch.
    fn terms(self) -> usize {
        self.layer.count() + usize::from(self.has_base)
    }
}

impl PixelFunctions for Pixels<'_> {
    fn trained(self) -> usize {
        self.parameters.trained()
    }

    #[inline(always)]
    fn values<S: Simd>(self, simd: S, channel: usize, pixels: &[f32], values: &mut [f32]) {
        let (count, activation) = (self.layer.count(), self.layer.activation);
        let own = self.parameters.of(channel);
        let of_pixel = self.terms() * S::LANES;
        with_functions!(&self.layer.basis, functions => {
            let values = values.chunks_exact_mut(of_pixel);
            for (x, values) in pixels.chunks_exact(S::LANES).zip(values) {
                functions.values(simd, own, simd.read(x), Lines::new(values, count, S::LANES, 0));
            }
        });
        if !self.has_base {
            return;
        }
        let values = values.chunks_exact_mut(of_pixel);
        for (x, values) in pixels.chunks_exact(S::LANES).zip(values) {
            let value = cpu::value(simd, activation, simd.read(x));
            simd.write(&mut values[count * S::LANES..], value);
        }
    }

    #[inline(always)]
    fn gradients<S: Simd>(
        self,
        simd: S,
        channel: usize,
        pixels: &mut [f32],
        values: &mut [f32],
        pitch: usize,
        sums: &mut [f32],
        scratch: &mut [f32],
    ) {
        if sums.is_empty() {
            of_pixels::<S, false>(self, simd, channel, pixels, values, pitch, sums, scratch);
        } else {
            of_pixels::<S, true>(self, simd, channel, pixels, values, pitch, sums, scratch);
        }
    }
}

/// The gradients of pixels, with those of `TRAINED` parameters.
#[expect(clippy::too_many_arguments, reason = "a pass's inputs, outputs and memory")]
#[inline(always)]
fn of_pixels<S: Simd, const TRAINED: bool>(
    all: Pixels<'_>,
    simd: S,
    channel: usize,
    pixels: &mut [f32],
    values: &mut [f32],
    pitch: usize,
    sums: &mut [f32],
    scratch: &mut [f32],
) {
    let (count, activation) = (all.layer.count(), all.layer.activation);
    let own = all.parameters.of(channel);
    let trained = if TRAINED { all.parameters.trained() } else { 0 };
    with_functions!(&all.layer.basis, functions => {
        for (pixel, values) in pixels.chunks_exact_mut(S::LANES).zip(values.chunks_mut(pitch)) {
            let x = simd.read(pixel);
            let gradient = Gradient {
                weights: Lines::new(values, count, S::LANES, 0),
                values: Lines::new(scratch, count, S::LANES, 0),
                sums: Lines::new(sums, trained, S::LANES, 0),
            };
            let mut slope = functions.gradient::<S, TRAINED>(simd, own, x, gradient);
            if all.has_base {
                let weight = simd.read(&values[count * S::LANES..]);
                slope = simd.multiply_add(slope, cpu::slope(simd, activation, x), weight);
            }
            simd.write(pixel, slope);
        }
    });
}
