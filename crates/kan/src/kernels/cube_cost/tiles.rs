//! The sizes of cubes that every device has.

/// Units of a cube along its first axis. Not the size of a plane, which no kernel relies on.
pub(crate) const LANES: u32 = 32;

/// Bytes of shared memory that every device has: WebGPU's lower limit of
/// `maxComputeWorkgroupStorageSize`.
pub(crate) const SHARED_BYTES: usize = 16384;

/// Units of the largest cube, which every GPU has.
pub(crate) const MOST_UNITS: u32 = 256;
