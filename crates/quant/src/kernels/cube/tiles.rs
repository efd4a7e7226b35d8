//! The division of a kernel's work into cubes: a unit for each index.

use cubecl::prelude::*;

/// Units of a cube.
pub(crate) const MOST_UNITS: u32 = 256;

/// Cubes along an axis that every device can launch: WebGPU's lower limit of
/// `maxComputeWorkgroupsPerDimension`.
const MOST_CUBES: usize = 65535;

/// Whether a device's cubes are as large as those of the kernels.
pub(crate) fn runs_on(client: &Client) -> bool {
    client.properties().hardware.max_units_per_cube >= MOST_UNITS
}

/// Cubes with at least so many units.
pub(super) fn cubes(units: usize) -> CubeCount {
    let all = units.div_ceil(MOST_UNITS as usize);
    let first = all.clamp(1, MOST_CUBES);
    let number = |count: usize| u32::try_from(count).expect("parts of a batch have few cubes");
    CubeCount::Static(number(first), number(all.div_ceil(first)), 1)
}

/// The units of each.
pub(super) fn units() -> CubeDim {
    CubeDim::new_1d(MOST_UNITS)
}

/// The index of a unit; it may be beyond the last one that has work.
#[cube]
pub(super) fn unit_index() -> u32 {
    (CUBE_POS_Y * CUBE_COUNT_X + CUBE_POS_X) * MOST_UNITS + UNIT_POS_X
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_axis_has_more_cubes_than_devices_allow() {
        for (units, expected) in [
            (1, [1, 1]),
            (256, [1, 1]),
            (257, [2, 1]),
            (256 * 65535, [65535, 1]),
            (256 * 65535 + 1, [65535, 2]),
        ] {
            let CubeCount::Static(first, second, 1) = cubes(units) else { panic!("static") };
            assert_eq!([first, second], expected, "{units}");
        }
    }
}
