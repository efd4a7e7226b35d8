//! The time and the memory of any piece of work on a device.

use std::time::{Duration, Instant};

use burn::tensor::Device;
use updraft_device::{DeviceError, Peak, PeakSampler, clean_up};

use crate::quantile::quantile;

/// The interval at which memory is sampled.
const INTERVAL: Duration = Duration::from_millis(20);

/// How often work is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BenchmarkSettings {
    /// Runs before the clock counts, at least 1; the first of them is reported apart.
    pub warm_up: usize,
    /// Runs that are timed, at least 1.
    pub runs: usize,
}

/// Three runs to warm up, and twenty that are timed.
impl Default for BenchmarkSettings {
    fn default() -> Self {
        Self { warm_up: 3, runs: 20 }
    }
}

/// What [`benchmark`] measured.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Benchmark {
    /// Samples a second, over all timed runs.
    pub samples_per_s: f64,
    /// Seconds of the very first run, with what is compiled, tuned and allocated for it.
    pub first_s: f64,
    /// The median of the seconds of a run.
    pub p50_s: f64,
    /// Their 95th percentile.
    pub p95_s: f64,
    /// The peak of memory during all runs.
    pub peak: Peak,
}

/// Times a closure that computes `samples` samples on a device, and waits for the device after each
/// run.
///
/// The closure's result is dropped after the clock was read, so that it is not optimized away. Before
/// the first run the device gets back what its allocator keeps of earlier work, which would count for
/// the peak.
///
/// # Errors
/// [`DeviceError::Sampler`] if memory cannot be sampled, [`DeviceError::Failed`] if the device
/// stopped computing before.
///
/// # Panics
/// If `settings` has no warm-up or no run.
///
/// # Example
/// ```
/// use burn::nn::LinearConfig;
/// use burn::tensor::{Device, Tensor};
/// use updraft_trainer::{BenchmarkSettings, benchmark};
///
/// let device = Device::flex();
/// let model = LinearConfig::new(64, 8).init(&device);
/// let input = Tensor::<2>::ones([32, 64], &device);
/// let settings = BenchmarkSettings { warm_up: 1, runs: 5 };
/// let found = benchmark(&device, 32, settings, || model.forward(input.clone()))?;
/// println!("{:.0} samples a second, p95 {:.3} ms", found.samples_per_s, 1e3 * found.p95_s);
/// assert!(found.samples_per_s > 0.0 && found.p50_s <= found.p95_s);
/// # Ok::<(), updraft_device::DeviceError>(())
/// ```
pub fn benchmark<T>(
    device: &Device,
    samples: usize,
    settings: BenchmarkSettings,
    mut work: impl FnMut() -> T,
) -> Result<Benchmark, DeviceError> {
    let BenchmarkSettings { warm_up, runs } = settings;
    assert!(warm_up > 0 && runs > 0, "a benchmark needs at least one warm-up and one timed run");
    let mut timed = || {
        let started = Instant::now();
        let result = work();
        // An error of the device is reported at the next read of a tensor.
        let _ = device.sync();
        let seconds = started.elapsed().as_secs_f64();
        drop(std::hint::black_box(result));
        seconds
    };
    clean_up(device)?;
    let sampler = PeakSampler::start(device, INTERVAL)?;
    let first_s = timed();
    for _ in 1..warm_up {
        timed();
    }
    let mut seconds: Vec<f64> = (0..runs).map(|_| timed()).collect();
    let total: f64 = seconds.iter().sum();
    seconds.sort_by(f64::total_cmp);
    Ok(Benchmark {
        samples_per_s: (samples * runs) as f64 / total,
        first_s,
        p50_s: quantile(&seconds, 0.5),
        p95_s: quantile(&seconds, 0.95),
        peak: sampler.stop()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_run_is_apart_and_the_rate_is_that_of_the_others() {
        let mut count = 0;
        let work = || {
            count += 1;
            std::thread::sleep(Duration::from_millis(if count == 1 { 60 } else { 2 }));
        };
        let settings = BenchmarkSettings { warm_up: 2, runs: 5 };
        let found = benchmark(&Device::flex(), 10, settings, work).expect("measured");
        assert_eq!(count, 7);
        assert!(found.first_s >= 0.06 && found.p50_s >= 0.002, "{found:?}");
        // Slower only where the machine is busy.
        assert!(found.samples_per_s <= 5000.0 && found.p50_s <= found.p95_s, "{found:?}");
    }
}
