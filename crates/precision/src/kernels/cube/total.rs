//! The sum over the units of a cube.

use cubecl::prelude::*;

use super::units::UNITS;

/// The sum of the numbers of all units, by pairs; every unit of the cube calls it once.
#[cube]
pub(super) fn total(of_unit: f32) -> f32 {
    let mut sums = Shared::<[f32]>::new_slice(comptime!(UNITS as usize));
    sums[UNIT_POS_X as usize] = of_unit;
    sync_cube();
    #[unroll]
    for level in 0..8u32 {
        let half = comptime!(UNITS >> (level + 1));
        if UNIT_POS_X < half {
            let other = sums[(UNIT_POS_X + half) as usize];
            sums[UNIT_POS_X as usize] += other;
        }
        sync_cube();
    }
    sums[0usize]
}
