//! The division of sums into cubes.

use cubecl::prelude::*;

/// Units of a cube: as many as every GPU has, and a power of two.
pub(super) const UNITS: u32 = 256;

/// Parts of a gradient's sum: as many as a cube has units, so that one cube adds them.
pub(crate) const PARTS: usize = UNITS as usize;

/// Numbers of a cube at least, if the gradient has as many.
const NUMBERS: usize = 4096;

/// Cubes along an axis that every device can launch: WebGPU's lower limit of
/// `maxComputeWorkgroupsPerDimension`.
const MOST_CUBES: usize = 65535;

/// Shared memory of a cube that every GPU has, in bytes.
const SHARED_BYTES: usize = 16384;

/// Whether a device's cubes are as large as those of the kernels.
pub(crate) fn run_on(client: &Client) -> bool {
    let hardware = &client.properties().hardware;
    hardware.max_units_per_cube >= UNITS && hardware.max_shared_memory_size >= SHARED_BYTES
}

/// The cubes that add the squares of a gradient of at least one number.
pub(super) fn cubes_of_gradient(len: usize) -> CubeCount {
    let cubes = len.div_ceil(NUMBERS).min(PARTS);
    CubeCount::Static(u32::try_from(cubes).expect("a few"), 1, 1)
}

/// One cube for each gradient, in the order of [`cube_along`].
pub(super) fn cube_per_gradient(gradients: usize) -> CubeCount {
    let second = gradients.clamp(1, MOST_CUBES);
    let number = |count: usize| u32::try_from(count).expect("as few cubes as there are gradients");
    CubeCount::Static(1, number(second), number(gradients.div_ceil(second)))
}

/// The units of a cube.
pub(super) fn units() -> CubeDim {
    CubeDim::new_1d(UNITS)
}

/// The type of an index into a number of numbers, also by as much beyond their end as all units
/// are.
pub(super) fn address(len: usize) -> AddressType {
    AddressType::from_len(len + PARTS * UNITS as usize)
}

/// A size as an argument of kernels.
///
/// # Panics
/// If it is above 2³².
pub(super) fn size(size: usize) -> u32 {
    u32::try_from(size).expect("a gradient on a GPU has at most 2^32 numbers")
}

/// The index of a cube; it may be beyond the last one that has work.
#[cube]
pub(super) fn cube_along() -> u32 {
    CUBE_POS_Z * CUBE_COUNT_Y + CUBE_POS_Y
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gradient_has_at_most_as_many_cubes_as_parts() {
        let cubes = |len| {
            let CubeCount::Static(cubes, 1, 1) = cubes_of_gradient(len) else { panic!("static") };
            cubes as usize
        };
        let lengths = [1, NUMBERS, NUMBERS + 1, 10 * NUMBERS, PARTS * NUMBERS, 1 << 32];
        assert_eq!(lengths.map(cubes), [1, 1, 2, 10, PARTS, PARTS]);
    }

    #[test]
    fn every_gradient_has_a_cube_and_no_axis_more_than_devices_allow() {
        for gradients in [1, 2, MOST_CUBES, MOST_CUBES + 1] {
            let CubeCount::Static(1, second, third) = cube_per_gradient(gradients) else {
                panic!("static")
            };
            assert!(second as usize <= MOST_CUBES && third <= 2);
            assert!(second as usize * third as usize >= gradients);
        }
    }
}
