//! Samples the load of a card during a run, on a thread of its own.

use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::Builder;
use std::time::Duration;

use serde::Serialize;
use serde_json::{Value, json};
use updraft_device::{CardLoad, MemoryOwner, Selection, card_load};
use updraft_trainer::Event;

use super::idle::{HostTimes, Idle};
use super::sums::{Activity, LoadSums, MeanLoad};

/// NVIDIA's library averages over a sixth of a second to a second.
const INTERVAL: Duration = Duration::from_millis(500);

type Read = Box<dyn FnMut() -> Option<CardLoad> + Send>;

/// Samples the load of an NVIDIA card while a run trains.
pub(crate) struct GpuLoad {
    samples: Arc<Mutex<Samples>>,
    /// Until the first sample.
    read: Option<Read>,
    interval: Duration,
    /// Updates before the first sample, in which kernels are compiled.
    left_out: u64,
    times: HostTimes,
    /// The thread ends when this is dropped.
    stop: Option<Sender<()>>,
}

#[derive(Default)]
struct Samples {
    activity: Activity,
    of_epoch: LoadSums,
    of_run: LoadSums,
}

/// The load of a card over a run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct GpuSummary {
    #[serde(flatten)]
    load: MeanLoad,
    /// What the card waited for, if it is known how busy it was.
    idle: Option<Idle>,
    /// That the card was not busy enough, with what it waited for most.
    pub(crate) warning: Option<String>,
}

impl GpuLoad {
    /// Prepares for a run on a device, of which the first updates are left out; `None` unless it is
    /// an NVIDIA card and NVIDIA's library is there.
    pub(crate) fn of(selection: &Selection, left_out: u64) -> Option<Self> {
        let facts = selection.facts.as_ref()?;
        if facts.memory_owner != MemoryOwner::Device {
            return None;
        }
        let address = facts.card.clone()?;
        card_load(&address)?;
        Some(Self::new(Box::new(move || card_load(&address)), INTERVAL, left_out))
    }

    fn new(read: Read, interval: Duration, left_out: u64) -> Self {
        Self {
            samples: Arc::default(),
            read: Some(read),
            interval,
            left_out: left_out.max(1),
            times: HostTimes::default(),
            stop: None,
        }
    }

    /// Follows what the host is doing.
    pub(crate) fn see(&mut self, event: &Event) {
        let activity = match event {
            // The first update is read.
            Event::ReadEach { .. } => {
                self.left_out = self.left_out.min(1);
                return;
            }
            Event::Step(report) => {
                match self.left_out {
                    0 => self.times.add(report),
                    1 => self.begin(),
                    _ => {}
                }
                self.left_out = self.left_out.saturating_sub(1);
                Activity::Updates
            }
            Event::Between { .. } | Event::Recomputed { .. } => Activity::Evaluation,
            Event::Saving { .. } => Activity::Checkpoint,
            // Without a checkpoint the next epoch follows.
            Event::Epoch(_) | Event::Saved { .. } => Activity::Updates,
            _ => return,
        };
        lock(&self.samples).activity = activity;
    }

    /// Ends an epoch; its field, if there were samples.
    pub(crate) fn epoch(&mut self) -> Option<(&'static str, Value)> {
        let sums = std::mem::take(&mut lock(&self.samples).of_epoch);
        sums.mean().map(|mean| ("gpu", json!(mean)))
    }

    /// Ends the run; `None` if it was too short for a sample. The thread is not waited for: it may
    /// be in a call of the driver that takes long, and ends after it.
    pub(crate) fn end(self) -> Option<GpuSummary> {
        drop(self.stop);
        let sums = lock(&self.samples).of_run;
        let load = sums.mean()?;
        let idle = Idle::of(&sums, &self.times);
        let warning = idle.zip(load.busy_share);
        let warning = warning.and_then(|(idle, busy)| idle.warning(busy, sums.busy().count));
        Some(GpuSummary { load, idle, warning })
    }

    /// Starts the samples, of which each is about the time before it.
    fn begin(&mut self) {
        let Some(mut read) = self.read.take() else { return };
        let (stop, stopped) = channel();
        let (samples, interval) = (Arc::clone(&self.samples), self.interval);
        let look = move || {
            while stopped.recv_timeout(interval) == Err(RecvTimeoutError::Timeout) {
                if let Some(load) = read() {
                    lock(&samples).add(&load);
                }
            }
        };
        // Without the thread there are no samples.
        let started = Builder::new().name("gpu-load".to_owned()).spawn(look);
        self.stop = started.is_ok().then_some(stop);
    }
}

