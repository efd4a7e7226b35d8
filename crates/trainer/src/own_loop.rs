//! Times, throughput and memory of a training loop that is not a [`Run`](crate::Run).

use std::fmt;
use std::time::{Duration, Instant};

use burn::tensor::Device;
use updraft_device::{DeviceError, Peak, PeakSampler, memory};

use crate::monitor::{StepTimes, Timing};
use crate::quantile::quantile;

/// The interval at which memory is sampled.
const INTERVAL: Duration = Duration::from_millis(20);

/// A larger share of the time for data, copies or work outside of the phases is the bottleneck.
const LARGE: f64 = 0.15;

/// A larger share of the time for the optimizer is the bottleneck.
const LARGE_OPTIMIZER: f64 = 0.3;

/// The share of the estimated largest batch that is recommended.
const HEAD_ROOM: f64 = 0.8;

/// A phase of a training step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Phase {
    /// Waiting for a batch.
    Data,
    /// Making tensors of it on the device.
    Copy,
    /// Forward pass and loss.
    Forward,
    /// Backward pass.
    Backward,
    /// The optimizer.
    Optimizer,
}

/// Measures a training loop of your own: its phases, throughput and memory.
///
/// Wrap the phases of a step with [`phase`](Self::phase), end each step with
/// [`end_step`](Self::end_step), and read the [`report`](Self::report). The first step is reported
/// apart. The crate's page has an example.
#[derive(Debug)]
pub struct LoopMonitor {
    device: Device,
    timing: Timing,
    started: Instant,
    times: StepTimes,
    first: Option<Duration>,
    steps: Vec<Duration>,
    /// Of all steps after the first.
    total: StepTimes,
    samples: usize,
    largest_batch: usize,
    /// Memory of the process before the first step.
    base_bytes: Option<u64>,
    sampler: PeakSampler,
}

impl LoopMonitor {
    /// Starts now, before the first step.
    ///
    /// With [`Timing::Done`] each phase ends when the device is done; with [`Timing::Submitted`] the
    /// time of a phase appears in the phase that waits for it on an asynchronous device.
    ///
    /// # Errors
    /// [`DeviceError::Sampler`] if the thread that samples memory cannot be started.
    pub fn start(device: &Device, timing: Timing) -> Result<Self, DeviceError> {
        Ok(Self {
            device: device.clone(),
            timing,
            started: Instant::now(),
            times: StepTimes::default(),
            first: None,
            steps: Vec::new(),
            total: StepTimes::default(),
            samples: 0,
            largest_batch: 0,
            base_bytes: memory().resident_bytes,
            sampler: PeakSampler::start(device, INTERVAL)?,
        })
    }

    /// Runs a phase of the current step and adds its time; returns what `work` returns.
    pub fn phase<T>(&mut self, phase: Phase, work: impl FnOnce() -> T) -> T {
        let started = Instant::now();
        let result = work();
        if self.timing == Timing::Done {
            // An error of the device is reported at the next read of a tensor.
            let _ = self.device.sync();
        }
        let us = started.elapsed().as_micros().try_into().unwrap_or(u64::MAX);
        *match phase {
            Phase::Data => &mut self.times.data_wait_us,
            Phase::Copy => &mut self.times.copy_us,
            Phase::Forward => &mut self.times.forward_us,
            Phase::Backward => &mut self.times.backward_us,
            Phase::Optimizer => &mut self.times.optimizer_us,
        } += us;
        result
    }

    /// Ends a step of so many samples; the next one begins now.
    pub fn end_step(&mut self, samples: usize) {
        let took = self.started.elapsed();
        self.started = Instant::now();
        let times = std::mem::take(&mut self.times);
        self.largest_batch = self.largest_batch.max(samples);
        if self.first.is_none() {
            self.first = Some(took);
            return;
        }
        self.samples += samples;
        self.steps.push(took);
        self.total.add(&times);
    }

    /// Ends the measurement.
    ///
    /// # Errors
    /// [`DeviceError::Sampler`] if memory could not be sampled.
    pub fn report(self) -> Result<LoopReport, DeviceError> {
        let peak = self.sampler.stop()?;
        let mut seconds: Vec<f64> = self.steps.iter().map(Duration::as_secs_f64).collect();
        let total_s: f64 = seconds.iter().sum();
        seconds.sort_by(f64::total_cmp);
        Ok(LoopReport {
            steps: seconds.len(),
            samples_per_s: self.samples as f64 / total_s,
            first_step_s: self.first.map_or(f64::NAN, |first| first.as_secs_f64()),
            step_p50_s: quantile(&seconds, 0.5),
            step_p95_s: quantile(&seconds, 0.95),
            times: self.total,
            total_s,
            peak,
            base_bytes: self.base_bytes,
            largest_batch: self.largest_batch,
        })
    }
}

/// What a [`LoopMonitor`] measured.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct LoopReport {
    /// Steps after the first; the numbers below are theirs, and NaN if there are none.
    pub steps: usize,
    /// Samples a second.
    pub samples_per_s: f64,
    /// Seconds of the first step, with what is compiled, tuned and allocated for it.
    pub first_step_s: f64,
    /// The median of the seconds of a step.
    pub step_p50_s: f64,
    /// Their 95th percentile.
    pub step_p95_s: f64,
    /// The time of each phase, summed over the steps.
    pub times: StepTimes,
    /// Seconds of all steps, with what is in no phase.
    pub total_s: f64,
    /// The peak of memory during all steps.
    pub peak: Peak,
    base_bytes: Option<u64>,
    largest_batch: usize,
}

