//! Sums of the gradients of parts.

use cubecl::prelude::*;

use crate::kernels::cube::tiles::{cube_along, cubes};
use crate::kernels::cube_cost::convolution::UNITS;

/// Adds so many numbers of a part to the total.
pub(crate) fn add_part(client: &Client, count: usize, part: BufferArg, total: BufferArg) {
    let units = UNITS as usize;
    total_plus_part::launch(
        client,
        cubes(1, count.div_ceil(units)),
        CubeDim::new_1d(UNITS),
        AddressType::from_len(count),
        part,
        total,
        u32::try_from(count).expect("at most 2^32 weights"),
    );
}

#[cube(launch, address_type = "dynamic")]
fn total_plus_part(part: &[f32], total: &mut [f32], count: u32) {
    let at = cube_along() * UNITS + UNIT_POS_X;
    if at < count {
        total[at as usize] += part[at as usize];
    }
}
