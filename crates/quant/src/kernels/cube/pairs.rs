//! Functions of two codes, such as sums and products of two tensors: a table of 65,536 codes, which
//! the kernel for CPUs computes.

use cubecl::prelude::*;

use super::device_kernel::DeviceKernel;
use super::layout::{packed_table, words_of};
use super::tiles::{cubes, unit_index, units};
use super::words::Words;

/// A function of the codes of two tensors, on a device.
#[derive(Debug)]
pub(crate) struct CubePairs {
    table: Words,
    /// Words of a pixel, and pixels of a sample.
    words: usize,
    pixels: usize,
    /// Whether the second tensor has one pixel, for all of the first.
    is_repeated: bool,
}

impl CubePairs {
    /// A function that `compute` evaluates for pairs of codes, for tensors `[channels, pixels]`.
    pub(crate) fn new(
        client: &Client,
        [channels, pixels]: [usize; 2],
        is_repeated: bool,
        compute: impl FnOnce(&[u8], &[u8], &mut [u8]),
    ) -> Self {
        let (a, b): (Vec<u8>, Vec<u8>) =
            (0..=255).flat_map(|a| (0..=255).map(move |b| (a, b))).unzip();
        let mut y = vec![0; a.len()];
        compute(&a, &b, &mut y);
        let table = Words::upload(client, &packed_table(&y));
        Self { table, words: words_of(channels), pixels, is_repeated }
    }
}

impl DeviceKernel for CubePairs {
    fn run(&self, client: &Client, x: &[&Words], y: &Words, samples: usize) {
        let all = samples * self.pixels * self.words;
        codes_of_pairs::launch(
            client,
            cubes(all),
            units(),
            AddressType::U32,
            x[0].arg(),
            x[1].arg(),
            self.table.arg(),
            y.arg(),
            all as u32,
            self.words as u32,
            self.pixels as u32,
            self.is_repeated,
        );
    }
}

#[cube(launch, address_type = "dynamic")]
fn codes_of_pairs(
    a: &[u32],
    b: &[u32],
    table: &[u32],
    y: &mut [u32],
    all: u32,
    words: u32,
    pixels: u32,
    #[comptime] is_repeated: bool,
) {
    let index = unit_index();
    if index < all {
        let mut other = index;
        if comptime!(is_repeated) {
            other = index / (pixels * words) * words + index % words;
        }
        let of_a = a[index as usize];
        let of_b = b[other as usize];
        let mut codes = 0u32.runtime();
        #[unroll]
        for lane in 0..4usize {
            let first = (of_a >> comptime!(8 * lane as u32)) & 255u32;
            let second = (of_b >> comptime!(8 * lane as u32)) & 255u32;
            let four = table[(first * 64u32 + second / 4u32) as usize];
            let found = (four >> (second % 4u32 * 8u32)) & 255u32;
            codes |= found << comptime!(8 * lane as u32);
        }
        y[index as usize] = codes;
    }
}

#[cfg(test)]
mod tests {
    use super::super::on_devices::{computed, on_each};
    use super::*;
    use crate::kernels::reference;
    use crate::kernels::{Isa, QuantizedAdd};
    use crate::scheme::{ActivationScheme, OutputScheme};

    #[test]
    fn every_pair_of_codes_has_the_sum_of_the_reference() {
        let scheme = |scale, zero| ActivationScheme::try_new(scale, zero).expect("valid");
        let inputs = [scheme(0.013, 12), scheme(0.4, 255)];
        let output = OutputScheme::rectified(scheme(0.21, 130));
        let (a, b): (Vec<u8>, Vec<u8>) =
            (0..=255).flat_map(|a| (0..=255).map(move |b| (a, b))).unzip();
        let right: Vec<u8> =
            a.iter().zip(&b).map(|(&a, &b)| reference::add([a, b], inputs, output)).collect();
        on_each(|client| {
            let add = QuantizedAdd::new(inputs, output);
            let run = |a: &[u8], b: &[u8], y: &mut [u8]| add.run(Isa::Portable, a, b, y);
            let kernel = CubePairs::new(client, [32, 1024], false, run);
            let y = computed(client, &kernel, &[(&a, 32), (&b, 32)], [1024, 32], 2);
            assert_eq!(y, right);
        });
    }

    #[test]
    fn a_single_pixel_is_repeated_for_each_of_its_own_sample() {
        let a: Vec<u8> = (0..30).collect();
        let b: Vec<u8> = (100..110).collect();
        on_each(|client| {
            let difference = |a: &[u8], b: &[u8], y: &mut [u8]| {
                y.iter_mut().zip(a.iter().zip(b)).for_each(|(y, (a, b))| *y = b.wrapping_sub(*a));
            };
            let kernel = CubePairs::new(client, [5, 3], true, difference);
            let y = computed(client, &kernel, &[(&a, 5), (&b, 5)], [3, 5], 2);
            for (at, y) in y.into_iter().enumerate() {
                assert_eq!(usize::from(y), 100 + at / 15 * 5 + at % 5 - at, "at {at}");
            }
        });
    }
}
