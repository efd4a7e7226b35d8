//! The cubes of a kernel that a multiprocessor of a device runs at a time.

use std::fmt;

use crate::kernels::cube_cost::Cubes;

/// Registers of a thread come in units of this size: NVIDIA's cards give a warp of 32 threads
/// registers in units of 256.
const REGISTER_UNIT: u32 = 8;

/// Shared memory of a cube comes in units of this many bytes on NVIDIA's cards of compute capability
/// 8.0 and above.
const SHARED_UNIT: u64 = 128;

/// What a multiprocessor has for the cubes that it runs at a time; AMD calls it a compute unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MultiprocessorLimits {
    /// Cubes, at most.
    pub cubes: u32,
    /// Threads of all cubes.
    pub threads: u32,
    /// Bytes of shared memory of all cubes.
    pub shared_bytes: u64,
    /// Bytes of shared memory that the device takes for each cube in addition to the kernel's.
    pub reserved_bytes: u64,
    /// Registers of 32 bits of all threads.
    pub registers: u32,
}

impl MultiprocessorLimits {
    /// Those of NVIDIA's cards by compute capability, which is 90 for 9.0; `None` for others than
    /// 8.0, 8.6, 8.9, 9.0 and 10.0.
    ///
    /// # Source
    /// NVIDIA, CUDA C++ Programming Guide, technical specifications per compute capability.
    #[must_use]
    pub const fn of_compute_capability(capability: u32) -> Option<Self> {
        let (cubes, threads, shared_kib) = match capability {
            80 => (32, 2048, 164),
            86 => (16, 1536, 100),
            89 => (24, 1536, 100),
            90 | 100 => (32, 2048, 228),
            _ => return None,
        };
        let (shared_bytes, reserved_bytes) = (shared_kib << 10, 1 << 10);
        Some(Self { cubes, threads, shared_bytes, reserved_bytes, registers: 1 << 16 })
    }
}

/// What keeps a multiprocessor from running more cubes at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OccupancyLimit {
    /// Its threads.
    Threads,
    /// Its shared memory.
    SharedMemory,
    /// Its registers.
    Registers,
    /// The number of cubes itself.
    Cubes,
}

impl fmt::Display for OccupancyLimit {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Threads => "threads",
            Self::SharedMemory => "shared memory",
            Self::Registers => "registers",
            Self::Cubes => "cubes",
        })
    }
}

/// The cubes that a multiprocessor runs at a time, if there are as many.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Occupancy {
    /// Cubes; 0 if it cannot run one.
    pub cubes: u32,
    /// Their threads over those of the multiprocessor, from 0 to 1.
    pub share: f64,
    /// What allows no more; of several the first in the order of [`OccupancyLimit`].
    pub limit: OccupancyLimit,
}

impl Cubes {
    /// How many cubes fit on a multiprocessor.
    ///
    /// It is the smallest of four numbers, rounded down, for cubes of `t` threads with `s` bytes of
    /// shared memory and `r` registers a thread: `threads / t`,
    /// `shared_bytes / (s + reserved_bytes)`, `registers / (r · t)` and `cubes`.
    /// `s + reserved_bytes` is rounded up to a multiple of 128, and `r` to a multiple of 8, as on
    /// NVIDIA's cards.
    ///
    /// The device's compiler chooses the registers; `None` leaves them out, and the result is an
    /// upper bound. `cargo xtask cuda-offline` prints them for NVIDIA's cards.
    ///
    /// # Example
    /// ```
    /// use updraft_kan::CubeForm;
    /// use updraft_kan::roofline::{LayerCost, MultiprocessorLimits, OccupancyLimit};
    /// use updraft_kan::slices::{Activation, Grid, LayerGeometry, Weights};
    ///
    /// let grid = Grid::uniform(-1.0, 1.0, 5, 3)?;
    /// let layer = LayerGeometry::try_new(grid, 512, 512, Activation::Silu)?;
    /// let weights = Weights { base: Some(&[]), scaler: Some(&[]), ..Weights::default() };
    /// let cost = LayerCost::of(CubeForm::Dense, &layer, &weights, 8192).expect("nine rows an input");
    /// // 256 threads and 18 KiB.
    /// let cubes = cost.forward[0].cubes.expect("a kernel of ours");
    /// let hopper = MultiprocessorLimits::of_compute_capability(90).expect("known");
    /// assert_eq!(cubes.occupancy(hopper, None).cubes, 8);
    /// // 65,536 registers are enough for the 256 threads of two such cubes.
    /// let with_registers = cubes.occupancy(hopper, Some(128));
    /// assert_eq!((with_registers.cubes, with_registers.share), (2, 0.25));
    /// assert_eq!(with_registers.limit, OccupancyLimit::Registers);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn occupancy(
        &self,
        limits: MultiprocessorLimits,
        registers_per_thread: Option<u32>,
    ) -> Occupancy {
        let shared = self.shared_bytes + limits.reserved_bytes;
        let registers = registers_per_thread.map(|registers| {
            let of_cube = u64::from(registers.next_multiple_of(REGISTER_UNIT))
                * u64::from(self.threads_per_cube);
            (OccupancyLimit::Registers, fitting(limits.registers.into(), of_cube))
        });
        let threads = fitting(limits.threads.into(), self.threads_per_cube.into());
        let by_memory = fitting(limits.shared_bytes, shared.next_multiple_of(SHARED_UNIT));
        let mut least = (OccupancyLimit::Threads, threads);
        let others = [(OccupancyLimit::SharedMemory, by_memory)].into_iter().chain(registers);
        for other in others.chain([(OccupancyLimit::Cubes, limits.cubes.into())]) {
            if other.1 < least.1 {
                least = other;
            }
        }
        let (limit, cubes) = least;
        let cubes = u32::try_from(cubes).unwrap_or(limits.cubes);
        let share =
            f64::from(cubes) * f64::from(self.threads_per_cube) / f64::from(limits.threads.max(1));
        Occupancy { cubes, share, limit }
    }
}

