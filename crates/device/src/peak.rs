//! The most memory that was held while something ran, by looking again and again.

use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use burn::tensor::Device;
use serde::Serialize;

use crate::error::DeviceError;
use crate::memory::{device_memory, memory};

/// The most that was seen, in bytes; `None` where nobody tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Peak {
    /// What this process held in RAM.
    pub resident_bytes: Option<u64>,
    /// What live tensors used on the device.
    pub in_use_bytes: Option<u64>,
    /// What the allocator had taken from the device.
    pub reserved_bytes: Option<u64>,
    /// How often it was looked; a peak between two looks is not seen.
    pub samples: usize,
}

/// Looks at the memory of this process and of a device at a steady pace, from a thread of its own.
///
/// Unlike [`Memory::peak_resident_bytes`](crate::Memory::peak_resident_bytes), which never falls,
/// it knows the peak of one stretch of a program.
#[derive(Debug)]
pub struct PeakSampler {
    stop: Sender<()>,
    thread: JoinHandle<Peak>,
}

impl PeakSampler {
    /// Starts to look, now and then after every `interval`.
    ///
    /// # Errors
    /// [`DeviceError::Sampler`] if the system gives no thread.
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
        let thread = thread.map_err(|error| DeviceError::Sampler { reason: error.to_string() })?;
        Ok(Self { stop, thread })
    }

    /// Looks a last time and says what the most was.
    ///
    /// # Errors
    /// [`DeviceError::Sampler`] if the backend failed to answer.
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
