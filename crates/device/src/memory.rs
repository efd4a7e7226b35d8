//! Memory of this process, of the machine and on a device.

use std::fs;

use burn::tensor::Device;
use serde::Serialize;
use sysinfo::{MemoryRefreshKind, RefreshKind, System};

use crate::error::DeviceError;

/// Memory in bytes; `None` where the system does not report it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Memory {
    /// Total memory of the machine, or the limit of this process's control group.
    pub total_bytes: Option<u64>,
    /// The free part of it.
    pub available_bytes: Option<u64>,
    /// RAM of this process.
    pub resident_bytes: Option<u64>,
    /// The peak of that.
    pub peak_resident_bytes: Option<u64>,
}

/// Returns the memory of the machine and of this process.
///
/// Resident sizes come from `/proc/self/status`, and are `None` on systems without it.
#[must_use]
pub fn memory() -> Memory {
    let system = System::new_with_specifics(
        RefreshKind::nothing().with_memory(MemoryRefreshKind::nothing().with_ram()),
    );
    let known = |bytes: u64| (bytes > 0).then_some(bytes);
    let (mut total, mut available) = (None, None);
    if let Ok(system) = system {
        total = known(system.total_memory());
        available = known(system.available_memory());
        if let Some(group) = system.cgroup_limits() {
            total = confined(total, group.total_memory);
            available = confined(available, group.free_memory);
        }
    }
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    Memory {
        total_bytes: total,
        available_bytes: available,
        resident_bytes: status_bytes(&status, "VmRSS:"),
        peak_resident_bytes: status_bytes(&status, "VmHWM:"),
    }
}

/// The smaller of the machine's memory and the control group's limit, in bytes.
///
/// A group without a limit reports more than the machine has.
fn confined(machine: Option<u64>, group: u64) -> Option<u64> {
    Some(machine.map_or(group, |machine| machine.min(group)))
}

/// Memory of this process on a device, in bytes; `None` where the backend does not report it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct DeviceMemory {
    /// Used by live tensors.
    pub in_use_bytes: Option<u64>,
    /// Reserved by the allocator: memory in use, and pages kept for reuse.
    pub reserved_bytes: Option<u64>,
}

/// Returns the memory of this process on a device.
///
/// flex uses the process's own allocator and reports nothing: see
/// [`Memory::resident_bytes`].
pub(crate) fn device_memory(device: &Device) -> DeviceMemory {
    let usage = device.memory_pool_usage();
    DeviceMemory {
        in_use_bytes: usage.map(|usage| usage.bytes_in_use),
        reserved_bytes: usage.map(|usage| usage.bytes_reserved),
    }
}

/// Waits for a device, asks its allocator to return unused memory, and returns what is left.
///
/// Live tensors stay; the allocator decides how much it returns.
///
/// # Errors
/// [`DeviceError::Failed`] if the device stopped computing.
pub fn clean_up(device: &Device) -> Result<DeviceMemory, DeviceError> {
    synchronize(device)?;
    device.memory_cleanup();
    synchronize(device)?;
    Ok(device_memory(device))
}

/// Waits until a device has finished its work.
pub(crate) fn synchronize(device: &Device) -> Result<(), DeviceError> {
    device.sync().map_err(|error| DeviceError::Failed {
        device: format!("{device:?}"),
        reason: error.to_string(),
    })
}

/// Processor time this process has used on all cores, in seconds; `None` without `/proc`.
#[must_use]
pub fn cpu_seconds() -> Option<f64> {
    // The process name, in parentheses, may hold spaces.
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    let ticks: u64 = fields.nth(11)?.parse().ok()?;
    let system_ticks: u64 = fields.next()?.parse().ok()?;
    Some((ticks + system_ticks) as f64 / TICKS_PER_S)
}

/// `USER_HZ`, the unit of `/proc/self/stat`: 100 on every Linux architecture but Alpha.
const TICKS_PER_S: f64 = 100.0;

fn status_bytes(status: &str, key: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(key))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_line_is_read_in_bytes() {
        let status = "Name:\tx\nVmHWM:\t  2048 kB\n";
        assert_eq!(status_bytes(status, "VmHWM:"), Some(2048 * 1024));
        assert_eq!(status_bytes(status, "VmRSS:"), None);
    }

    #[test]
    fn a_control_group_confines_the_machine_and_never_enlarges_it() {
        assert_eq!(confined(Some(24 << 30), 8 << 30), Some(8 << 30));
        assert_eq!(confined(Some(24 << 30), 1 << 62), Some(24 << 30));
        assert_eq!(confined(None, 8 << 30), Some(8 << 30));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_peak_sees_what_was_touched() {
        let before = memory().peak_resident_bytes.expect("Linux tells");
        let touched = vec![1_u8; 256 << 20];
        assert_eq!(touched.iter().map(|&byte| u64::from(byte)).sum::<u64>(), 256 << 20);
        let after = memory();
        assert!(after.peak_resident_bytes.expect("Linux tells") >= before.max(256 << 20));
        assert!(after.available_bytes <= after.total_bytes);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn processor_time_grows_with_work() {
        let before = cpu_seconds().expect("Linux tells");
        let mut sum = 0_u64;
        while cpu_seconds().expect("Linux tells") < before + 0.03 {
            sum = std::hint::black_box(sum.wrapping_mul(31).wrapping_add(1));
        }
        assert!(cpu_seconds().expect("Linux tells") > before);
    }
}
