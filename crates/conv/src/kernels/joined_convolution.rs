//! Convolutions of the channels of two tensors, which are joined a few samples at a time.

use updraft_simd::{Cut, Isa, threads, unspecified};

use super::convolution::forward_by;
use super::elementwise::Activation;
use super::geometry::{Conv3dGeometry, ConvGeometry};
use super::join::Joining;
use super::scratch::Scratch;
use super::strategy::{Pass, strategy};
use super::volume::forward_3d;

/// Numbers that are joined at a time, 16 MiB; more if a sample has more, or if every thread would not
/// have a sample.
const TOGETHER: usize = 1 << 22;

/// Convolves images whose channels are those of the first tensor, then those of the second, `channels` of
/// each.
///
/// # Panics
/// If the length of a slice differs from `geometry`, or the CPU does not have `isa`.
pub(crate) fn forward_joined(
    isa: Isa,
    geometry: &ConvGeometry,
    (x, channels): ([&[f32]; 2], [usize; 2]),
    w: &[f32],
    y: &mut [f32],
    scratch: &mut Scratch,
    asked_threads: usize,
) {
    // Chosen for the whole batch: the choice depends on the number of samples.
    let strategy = strategy(isa, geometry, Pass::Forward);
    let parts = Parts::of(geometry, channels, threads(asked_threads));
    parts.each((x, y), asked_threads, |geometry, x, y| {
        let y = Cut::new(y, geometry.output_len() / geometry.shape().batch);
        let none = Activation::Identity;
        forward_by(strategy, geometry, x, w, None, none, y, scratch, asked_threads);
    });
}

/// The same of volumes.
///
/// # Panics
/// As [`forward_joined`].
pub(crate) fn forward_joined_3d(
    isa: Isa,
    geometry: &Conv3dGeometry,
    (x, channels): ([&[f32]; 2], [usize; 2]),
    w: &[f32],
    y: &mut [f32],
    scratch: &mut Scratch,
    asked_threads: usize,
) {
    // One sample is enough: the threads share its slices.
    Parts::of(geometry, channels, 1).each((x, y), asked_threads, |geometry, x, y| {
        let none = Activation::Identity;
        forward_3d(isa, geometry, x, w, None, none, y, scratch, asked_threads);
    });
}

/// The samples in parts.
struct Parts<const D: usize> {
    geometry: ConvGeometry<D>,
    channels: [usize; 2],
    /// Samples of a part, but for the last.
    samples: usize,
}

impl<const D: usize> Parts<D> {
    fn of(geometry: &ConvGeometry<D>, channels: [usize; 2], least: usize) -> Self {
        let shape = geometry.shape();
        assert_eq!(channels[0] + channels[1], shape.channels[0], "channels of the input");
        let of_sample = geometry.input_len() / shape.batch.max(1);
        let samples = (TOGETHER / of_sample.max(1)).max(least).clamp(1, shape.batch.max(1));
        Self { geometry: *geometry, channels, samples }
    }

