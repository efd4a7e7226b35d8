//! The division of a pass into cubes.

use cubecl::prelude::*;

pub(super) use crate::kernels::cube_cost::tiles::LANES;
use crate::kernels::cube_cost::tiles::{MOST_UNITS, SHARED_BYTES};

/// Cubes along an axis that every device can launch: WebGPU's lower limit of
/// `maxComputeWorkgroupsPerDimension`.
const MOST_CUBES: usize = 65535;

/// Whether a device's cubes are as large as those of the kernels.
pub(crate) fn run_on(client: &Client) -> bool {
    let hardware = &client.properties().hardware;
    hardware.max_units_per_cube >= MOST_UNITS && hardware.max_shared_memory_size >= SHARED_BYTES
}

/// `across` cubes along the first axis, and at least `along` along the two others, in the order of
/// [`cube_along`].
pub(super) fn cubes(across: usize, along: usize) -> CubeCount {
    let second = along.clamp(1, MOST_CUBES);
    let number = |count: usize| u32::try_from(count).expect("as few cubes as there are sizes");
    CubeCount::Static(number(across), number(second), number(along.div_ceil(second)))
}

/// The index of a cube along the two last axes; it may be beyond the last one that has work.
#[cube]
pub(super) fn cube_along() -> u32 {
    CUBE_POS_Z * CUBE_COUNT_Y + CUBE_POS_Y
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_axis_has_more_cubes_than_devices_allow() {
        for (along, expected) in [
            (0, [1, 0]),
            (1, [1, 1]),
            (65535, [65535, 1]),
            (65536, [65535, 2]),
            (1 << 20, [65535, 17]),
        ] {
            let CubeCount::Static(3, second, third) = cubes(3, along) else { panic!("static") };
            assert_eq!([second, third], expected);
        }
    }
}
