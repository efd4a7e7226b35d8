//! The peak memory of an epoch, of this process and of the device.

use std::time::Duration;

use burn::tensor::Device;
use serde_json::{Value, json};
use updraft_device::{Peak, PeakSampler, memory};

use crate::error::RunError;

/// A sample takes about ten microseconds; shorter peaks may be missed.
const INTERVAL: Duration = Duration::from_millis(50);

/// Samples memory during a run.
pub(crate) struct PeakMemory {
    device: Device,
    sampler: PeakSampler,
    /// The most that any sample had. Linux counts the peak of a process inexactly, so that a sample
    /// can be above it.
    most_resident_bytes: Option<u64>,
    of_device: DevicePeak,
}

/// The peak memory of a device in a run, in bytes; `None` if its backend does not report it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct DevicePeak {
    /// Of live tensors.
    pub(crate) in_use_bytes: Option<u64>,
    /// Reserved by the allocator.
    pub(crate) reserved_bytes: Option<u64>,
}

impl DevicePeak {
    fn add(&mut self, peak: &Peak) {
        // `None` is less than any number.
        self.in_use_bytes = self.in_use_bytes.max(peak.in_use_bytes);
        self.reserved_bytes = self.reserved_bytes.max(peak.reserved_bytes);
    }
}

impl PeakMemory {
    pub(crate) fn start(device: &Device) -> Result<Self, RunError> {
        let sampler = PeakSampler::start(device, INTERVAL)?;
        let (device, of_device) = (device.clone(), DevicePeak::default());
        Ok(Self { device, sampler, most_resident_bytes: None, of_device })
    }

    /// Ends the run and returns the peak of the device over all of it.
    pub(crate) fn end(mut self) -> Result<DevicePeak, RunError> {
        self.of_device.add(&self.sampler.stop()?);
        Ok(self.of_device)
    }

    /// Ends an epoch and returns its fields, in bytes, `null` if the system does not report them;
    /// starts the next.
    pub(crate) fn epoch(&mut self) -> Result<[(&'static str, Value); 5], RunError> {
        let next = PeakSampler::start(&self.device, INTERVAL)?;
        let peak = std::mem::replace(&mut self.sampler, next).stop()?;
        self.of_device.add(&peak);
        let memory = memory();
        let seen = [self.most_resident_bytes, peak.resident_bytes, memory.peak_resident_bytes];
        self.most_resident_bytes = seen.into_iter().flatten().max();
        Ok([
            ("resident_bytes", json!(memory.resident_bytes)),
            ("epoch_peak_resident_bytes", json!(peak.resident_bytes)),
            ("peak_resident_bytes", json!(self.most_resident_bytes)),
            ("device_peak_in_use_bytes", json!(peak.in_use_bytes)),
            ("device_peak_reserved_bytes", json!(peak.reserved_bytes)),
        ])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_peak_of_a_device_is_the_largest_of_all_epochs_and_unknown_without_any() {
        let sampled =
            |in_use_bytes, reserved_bytes| Peak { in_use_bytes, reserved_bytes, ..Peak::default() };
        let mut found = DevicePeak::default();
        found.add(&sampled(None, None));
        assert_eq!(found, DevicePeak::default());
        for (in_use, reserved) in [(Some(5), Some(9)), (None, None), (Some(7), Some(8))] {
            found.add(&sampled(in_use, reserved));
        }
        assert_eq!(found, DevicePeak { in_use_bytes: Some(7), reserved_bytes: Some(9) });
    }
}
