//! The peak memory of an epoch, of this process and of the device.

use std::time::Duration;

use burn::tensor::Device;
use serde_json::{Value, json};
use updraft_device::{PeakSampler, memory};

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
}

impl PeakMemory {
    pub(crate) fn start(device: &Device) -> Result<Self, RunError> {
        let sampler = PeakSampler::start(device, INTERVAL)?;
        Ok(Self { device: device.clone(), sampler, most_resident_bytes: None })
    }

    /// Ends an epoch and returns its fields, in bytes, `null` if the system does not report them;
    /// starts the next.
    pub(crate) fn epoch(&mut self) -> Result<[(&'static str, Value); 5], RunError> {
        let next = PeakSampler::start(&self.device, INTERVAL)?;
        let peak = std::mem::replace(&mut self.sampler, next).stop()?;
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
