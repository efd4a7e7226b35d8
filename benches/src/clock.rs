//! The two clocks of a measurement.

use std::time::Duration;

use anyhow::Result;
use rustix::time::{ClockId, clock_gettime};

/// A moment on the monotonic clock, and the processor time that all threads had used by then.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Moment {
    wall: Duration,
    cpu: Duration,
}

impl Moment {
    /// Now.
    pub(crate) fn now() -> Self {
        Self { wall: read(ClockId::Monotonic), cpu: read(ClockId::ProcessCPUTime) }
    }

    /// Wall and processor time since, in nanoseconds.
    pub(crate) fn elapsed_ns(self) -> (u64, u64) {
        let now = Self::now();
        let nanos = |duration: Duration| u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        (nanos(now.wall.saturating_sub(self.wall)), nanos(now.cpu.saturating_sub(self.cpu)))
    }
}

fn read(clock: ClockId) -> Duration {
    let time = clock_gettime(clock);
    // Both clocks count up from zero.
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// Computes `times` times between two reads of the clocks.
pub(crate) fn time(times: u64, mut once: impl FnMut() -> Result<()>) -> Result<(u64, u64)> {
    let start = Moment::now();
    for _ in 0..times {
        once()?;
    }
    Ok(start.elapsed_ns())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sleep_passes_on_the_wall_clock() {
        let sleep = || {
            std::thread::sleep(Duration::from_millis(20));
            Ok(())
        };
        let (wall, _) = time(2, sleep).expect("sleeping does not fail");
        assert!(wall >= 40_000_000, "{wall}");
    }

    #[test]
    fn work_costs_processor_time() {
        let work = || {
            std::hint::black_box((0..1_000_000_u64).fold(1, |a, b| std::hint::black_box(a ^ b)));
            Ok(())
        };
        let (_, cpu) = time(3, work).expect("work does not fail");
        assert!(cpu > 100_000, "{cpu}");
    }

    #[test]
    fn a_failure_ends_the_timing() {
        assert!(time(1, || anyhow::bail!("no")).is_err());
    }
}