/// How many cubes fit that take this much each; without a bound if they take nothing.
fn fitting(all: u64, of_cube: u64) -> u64 {
    all.checked_div(of_cube).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn occupancy(threads_per_cube: u32, shared_bytes: u64, registers: Option<u32>) -> Occupancy {
        let limits = MultiprocessorLimits {
            cubes: 16,
            threads: 2048,
            shared_bytes: 100 << 10,
            reserved_bytes: 1 << 10,
            registers: 1 << 16,
        };
        Cubes { count: 1000, threads_per_cube, shared_bytes }.occupancy(limits, registers)
    }

    #[test]
    fn the_scarcest_resource_limits_the_cubes_of_a_multiprocessor() {
        for (threads, shared_bytes, registers, cubes, limit) in [
            (256, 0, None, 8, OccupancyLimit::Threads),
            (32, 0, None, 16, OccupancyLimit::Cubes),
            // 100 KiB are five times 20 KiB; a byte more takes 128 more.
            (256, 19 << 10, None, 5, OccupancyLimit::SharedMemory),
            (256, (19 << 10) + 1, None, 4, OccupancyLimit::SharedMemory),
            // 256 · 64 registers are a quarter of them; 65 count as 72.
            (256, 0, Some(64), 4, OccupancyLimit::Registers),
            (256, 0, Some(65), 3, OccupancyLimit::Registers),
            // As many threads as registers allow.
            (256, 0, Some(32), 8, OccupancyLimit::Threads),
            (256, 19 << 10, Some(128), 2, OccupancyLimit::Registers),
            // None fits.
            (4096, 0, None, 0, OccupancyLimit::Threads),
            (256, 100 << 10, None, 0, OccupancyLimit::SharedMemory),
            (1024, 0, Some(255), 0, OccupancyLimit::Registers),
        ] {
            let of = occupancy(threads, shared_bytes, registers);
            assert_eq!((of.cubes, of.limit), (cubes, limit), "{threads}, {shared_bytes}");
            assert_eq!(of.share, f64::from(cubes * threads) / 2048.0);
        }
    }

    #[test]
    fn known_cards_run_what_their_specifications_allow() {
        let of = |capability| MultiprocessorLimits::of_compute_capability(capability);
        // 48 KiB and 1 KiB each: 164 KiB have 3, 100 KiB 2, and 228 KiB 4.
        let cubes = Cubes { count: 1, threads_per_cube: 256, shared_bytes: 48 << 10 };
        let counts = [80, 86, 89, 90, 100]
            .map(|capability| cubes.occupancy(of(capability).expect("known"), None).cubes);
        assert_eq!(counts, [3, 2, 2, 4, 4]);
        // Without shared memory, threads or the number of cubes limit them.
        let small = Cubes { count: 1, threads_per_cube: 64, shared_bytes: 0 };
        let counts = [80, 86, 89, 90]
            .map(|capability| small.occupancy(of(capability).expect("known"), None).cubes);
        assert_eq!(counts, [32, 16, 24, 32]);
        assert_eq!(of(121), None);
    }
}
