//! Functions of one code: a table of 256 codes.

use cubecl::prelude::*;

use super::device_kernel::DeviceKernel;
use super::layout::{packed_table, words_of};
use super::tiles::{cubes, unit_index, units};
use super::words::Words;

/// A table of 256 codes on a device.
#[derive(Debug)]
pub(crate) struct CubeTable {
    table: Words,
    /// Words of a sample.
    words: usize,
}

impl CubeTable {
    /// For tensors `[channels, pixels]`.
    pub(crate) fn new(client: &Client, [channels, pixels]: [usize; 2], codes: &[u8; 256]) -> Self {
        let table = Words::upload(client, &packed_table(codes));
        Self { table, words: pixels * words_of(channels) }
    }
}

impl DeviceKernel for CubeTable {
    fn run(&self, client: &Client, x: &[&Words], y: &Words, samples: usize) {
        let all = samples * self.words;
        codes_of_table::launch(
            client,
            cubes(all),
            units(),
            AddressType::U32,
            x[0].arg(),
            self.table.arg(),
            y.arg(),
            all as u32,
        );
    }
}

/// The entry of a code.
#[cube]
pub(super) fn entry_of(code: u32, table: &[u32]) -> u32 {
    (table[(code / 4u32) as usize] >> (code % 4u32 * 8u32)) & 255u32
}

#[cube(launch, address_type = "dynamic")]
fn codes_of_table(x: &[u32], table: &[u32], y: &mut [u32], all: u32) {
    let index = unit_index();
    if index < all {
        let given = x[index as usize];
        let mut codes = 0u32.runtime();
        #[unroll]
        for lane in 0..4usize {
            let code = (given >> comptime!(8 * lane as u32)) & 255u32;
            let found = entry_of(code, table);
            codes |= found << comptime!(8 * lane as u32);
        }
        y[index as usize] = codes;
    }
}

#[cfg(test)]
mod tests {
    use super::super::on_devices::{bytes, computed, on_each};
    use super::*;

    #[test]
    fn every_code_becomes_its_entry() {
        let table: [u8; 256] = std::array::from_fn(|code| (code * 167 + 13) as u8);
        for (channels, pixels) in [(1, 1), (7, 61), (256, 3)] {
            let x = bytes(1, 2 * channels * pixels);
            let right: Vec<u8> = x.iter().map(|&x| table[usize::from(x)]).collect();
            on_each(|client| {
                let kernel = CubeTable::new(client, [channels, pixels], &table);
                let y = computed(client, &kernel, &[(&x, channels)], [pixels, channels], 2);
                assert_eq!(y, right, "{channels}×{pixels}");
            });
        }
    }
}
