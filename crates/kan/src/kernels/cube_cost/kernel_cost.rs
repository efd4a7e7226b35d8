//! The work of a kernel for GPUs.

/// The work of a kernel in a pass, over all of its launches.
///
/// Bytes count each number of a buffer once a launch, as if the caches of a device held the rest;
/// the kernel asks for more, because cubes that need the same numbers all load them.
/// Operations are those of the source: products of whole tiles, also where a tile extends beyond the
/// layer, evaluated functions, and sums. A multiply-add counts two, a function such as `exp` one,
/// comparisons, selections and changes of sign none. Compilers merge some of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct KernelCost {
    /// Its function in `src/kernels/cube/`; `matmul` and `cast` are burn's operations.
    pub name: &'static str,
    /// How often it is launched.
    pub launches: u64,
    /// Bytes that it reads from the device's memory.
    pub bytes_read: u64,
    /// Bytes that it writes there.
    pub bytes_written: u64,
    /// Floating-point operations, of all numbers.
    pub flops: u64,
    /// The cubes of all launches; `None` for operations of burn, which chooses them.
    pub cubes: Option<Cubes>,
}

impl KernelCost {
    /// The work of launches that compute so many groups of channels instead of one.
    pub(crate) fn of_groups(self, count: u64) -> Self {
        Self {
            bytes_read: count * self.bytes_read,
            bytes_written: count * self.bytes_written,
            flops: count * self.flops,
            cubes: self.cubes.map(|cubes| Cubes { count: count * cubes.count, ..cubes }),
            ..self
        }
    }
}

/// The cubes of a kernel, which other languages call workgroups or thread blocks.
///
/// A multiprocessor of a device runs as many of them at a time as their threads, shared memory and
/// registers fit: [`occupancy`](Self::occupancy).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Cubes {
    /// Cubes with work, of all launches.
    pub count: u64,
    /// Threads of a cube.
    pub threads_per_cube: u32,
    /// Bytes of shared memory of a cube.
    pub shared_bytes: u64,
}
