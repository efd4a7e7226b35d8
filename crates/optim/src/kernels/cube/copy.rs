//! A copy of numbers whose memory something else holds.

use cubecl::prelude::*;

use super::units::{TURNS, UNITS, address, cubes, first_number, length, units};

/// Copies at least one number.
pub(crate) fn copy(client: &Client, len: usize, from: BufferArg, to: BufferArg) {
    copy_numbers::launch(client, cubes(len), units(), address(len), from, to, length(len));
}

#[cube(launch, address_type = "dynamic")]
fn copy_numbers(from: &[f32], to: &mut [f32], len: u32) {
    let start = first_number();
    #[unroll]
    for turn in 0..TURNS {
        let at = start + comptime!(turn * UNITS as usize);
        if at < len as usize {
            to[at] = from[at];
        }
    }
}
