//! The gradient of a convolution's bias.

use updraft_simd::{Cut, Isa, over, threads};

use super::geometry::ConvGeometry;
use super::norm::plane;
use super::scratch::Scratch;

/// The bias's gradient: `dbias[o] = Σ dy[·, o, ·, ·]`.
///
/// Summed in f64 over feature maps that are summed in f32 by 32 lanes.
///
/// # Panics
/// If the length of a slice differs from `geometry`, or the CPU does not have `isa`.
pub fn bias_gradient(
    isa: Isa,
    geometry: &ConvGeometry,
    dy: &[f32],
    dbias: &mut [f32],
    scratch: &mut Scratch,
    asked_threads: usize,
) {
    let channels = geometry.shape().channels[1];
    assert_eq!(dy.len(), geometry.output_len(), "numbers of the output");
    assert_eq!(dbias.len(), channels, "one bias for each output channel");
    let pixels = geometry.output()[0] * geometry.output()[1];
    channel_sums(isa, pixels, dy, dbias, scratch, asked_threads);
}

/// The sum of each channel of `[batch, channels, pixels]`.
pub(crate) fn channel_sums(
    isa: Isa,
    pixels: usize,
    dy: &[f32],
    dbias: &mut [f32],
    scratch: &mut Scratch,
    asked_threads: usize,
) {
    let vectors = isa.vectors();
    let channels = dbias.len();
    let sums = scratch.wide(dy.len() / pixels.max(1));
    over(Cut::new(sums, 1), &mut vec![(); threads(asked_threads)], |index, sum, ()| {
        sum[0] = plane::sum(vectors, &dy[index * pixels..][..pixels]);
    });
    for (channel, dbias) in dbias.iter_mut().enumerate() {
        *dbias = sums.iter().skip(channel).step_by(channels).sum::<f64>() as f32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::ConvShape;

    #[test]
    fn every_channel_is_summed_over_samples_and_pixels() {
        let shape = ConvShape::new(3, [1, 5], [7, 9], [2, 2]);
        let geometry = ConvGeometry::try_new(shape).expect("valid");
        let dy: Vec<f32> = (0..geometry.output_len()).map(|i| (i as f32 * 0.7).sin()).collect();
        let mut right = [0.0_f64; 5];
        for (i, &value) in dy.iter().enumerate() {
            right[i / (6 * 8) % 5] += f64::from(value);
        }
        for isa in Isa::BASES.into_iter().filter(|isa| isa.is_available()) {
            let mut alone = Vec::new();
            for threads in [1, 3] {
                let mut dbias = [f32::NAN; 5];
                bias_gradient(isa, &geometry, &dy, &mut dbias, &mut Scratch::new(), threads);
                for (given, right) in dbias.iter().zip(right) {
                    assert!((f64::from(*given) - right).abs() < 1e-5, "{isa}: {given} {right}");
                }
                alone.push(dbias);
            }
            assert_eq!(alone[0], alone[1]);
        }
    }
}
