//! Convolutions of images that add a residual before they activate.

use updraft_simd::{Cut, Isa, over, threads};

use super::convolution::{check_lens, dense_by, forward_by};
use super::elementwise::Activation;
use super::geometry::ConvGeometry;
use super::sample_end::SampleEnd;
use super::scratch::Scratch;
use super::strategy::{Algorithm, Pass, strategy};

/// `y = activation(conv(x) + residual)`: the residual has for each sample as many numbers as `y`, or
/// several times as many, which are all added, one after the other.
///
/// Dense convolutions add while a sample's results are in the cache; depthwise ones, and those of
/// products in bf16, in a second pass.
///
/// # Panics
/// If the length of a slice differs from `geometry`, or the CPU does not have `isa`.
#[expect(clippy::too_many_arguments, reason = "every argument is one thing a caller decides")]
pub(crate) fn forward_residual(
    isa: Isa,
    geometry: &ConvGeometry,
    x: &[f32],
    w: &[f32],
    bias: Option<&[f32]>,
    (residual, activation): (&[f32], Activation),
    y: &mut [f32],
    scratch: &mut Scratch,
    asked_threads: usize,
) {
    let (len, batch) = (geometry.output_len(), geometry.shape().batch);
    assert_eq!(y.len(), len, "numbers of the output");
    let fits = !residual.is_empty() && residual.len().is_multiple_of(len);
    assert!(fits, "numbers of the residual: {} are no multiple of {len}", residual.len());
    let end = SampleEnd::of(activation).with_residual(residual);
    let by = strategy(isa, geometry, Pass::Forward);
    match by.algorithm {
        Algorithm::DirectByChannel | Algorithm::DirectByPixel | Algorithm::Winograd => {
            check_lens(geometry, x, w, bias);
            let y = Cut::new(y, len / batch);
            dense_by(by, geometry, x, w, bias, end, y, scratch, asked_threads);
        }
        Algorithm::DepthwiseByChannel | Algorithm::DepthwiseByPixel | Algorithm::Bf16Tiles => {
            let none = Activation::Identity;
            let sums = Cut::new(&mut *y, len / batch);
            forward_by(by, geometry, x, w, bias, none, sums, scratch, asked_threads);
            let vectors = isa.vectors();
            let samples = Cut::new(y, len / batch);
            over(samples, &mut vec![(); threads(asked_threads)], |index, y, ()| {
                end.finish(vectors, [index, batch], y);
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use updraft_testing::scattered;

    use super::*;
    use crate::kernels::{ConvShape, forward};

    /// By pixel, by channel, by Winograd's algorithm in groups, and one channel a group.
    fn geometries() -> [ConvGeometry; 4] {
        let shape = ConvShape { padding: [1; 2], ..ConvShape::new(3, [4, 6], [9, 18], [3; 2]) };
        let strided = ConvShape { stride: [2; 2], ..shape };
        let grouped = ConvShape { channels: [32, 34], groups: 2, ..shape };
        let depthwise = ConvShape { channels: [24; 2], groups: 24, ..shape };
        let [shape, strided, grouped, depthwise] = [shape, strided, grouped, depthwise]
            .map(|shape| ConvGeometry::try_new(shape).expect("valid"));
        let grouped = grouped.with_algorithm(Algorithm::Winograd).expect("it applies");
        [shape, strided, grouped, depthwise]
    }

    #[test]
    fn the_residuals_are_added_to_the_sums_before_the_activation() {
        for geometry in geometries() {
            let ConvShape { batch, channels: [_, outputs], .. } = *geometry.shape();
            let (x, w) = (scattered(1, geometry.input_len()), scattered(2, geometry.weight_len()));
            let (bias, len) = (scattered(3, outputs), geometry.output_len());
            for isa in Isa::BASES.into_iter().filter(|isa| isa.is_available()) {
                let mut sums = vec![f32::NAN; len];
                let s = &mut Scratch::new();
                forward(isa, &geometry, &x, &w, Some(&bias), &mut sums, s, 1);
                for (terms, activation) in
                    [(1, Activation::Identity), (1, Activation::Relu), (3, Activation::Relu)]
                {
                    let residual = scattered(4, terms * len);
                    let each = len / batch;
                    let right = sums.iter().enumerate().map(|(at, sum)| {
                        let (sample, at) = (at / each, at % each);
                        let of_term = |term| residual[(sample * terms + term) * each + at];
                        let sum = (0..terms).fold(*sum, |sum, term| sum + of_term(term));
                        if activation == Activation::Relu { sum.max(0.0) } else { sum }
                    });
                    let right: Vec<f32> = right.collect();
                    for threads in [1, 2] {
                        let mut y = vec![f32::NAN; len];
                        let end = (&residual[..], activation);
                        forward_residual(
                            isa,
                            &geometry,
                            &x,
                            &w,
                            Some(&bias),
                            end,
                            &mut y,
                            s,
                            threads,
                        );
                        assert_eq!(y, right, "{isa} {terms} {threads} {:?}", geometry.shape());
                    }
                }
            }
        }
    }

    #[test]
    #[should_panic(expected = "numbers of the residual: 15 are no multiple of 16")]
    fn a_residual_of_another_length_is_refused() {
        let geometry = ConvGeometry::try_new(ConvShape::new(1, [1, 1], [4, 4], [1, 1]));
        let (x, end) = ([0.0; 16], (&[0.0; 15][..], Activation::Relu));
        let (mut y, s) = ([0.0; 16], &mut Scratch::new());
        let isa = Isa::Portable;
        forward_residual(isa, &geometry.expect("valid"), &x, &[1.0], None, end, &mut y, s, 1);
    }
}