impl Samples {
    fn add(&mut self, load: &CardLoad) {
        self.of_epoch.add(load, self.activity);
        self.of_run.add(load, self.activity);
    }
}

fn lock(samples: &Mutex<Samples>) -> MutexGuard<'_, Samples> {
    samples.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::time::Instant;

    use updraft_trainer::{ReadEachReason, StepReport, StepTimes};

    use super::*;

    fn step() -> Event {
        Event::Step(StepReport {
            epoch: 0,
            step: 0,
            steps: 9,
            samples: 1,
            loss: 0.0,
            metrics: Vec::new(),
            learning_rate: 0.1,
            gradient_norm: None,
            loss_scale: None,
            skipped: None,
            at_us: 0,
            step_us: 20,
            times: StepTimes { data_wait_us: 80, ..StepTimes::default() },
            upload: None,
        })
    }

    /// A card that is busy in half of the time.
    fn half_busy() -> (GpuLoad, Arc<AtomicU64>) {
        let reads = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&reads);
        let read = move || {
            counted.fetch_add(1, Ordering::SeqCst);
            Some(CardLoad { busy_share: Some(0.5), power_w: Some(300.0), ..CardLoad::default() })
        };
        (GpuLoad::new(Box::new(read), Duration::from_millis(1), 2), reads)
    }

    /// Waits for more reads; the sample of each but the last was added.
    fn wait_for(reads: &AtomicU64, more: u64) {
        let (wanted, deadline) = (reads.load(Ordering::SeqCst) + more, Instant::now());
        while reads.load(Ordering::SeqCst) < wanted {
            assert!(deadline.elapsed() < Duration::from_secs(10), "the card is not read");
            std::thread::yield_now();
        }
    }

    #[test]
    fn samples_follow_the_activities_of_the_host_after_the_first_updates() {
        let (mut load, reads) = half_busy();
        load.see(&step());
        std::thread::sleep(Duration::from_millis(5));
        assert_eq!(reads.load(Ordering::SeqCst), 0, "the first updates are left out");
        assert_eq!(load.epoch(), None);
        load.see(&step());
        load.see(&step());
        wait_for(&reads, 30);
        load.see(&Event::Saving { step: 3 });
        wait_for(&reads, 3);
        let (name, field) = load.epoch().expect("samples");
        assert_eq!((name, &field["busy_share"]), ("gpu", &json!(0.5)));
        assert_eq!(field["mean_power_w"], 300.0);
        assert!(field["peak_temperature_c"].is_null(), "{field}");

        let summary = json!(load.end().expect("samples"));
        assert_eq!(summary["busy_share"], 0.5);
        let idle = &summary["idle"];
        assert!(idle["checkpoint_share"].as_f64() > Some(0.0), "{summary}");
        assert_eq!(idle["evaluation_share"], 0.0);
        // The host waited for 80 % of the one update that counts.
        assert!(idle["data_wait_share"].as_f64() > Some(0.0), "{summary}");
        assert_eq!(idle["submission_share"], 0.0);
        let warning = summary["warning"].as_str().expect("half of the time is idle");
        assert!(warning.contains("computed in 50 % of the time"), "{warning}");
    }

    #[test]
    fn samples_begin_after_the_first_update_if_each_is_read() {
        let (mut load, reads) = half_busy();
        load.see(&Event::ReadEach { reason: ReadEachReason::SeveralRanks });
        load.see(&step());
        wait_for(&reads, 2);
        assert!(load.end().is_some());
    }

    #[test]
    fn a_card_that_does_not_report_how_busy_it_is_has_no_warning() {
        let read = || Some(CardLoad { temperature_c: Some(50), ..CardLoad::default() });
        let mut load = GpuLoad::new(Box::new(read), Duration::from_millis(1), 1);
        load.see(&step());
        let deadline = Instant::now();
        while load.epoch().is_none() {
            assert!(deadline.elapsed() < Duration::from_secs(10), "no sample");
            std::thread::yield_now();
        }
        let summary = load.end().expect("samples");
        assert_eq!((summary.idle, summary.warning), (None, None));
    }

    #[test]
    fn a_run_without_updates_has_no_load() {
        let (load, _) = half_busy();
        assert_eq!(load.end(), None);
    }
}
