//! The rates of a device, and the least time of kernels at them.

use std::fmt;

use crate::kernels::cube_cost::KernelCost;

/// The rates of a device, such as `updraft_device::measure` returns them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DeviceLimits {
    /// Floating-point operations a second, in the numbers of a form's products.
    pub flops_per_s: f64,
    /// Bytes read plus bytes written a second.
    pub bytes_per_s: f64,
}

/// The rate that limits a kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Limit {
    /// Floating-point operations.
    Arithmetic,
    /// Bytes of the device's memory.
    Memory,
}

impl fmt::Display for Limit {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Arithmetic => "arithmetic",
            Self::Memory => "memory",
        })
    }
}

/// The least time of some work, without its launches.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LeastTime {
    /// In seconds.
    pub seconds: f64,
    /// The rate that it follows from, for most of that time.
    pub limit: Limit,
}

impl KernelCost {
    /// The time at the rates of a device: that of the operations or that of the bytes, the longer one.
    ///
    /// The two overlap in the best case: a kernel that does this work is not faster at these rates.
    ///
    /// # Source
    /// Williams, Waterman and Patterson 2009, Roofline: an insightful visual performance model for
    /// multicore architectures, Communications of the ACM 52(4).
    #[must_use]
    pub fn least_time(&self, limits: DeviceLimits) -> LeastTime {
        let arithmetic = self.flops as f64 / limits.flops_per_s;
        let memory = (self.bytes_read + self.bytes_written) as f64 / limits.bytes_per_s;
        if arithmetic >= memory {
            LeastTime { seconds: arithmetic, limit: Limit::Arithmetic }
        } else {
            LeastTime { seconds: memory, limit: Limit::Memory }
        }
    }
}

/// The time of kernels one after the other at the rates of a device.
#[must_use]
pub fn least_time(kernels: &[KernelCost], limits: DeviceLimits) -> LeastTime {
    let mut seconds = 0.0;
    let mut of_memory = 0.0;
    for least in kernels.iter().map(|kernel| kernel.least_time(limits)) {
        seconds += least.seconds;
        if least.limit == Limit::Memory {
            of_memory += least.seconds;
        }
    }
    let is_memory = 2.0 * of_memory > seconds;
    LeastTime { seconds, limit: if is_memory { Limit::Memory } else { Limit::Arithmetic } }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kernel(bytes: u64, flops: u64) -> KernelCost {
        KernelCost {
            name: "a kernel",
            launches: 1,
            bytes_read: bytes / 4,
            bytes_written: bytes / 4 * 3,
            flops,
            cubes: None,
        }
    }

    #[test]
    fn the_longer_of_both_times_is_the_least_time() {
        let limits = DeviceLimits { flops_per_s: 1000.0, bytes_per_s: 10.0 };
        let of = |bytes, flops| kernel(bytes, flops).least_time(limits);
        assert_eq!(of(40, 3000), LeastTime { seconds: 4.0, limit: Limit::Memory });
        assert_eq!(of(40, 5000), LeastTime { seconds: 5.0, limit: Limit::Arithmetic });
    }

    #[test]
    fn kernels_run_one_after_the_other_and_the_limit_is_that_of_most_of_their_time() {
        let limits = DeviceLimits { flops_per_s: 1000.0, bytes_per_s: 10.0 };
        let kernels = [kernel(40, 3000), kernel(40, 5000), kernel(0, 1000)];
        // 4 s of memory, then 5 s and 1 s of arithmetic.
        assert_eq!(
            least_time(&kernels, limits),
            LeastTime { seconds: 10.0, limit: Limit::Arithmetic }
        );
        assert_eq!(
            least_time(&kernels[..1], limits),
            LeastTime { seconds: 4.0, limit: Limit::Memory }
        );
    }
}
