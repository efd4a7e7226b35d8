//! Tests of kernels on every GPU that is found, adapters that are emulated on the processor included.

use cubecl::prelude::Client;

use super::device_kernel::DeviceKernel;
use super::layout::{packed, unpacked, words_of};
use super::words::Words;
use crate::scheme::ActivationScheme;
use crate::weights::QuantizedWeights;

/// Runs a test on each device; nothing else uses them meanwhile. Without a device it passes.
#[cfg(feature = "cube")]
pub(super) fn on_each(test: impl Fn(&Client)) {
    let devices = updraft_testing::gpus();
    for device in devices.iter() {
        test(&crate::module::client_of(device).expect("it is a GPU"));
    }
}

/// Nothing: a build without burn's backends finds no device.
#[cfg(not(feature = "cube"))]
pub(super) fn on_each(_: impl Fn(&Client)) {}

/// Pseudorandom words.
pub(super) fn words(seed: u32, count: usize) -> Vec<u32> {
    let mut state = seed.wrapping_mul(2_654_435_761) | 1;
    let next = || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        state
    };
    std::iter::repeat_with(next).take(count).collect()
}

/// Pseudorandom codes.
pub(super) fn bytes(seed: u32, count: usize) -> Vec<u8> {
    words(seed, count).into_iter().map(|word| (word >> 11) as u8).collect()
}

/// Pseudorandom weights, whose sums differ by channel in bias and scale.
pub(super) fn weights_of(len: usize, outputs: usize, input: ActivationScheme) -> QuantizedWeights {
    let values = bytes(2, len).into_iter().map(|byte| byte as i8).collect();
    let bias = (0..outputs as i32).map(|n| (n - 3) * 1001).collect();
    let scales = (0..outputs).map(|n| 0.001 + 0.0001 * n as f32).collect();
    QuantizedWeights::try_new(values, scales, bias, input).expect("sums fit")
}

/// The codes that a kernel computes from codes `[pixels, channels]`, given with their channels, as
/// one of `[pixels, channels]`.
pub(super) fn computed(
    client: &Client,
    kernel: &dyn DeviceKernel,
    x: &[(&[u8], usize)],
    [pixels, channels]: [usize; 2],
    samples: usize,
) -> Vec<u8> {
    let upload = |&(codes, channels): &(&[u8], usize)| dirty(client, codes, channels);
    let x: Vec<Words> = x.iter().map(upload).collect();
    let x: Vec<&Words> = x.iter().collect();
    // Bytes that a kernel does not write would show.
    let len = samples * pixels * words_of(channels);
    let y = Words::upload(client, &vec![0xA5A5_A5A5; len]);
    kernel.run(client, &x, &y, samples);
    unpacked(&y.read(client).expect("the device works"), channels)
}

/// Codes whose words have other bytes beyond the last channel.
fn dirty(client: &Client, codes: &[u8], channels: usize) -> Words {
    let mut words = packed(codes, channels);
    if !channels.is_multiple_of(4) {
        let beyond = u32::MAX << (8 * (channels % 4));
        let each = words_of(channels);
        words
            .iter_mut()
            .skip(each - 1)
            .step_by(each)
            .for_each(|word| *word |= 0xC3C3_C3C3 & beyond);
    }
    Words::upload(client, &words)
}