    /// Convolves part by part, with the geometry, the joined input and the output of each.
    fn each(
        &self,
        (x, y): ([&[f32]; 2], &mut [f32]),
        asked_threads: usize,
        mut convolve: impl FnMut(&ConvGeometry<D>, &[f32], &mut [f32]),
    ) {
        let batch = self.geometry.shape().batch;
        let pixels = self.geometry.shape().input.iter().product::<usize>();
        assert_eq!(y.len(), self.geometry.output_len(), "numbers of the output");
        for (x, channels) in x.iter().zip(self.channels) {
            assert_eq!(x.len(), batch * channels * pixels, "numbers of the input");
        }
        let of_sample = self.channels.iter().sum::<usize>() * pixels;
        let mut memory = unspecified(Vec::new(), self.samples.min(batch) * of_sample);
        for first in (0..batch).step_by(self.samples) {
            let samples = self.samples.min(batch - first);
            let joining = Joining { batch: samples, channels: self.channels, pixels };
            let joined = &mut memory[..joining.len()];
            let [a, b] = [0, 1].map(|of| {
                let sample = self.channels[of] * pixels;
                &x[of][first * sample..][..samples * sample]
            });
            joining.join_into([a, b], Cut::new(joined, pixels), asked_threads);
            let geometry = self.geometry.with_batch(samples);
            let sample = self.geometry.output_len() / batch;
            convolve(&geometry, joined, &mut y[first * sample..][..samples * sample]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::{ConvShape, forward};

    fn numbers(count: usize) -> Vec<f32> {
        (0..count).map(|i| (i as f32 * 0.37).sin()).collect()
    }

    /// Parts of one sample and of two threads' samples, with a smaller last one, and one part of all.
    #[test]
    fn parts_give_the_bits_of_the_whole() {
        for (side, batch, threads, parts) in [(512, 3, 1, 3), (512, 3, 2, 2), (16, 5, 2, 1)] {
            let channels = [16, 16];
            let shape =
                ConvShape { padding: [1; 2], ..ConvShape::new(batch, [32, 8], [side; 2], [3; 2]) };
            let geometry = ConvGeometry::try_new(shape).expect("a geometry");
            let whole = numbers(geometry.input_len());
            let [a, b] = [0, 16].map(|first| {
                let planes = whole.chunks(side * side).enumerate();
                let own = planes.filter(|(plane, _)| (first..first + 16).contains(&(plane % 32)));
                own.flat_map(|(_, plane)| plane.iter().copied()).collect::<Vec<_>>()
            });
            let w = numbers(geometry.weight_len());
            let count = Parts::of(&geometry, channels, threads).samples;
            assert_eq!(batch.div_ceil(count), parts);
            for isa in Isa::BASES.into_iter().filter(|isa| isa.is_available()) {
                let [mut of_parts, mut of_whole] =
                    [(); 2].map(|()| vec![f32::NAN; geometry.output_len()]);
                let mut scratch = Scratch::new();
                let x = ([&a[..], &b[..]], channels);
                forward_joined(isa, &geometry, x, &w, &mut of_parts, &mut scratch, threads);
                forward(isa, &geometry, &whole, &w, None, &mut of_whole, &mut scratch, threads);
                let bits = |of: &[f32]| of.iter().map(|y| y.to_bits()).collect::<Vec<_>>();
                assert!(bits(&of_parts) == bits(&of_whole), "{isa} {side} {threads}");
            }
        }
    }

    #[test]
    fn volumes_of_two_tensors_are_those_of_their_channels() {
        let shape = ConvShape { padding: [1; 3], ..ConvShape::new(3, [3, 4], [5, 6, 7], [3; 3]) };
        let geometry = Conv3dGeometry::try_new(shape).expect("a geometry");
        let (whole, w) = (numbers(geometry.input_len()), numbers(geometry.weight_len()));
        let planes = |of: &[usize]| {
            let chosen = whole.chunks(5 * 6 * 7).enumerate().filter(|(i, _)| of.contains(&(i % 3)));
            chosen.flat_map(|(_, plane)| plane.iter().copied()).collect::<Vec<_>>()
        };
        let [a, b] = [planes(&[0]), planes(&[1, 2])];
        let isa = Isa::detect();
        let [mut of_parts, mut of_whole] = [(); 2].map(|()| vec![f32::NAN; geometry.output_len()]);
        let mut scratch = Scratch::new();
        let x = ([&a[..], &b[..]], [1, 2]);
        forward_joined_3d(isa, &geometry, x, &w, &mut of_parts, &mut scratch, 2);
        let none = Activation::Identity;
        forward_3d(isa, &geometry, &whole, &w, None, none, &mut of_whole, &mut scratch, 2);
        assert_eq!(of_parts, of_whole);
    }

    #[test]
    fn an_empty_batch_has_no_results() {
        let shape = ConvShape::new(0, [3, 4], [5; 3], [3; 3]);
        let geometry = Conv3dGeometry::try_new(shape).expect("a geometry");
        let w = numbers(geometry.weight_len());
        let x = ([&[][..]; 2], [1, 2]);
        forward_joined_3d(Isa::detect(), &geometry, x, &w, &mut [], &mut Scratch::new(), 2);
    }
}