impl LoopReport {
    /// What takes the time.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        let share = |us: u64| us as f64 * 1e-6 / self.total_s;
        let phases = self.times.phases().map(|(_, us)| us).iter().sum();
        let rest = 1.0 - share(phases);
        let StepTimes { data_wait_us, copy_us, optimizer_us, .. } = self.times;
        let bottlenecks = [
            (Bottleneck::Data, share(data_wait_us), LARGE),
            (Bottleneck::Copy, share(copy_us), LARGE),
            (Bottleneck::Outside, rest, LARGE),
            (Bottleneck::Optimizer, share(optimizer_us), LARGE_OPTIMIZER),
        ];
        let large = bottlenecks.into_iter().filter(|(_, share, large)| share > large);
        let largest = large.max_by(|(_, a, _), (_, b, _)| a.total_cmp(b));
        let computing = share(self.times.forward_us + self.times.backward_us);
        let (bottleneck, share) =
            largest.map_or((Bottleneck::Model, computing), |(which, share, _)| (which, share));
        Verdict { bottleneck, share }
    }

    /// An estimate of the largest batch whose step stays within so many bytes of memory of the
    /// process, with 20 % of it left free; `None` if the memory is not known or did not grow.
    ///
    /// It takes memory to grow with the batch in proportion, from what the process had before the
    /// first step. [`BatchSearch`](crate::BatchSearch) tries sizes instead.
    #[must_use]
    pub fn batch_within(&self, bytes: u64) -> Option<usize> {
        let (base, peak) = (self.base_bytes? as f64, self.peak.resident_bytes? as f64);
        let a_sample = (peak - base) / self.largest_batch as f64;
        let batch = HEAD_ROOM * (bytes as f64 - base) / a_sample;
        (a_sample > 0.0 && batch >= 1.0).then_some(batch as usize)
    }
}

/// What takes the time of a training loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Bottleneck {
    /// Waiting for batches.
    Data,
    /// Copying them to the device.
    Copy,
    /// Work that is in no phase.
    Outside,
    /// The optimizer.
    Optimizer,
    /// The model: its forward and backward passes.
    Model,
}

/// The bottleneck with its share of the time; its text says what helps.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Verdict {
    /// What takes the time.
    pub bottleneck: Bottleneck,
    /// Its share.
    pub share: f64,
}

impl fmt::Display for Verdict {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent = 100.0 * self.share;
        let text = match self.bottleneck {
            Bottleneck::Data => {
                "of the time waits for data: load with more workers, or keep decoded samples in \
                 memory (docs/guide/data-loading.md)"
            }
            Bottleneck::Copy => {
                "of the time copies batches to the device: keep the data there, or copy while the \
                 device computes (docs/guide/data-loading.md)"
            }
            Bottleneck::Outside => {
                "of the time is in no phase: measure more of the loop, and log less often"
            }
            Bottleneck::Optimizer => {
                "of the time is the optimizer's: use larger batches (docs/guide/batch-size.md)"
            }
            Bottleneck::Model => {
                "of the time is the model's: compare kernels, precision and batch size \
                 (docs/guide/options.md)"
            }
        };
        write!(formatter, "{percent:.0} % {text}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(times: StepTimes, total_s: f64) -> LoopReport {
        LoopReport {
            steps: 1,
            samples_per_s: 1.0,
            first_step_s: 1.0,
            step_p50_s: 1.0,
            step_p95_s: 1.0,
            times,
            total_s,
            peak: Peak { resident_bytes: Some(1100), ..Peak::default() },
            base_bytes: Some(100),
            largest_batch: 10,
        }
    }

    #[test]
    fn the_verdict_names_the_largest_share_above_its_limit() {
        let ms = |data: u64, copy: u64, model: u64, optimizer: u64| StepTimes {
            data_wait_us: 1000 * data,
            copy_us: 1000 * copy,
            forward_us: 500 * model,
            backward_us: 500 * model,
            optimizer_us: 1000 * optimizer,
            rank_wait_us: 0,
            exchange_us: 0,
        };
        for (times, expected, share) in [
            (ms(40, 0, 50, 10), Bottleneck::Data, 0.4),
            (ms(20, 30, 40, 10), Bottleneck::Copy, 0.3),
            (ms(0, 0, 60, 40), Bottleneck::Optimizer, 0.4),
            (ms(10, 10, 50, 25), Bottleneck::Model, 0.5),
            (ms(0, 0, 50, 0), Bottleneck::Outside, 0.5),
        ] {
            let verdict = report(times, 0.1).verdict();
            assert_eq!(verdict.bottleneck, expected);
            assert!((verdict.share - share).abs() < 1e-9, "{verdict:?}");
            assert!(verdict.to_string().starts_with(&format!("{:.0} % of", 100.0 * share)));
        }
    }

    #[test]
    fn the_estimated_batch_follows_from_the_memory_of_a_sample() {
        // 100 bytes a sample; 80 % of what 2100 bytes leave are 1600.
        let mut report = report(StepTimes::default(), 1.0);
        assert_eq!(report.batch_within(2100), Some(16));
        assert_eq!(report.batch_within(100), None);
        report.peak.resident_bytes = Some(100);
        assert_eq!(report.batch_within(2100), None);
    }
}
