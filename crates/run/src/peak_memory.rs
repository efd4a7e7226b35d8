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
}

impl PeakMemory {
    pub(crate) fn start(device: &Device) -> Result<Self, RunError> {
        Ok(Self { device: device.clone(), sampler: PeakSampler::start(device, INTERVAL)? })
    }

    /// Ends an epoch and returns its fields, in bytes, `null` if the system does not report them;
    /// starts the next.
    pub(crate) fn epoch(&mut self) -> Result<[(&'static str, Value); 5], RunError> {
        let next = PeakSampler::start(&self.device, INTERVAL)?;
        let peak = std::mem::replace(&mut self.sampler, next).stop()?;
        let memory = memory();
        Ok([
            ("resident_bytes", json!(memory.resident_bytes)),
            ("epoch_peak_resident_bytes", json!(peak.resident_bytes)),
            ("peak_resident_bytes", json!(memory.peak_resident_bytes)),
            ("device_peak_in_use_bytes", json!(peak.in_use_bytes)),
            ("device_peak_reserved_bytes", json!(peak.reserved_bytes)),
        ])
    }
}
