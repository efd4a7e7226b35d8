//! The division of a parameter into cubes.

use cubecl::prelude::*;

/// Units of a cube: as many as every GPU has.
pub(super) const UNITS: u32 = 256;

/// Numbers of a unit.
pub(super) const TURNS: usize = 4;

/// Numbers of a cube.
pub(super) const NUMBERS: usize = TURNS * UNITS as usize;

/// Cubes along an axis that every device can launch: WebGPU's lower limit of
/// `maxComputeWorkgroupsPerDimension`.
const MOST_CUBES: usize = 65535;

/// Shared memory of a cube that every GPU has, in bytes: no kernel here uses it, but devices that
/// lack it are no GPUs.
const SHARED_BYTES: usize = 16384;

/// Whether a device's cubes are as large as those of the kernels.
pub(crate) fn run_on(client: &Client) -> bool {
    let hardware = &client.properties().hardware;
    hardware.max_units_per_cube >= UNITS && hardware.max_shared_memory_size >= SHARED_BYTES
}

/// The cubes of a launch for a number of numbers, in the order of [`cube_along`].
pub(super) fn cubes(len: usize) -> CubeCount {
    let count = len.div_ceil(NUMBERS);
    let second = count.clamp(1, MOST_CUBES);
    let number = |count: usize| u32::try_from(count).expect("as few cubes as there are numbers");
    CubeCount::Static(1, number(second), number(count.div_ceil(second)))
}

/// The units of a cube.
pub(super) fn units() -> CubeDim {
    CubeDim::new_1d(UNITS)
}

/// The type of an index into a parameter, also beyond its end, where the last cubes begin.
pub(super) fn address(len: usize) -> AddressType {
    AddressType::from_len(len + MOST_CUBES * NUMBERS)
}

/// The length of a parameter as an argument of kernels.
///
/// # Panics
/// If it is above 2³².
pub(super) fn length(len: usize) -> u32 {
    u32::try_from(len).expect("a parameter on a GPU has at most 2^32 numbers")
}

/// The index of a cube; it may be beyond the last one that has work.
#[cube]
pub(super) fn cube_along() -> u32 {
    CUBE_POS_Z * CUBE_COUNT_Y + CUBE_POS_Y
}

/// The index of the first number of a unit; the others follow, each [`UNITS`] after the last.
#[cube]
pub(super) fn first_number() -> usize {
    let cube = cube_along();
    cube as usize * comptime!(NUMBERS) + UNIT_POS_X as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_has_a_unit_and_no_axis_has_more_cubes_than_devices_allow() {
        for len in
            [1, NUMBERS, NUMBERS + 1, MOST_CUBES * NUMBERS, MOST_CUBES * NUMBERS + 1, 1 << 31]
        {
            let CubeCount::Static(1, second, third) = cubes(len) else { panic!("static") };
            let most = [second, third].into_iter().max().expect("two");
            assert!(most as usize <= MOST_CUBES, "{len}");
            let all = second as usize * third as usize;
            assert!(all * NUMBERS >= len, "{len}");
            // The last cubes of the last row have no work; no whole row is without.
            assert!((third as usize - 1) * second as usize * NUMBERS < len, "{len}");
        }
    }
}
