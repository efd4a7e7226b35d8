//! The gradient of a convolution's bias.

use updraft_simd::{Cut, Isa, over, threads};

use super::norm::plane;
use super::scratch::Scratch;

/// The gradient of a bias: the sum of each channel of `[batch, channels, pixels]`.
///
/// Summed in f64 over feature maps that are summed in f32 by 32 lanes.
///
/// # Panics
/// If the CPU does not have `isa`.
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
    #[test]
    fn every_channel_is_summed_over_samples_and_pixels() {
        let dy: Vec<f32> = (0..3 * 5 * 48).map(|i| (i as f32 * 0.7).sin()).collect();
        let mut right = [0.0_f64; 5];
        for (i, &value) in dy.iter().enumerate() {
            right[i / 48 % 5] += f64::from(value);
        }
        for isa in Isa::BASES.into_iter().filter(|isa| isa.is_available()) {
            let mut alone = Vec::new();
            for threads in [1, 3] {
                let mut dbias = [f32::NAN; 5];
                channel_sums(isa, 48, &dy, &mut dbias, &mut Scratch::new(), threads);
                for (given, right) in dbias.iter().zip(right) {
                    assert!((f64::from(*given) - right).abs() < 1e-5, "{isa}: {given} {right}");
                }
                alone.push(dbias);
            }
            assert_eq!(alone[0], alone[1]);
        }
    }
}
