//! The division of a pass into cubes.

use cubecl::prelude::*;

/// Units of a cube: as many as every GPU has.
pub(super) const UNITS: u32 = 256;

/// Bytes of shared memory that every device has: WebGPU's lower limit of
/// `maxComputeWorkgroupStorageSize`.
const SHARED_BYTES: usize = 16384;

/// Buffers of the largest kernel, the sums of a gradient: eight, and that of its sizes. CubeCL asks
/// an adapter of wgpu for its own limits, which are above WebGPU's lower limit of eight.
const MOST_BUFFERS: u32 = 9;

/// Cubes along an axis that every device can launch: WebGPU's lower limit of
/// `maxComputeWorkgroupsPerDimension`.
const MOST_CUBES: usize = 65535;

/// Whether a device has cubes as large and buffers as many as those of the kernels.
pub(crate) fn run_on(client: &Client) -> bool {
    let hardware = &client.properties().hardware;
    hardware.max_units_per_cube >= UNITS
        && hardware.max_shared_memory_size >= SHARED_BYTES
        && hardware.max_bindings >= MOST_BUFFERS
}

/// At least `count` cubes, in the order of [`cube_index`].
pub(super) fn cubes(count: usize) -> CubeCount {
    let second = count.clamp(1, MOST_CUBES);
    let number = |count: usize| u32::try_from(count).expect("as few cubes as there are numbers");
    CubeCount::Static(1, number(second), number(count.div_ceil(second)))
}

/// The index of a cube; it may be beyond the last one that has work.
#[cube]
pub(super) fn cube_index() -> u32 {
    CUBE_POS_Z * CUBE_COUNT_Y + CUBE_POS_Y
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_axis_has_more_cubes_than_devices_allow() {
        for (count, expected) in [
            (0, [1, 0]),
            (1, [1, 1]),
            (65535, [65535, 1]),
            (65536, [65535, 2]),
            (1 << 20, [65535, 17]),
        ] {
            let CubeCount::Static(1, second, third) = cubes(count) else { panic!("static") };
            assert_eq!([second, third], expected);
        }
    }
}
