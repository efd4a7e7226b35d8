//! The peak of memory during a piece of work, sampled at an interval.

use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use burn::tensor::Device;
use serde::Serialize;

use crate::error::DeviceError;
use crate::memory::{device_memory, memory};

/// Sampled peaks in bytes; `None` where the value is not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Peak {
    /// RAM of this process.
    pub resident_bytes: Option<u64>,
    /// Device memory of live tensors.
    pub in_use_bytes: Option<u64>,
    /// Device memory reserved by the allocator.
    pub reserved_bytes: Option<u64>,
    /// Number of samples; a peak between two of them is missed.
    pub samples: usize,
}

/// Samples the memory of this process and of a device at a fixed interval, on a thread of its own.
///
/// [`Memory::peak_resident_bytes`](crate::Memory::peak_resident_bytes) never decreases; this is the
/// peak of one part of a program.
#[derive(Debug)]
pub struct PeakSampler {
    stop: Sender<()>,
    thread: JoinHandle<Peak>,
}

impl PeakSampler {
    /// Takes the first sample now, and one after every `interval`.
    ///
    /// # Errors
    /// [`DeviceError::Sampler`] if the thread cannot be started.
    pub fn start(device: &Device, interval: Duration) -> Result<Self, DeviceError> {
        let (stop, stopped) = channel();
        let device = device.clone();
        let look = move || {
            let mut peak = Peak::default();
            loop {
                peak.see(&device);
                match stopped.recv_timeout(interval) {
                    Err(RecvTimeoutError::Timeout) => {}
                    Ok(()) | Err(RecvTimeoutError::Disconnected) => break,
                }
            }
            peak.see(&device);
            peak
        };
        let thread = Builder::new().name("memory-peak".to_owned()).spawn(look);
        let thread = thread.map_err(|cause| DeviceError::Sampler {
            reason: format!(
                "its thread cannot be started: {cause}; raise the limit of memory or of processes"
            ),
        })?;
        Ok(Self { stop, thread })
    }

    /// Takes a last sample and returns the peaks.
    ///
    /// # Errors
    /// [`DeviceError::Sampler`] if the backend panicked.
    pub fn stop(self) -> Result<Peak, DeviceError> {
        // A thread that is gone already is reported by `join`.
        let _ = self.stop.send(());
        let reason = || "the backend failed when it was asked".to_owned();
        self.thread.join().map_err(|_| DeviceError::Sampler { reason: reason() })
    }
}

impl Peak {
    fn see(&mut self, device: &Device) {
        let held = device_memory(device);
        // `None` is less than any number.
        self.resident_bytes = self.resident_bytes.max(memory().resident_bytes);
        self.in_use_bytes = self.in_use_bytes.max(held.in_use_bytes);
        self.reserved_bytes = self.reserved_bytes.max(held.reserved_bytes);
        self.samples += 1;
    }
}
