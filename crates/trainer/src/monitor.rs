//! Timing of the phases of a step.

use std::time::Instant;

use burn::tensor::Device;
use serde::{Deserialize, Serialize};

/// When the clock of the phases is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Timing {
    /// When the work was submitted. This has no cost; on an asynchronous device the time of a phase
    /// appears in the phase that waits first, which is the backward pass with its read.
    #[default]
    Submitted,
    /// When the work was done: each phase ends with a synchronization, which may cost time.
    Done,
}

/// Microseconds of the phases of one update, summed over its batches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct StepTimes {
    /// Waiting for batches.
    pub data_wait_us: u64,
    /// Making tensors of the batches on the device, and of a batch that is moved ahead during the
    /// update.
    pub copy_us: u64,
    /// Forward pass and loss.
    pub forward_us: u64,
    /// Backward pass, gradient norm, and the read of loss, score and norm, which waits for both. Of
    /// several updates that are read together, only the last includes the read.
    pub backward_us: u64,
    /// Waiting for the other ranks: the exchange of losses and counts, which is short, ends when the
    /// last rank arrives.
    pub rank_wait_us: u64,
    /// Exchanging gradients and statistics with the other ranks: reading them from the device,
    /// packing, sums, and writing them back.
    pub exchange_us: u64,
    /// Unscaling, clipping and the optimizer.
    pub optimizer_us: u64,
}

impl StepTimes {
    /// Adds another step's times.
    pub fn add(&mut self, other: &Self) {
        self.data_wait_us += other.data_wait_us;
        self.copy_us += other.copy_us;
        self.forward_us += other.forward_us;
        self.backward_us += other.backward_us;
        self.rank_wait_us += other.rank_wait_us;
        self.exchange_us += other.exchange_us;
        self.optimizer_us += other.optimizer_us;
    }

    /// The phases in their order, with their names.
    #[must_use]
    pub fn phases(&self) -> [(&'static str, u64); 7] {
        [
            ("data wait", self.data_wait_us),
            ("copy", self.copy_us),
            ("forward", self.forward_us),
            ("backward", self.backward_us),
            ("rank wait", self.rank_wait_us),
            ("exchange", self.exchange_us),
            ("optimizer", self.optimizer_us),
        ]
    }
}

/// The times of one rank in an epoch, and its parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct RankTimes {
    /// Microseconds of the training part of the epoch, which are nearly the same on all ranks.
    pub train_us: u64,
    /// Where they went. The slowest rank is the one that waits least for the others.
    #[serde(flatten)]
    pub times: StepTimes,
    /// A fingerprint of the parameters after the epoch: 48 bits that are the same on all ranks,
    /// unless devices of several kinds round differently.
    pub parameters: u64,
}

/// A clock that is read at the end of each phase.
pub(crate) struct PhaseClock<'a> {
    device: &'a Device,
    timing: Timing,
    last: Instant,
}

impl<'a> PhaseClock<'a> {
    /// Starts now.
    pub(crate) fn start(device: &'a Device, timing: Timing) -> Self {
        Self { device, timing, last: Instant::now() }
    }

    /// Begins the next phase now: the time before belongs to no phase.
    pub(crate) fn restart(&mut self) {
        self.last = Instant::now();
    }

    /// Ends a phase; returns the microseconds since the last one ended.
    pub(crate) fn lap_us(&mut self) -> u64 {
        if self.timing == Timing::Done {
            // An error of the device is reported at the next read of a tensor.
            let _ = self.device.sync();
        }
        let now = Instant::now();
        let lap = now.duration_since(self.last);
        self.last = now;
        lap.as_micros().try_into().unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_add_phase_by_phase() {
        let one = StepTimes {
            data_wait_us: 1,
            copy_us: 2,
            forward_us: 3,
            backward_us: 4,
            rank_wait_us: 5,
            exchange_us: 6,
            optimizer_us: 7,
        };
        let mut sum = one;
        sum.add(&one);
        assert_eq!(sum.phases().map(|(_, us)| us), [2, 4, 6, 8, 10, 12, 14]);
    }
}
