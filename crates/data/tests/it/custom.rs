//! Samples of a user's own kind: bounded bytes in flight, panics as errors, measured waits.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use updraft_data::{Collate, DataError, Draw, FaultPolicy, Loader, Order, StreamConfig, Workers};

const SAMPLE_BYTES: usize = 1000;

/// Bytes of batches that are alive now, and the most there ever were.
#[derive(Default)]
struct Meter {
    now: AtomicUsize,
    peak: AtomicUsize,
}

/// A batch that is on the meter for as long as it lives.
struct Metered {
    indices: Vec<usize>,
    bytes: usize,
    meter: Arc<Meter>,
}

impl Drop for Metered {
    fn drop(&mut self) {
        self.meter.now.fetch_sub(self.bytes, Ordering::SeqCst);
    }
}

struct Blocks {
    count: usize,
    meter: Arc<Meter>,
    delay: Duration,
    panics_at: Option<usize>,
    /// Whether a batch cannot be begun.
    is_broken: AtomicBool,
    finished: Mutex<usize>,
}

impl Blocks {
    fn new(meter: &Arc<Meter>) -> Self {
        let (meter, finished) = (Arc::clone(meter), Mutex::new(0));
        let (delay, is_broken) = (Duration::ZERO, AtomicBool::new(false));
        Self { count: 400, meter, delay, panics_at: None, is_broken, finished }
    }
}

impl Collate for Blocks {
    type Batch = Metered;
    type Scratch = ();

    fn len(&self) -> usize {
        self.count
    }

    fn name(&self, index: usize) -> String {
        format!("block {index}")
    }

    fn fingerprint(&self) -> String {
        "blocks".to_owned()
    }

    fn sample_bytes(&self) -> usize {
        SAMPLE_BYTES
    }

    fn begin(&self, samples: usize) -> Metered {
        assert!(!self.is_broken.load(Ordering::SeqCst), "cannot begin a batch");
        let bytes = samples * SAMPLE_BYTES;
        let now = self.meter.now.fetch_add(bytes, Ordering::SeqCst) + bytes;
        self.meter.peak.fetch_max(now, Ordering::SeqCst);
        Metered { indices: Vec::new(), bytes, meter: Arc::clone(&self.meter) }
    }

    fn add(&self, draw: Draw, (): &mut (), batch: &mut Metered) -> Result<(), DataError> {
        std::thread::sleep(self.delay);
        batch.indices.push(draw.index);
        assert!(self.panics_at != Some(draw.index), "cannot make block");
        Ok(())
    }

    fn truncate(&self, batch: &mut Metered, samples: usize) {
        batch.indices.truncate(samples);
    }

    fn finish(&self, _seed: u64, _epoch: u64, _batch: &mut Metered) {
        *self.finished.lock().unwrap() += 1;
    }
}

fn config(workers: usize) -> StreamConfig {
    StreamConfig::new(10).with_order(Order::Shuffled).with_workers(Workers::Count(workers))
}

#[test]
fn batches_in_flight_never_exceed_the_budget_and_reach_it() {
    for (budget, batches) in [(1, 1), (25_000, 2), (50_000, 5), (80_000, 8)] {
        let meter = Arc::new(Meter::default());
        let config = config(4).with_prefetch_bytes(budget);
        let loader = Loader::collating(Blocks::new(&meter), config).unwrap();
        meter.peak.store(0, Ordering::SeqCst);
        for batch in loader.epoch(0) {
            // The taken batch is the caller's; it does not count against the budget.
            drop(batch.unwrap());
            std::thread::sleep(Duration::from_millis(2));
        }
        let peak = meter.peak.load(Ordering::SeqCst);
        let bound = batches * 10 * SAMPLE_BYTES;
        // Between taking a batch and dropping it, workers may begin the one that follows.
        assert!(peak <= bound + 10 * SAMPLE_BYTES, "{peak} bytes for a budget of {budget}");
        assert!(peak >= bound, "{peak} bytes for a budget of {budget}: the budget is not used");
        assert_eq!(meter.now.load(Ordering::SeqCst), 0);
    }
}

#[test]
fn a_panic_is_an_error_that_names_the_sample_or_is_skipped() {
    let meter = Arc::new(Meter::default());
    for workers in [0, 1, 2, 8] {
        let blocks = || Blocks { panics_at: Some(203), ..Blocks::new(&meter) };
        let raise = Loader::collating(blocks(), config(workers)).unwrap();
        let error = raise.epoch(1).find_map(Result::err).unwrap();
        let text = error.to_string();
        assert!(
            text.starts_with("`block 203` (sample 203): the worker panicked: cannot make block"),
            "{text}"
        );
        let skip = config(workers).with_faults(FaultPolicy::Skip { at_most: 1 });
        let skip = Loader::collating(blocks(), skip).unwrap();
        let indices: Vec<usize> =
            skip.epoch(1).flat_map(|batch| batch.unwrap().indices.clone()).collect();
        assert_eq!(indices.len(), 399);
        assert!(!indices.contains(&203));
    }
}

#[test]
fn every_batch_is_finished_once() {
    let meter = Arc::new(Meter::default());
    let loader = Loader::collating(Blocks::new(&meter), config(2)).unwrap();
    *loader.collate().finished.lock().unwrap() = 0;
    assert_eq!(loader.epoch(0).map(|batch| batch.unwrap().indices.len()).sum::<usize>(), 400);
    assert_eq!(*loader.collate().finished.lock().unwrap(), 40);
}

#[test]
fn waiting_is_measured_batch_by_batch() {
    let meter = Arc::new(Meter::default());
    let delay = Duration::from_micros(300);
    let loader = Loader::collating(Blocks { delay, ..Blocks::new(&meter) }, config(0)).unwrap();
    let mut epoch = loader.epoch(0);
    assert_eq!(epoch.waits().batches, 0);
    let mut sum = Duration::ZERO;
    for taken in 1..=5 {
        drop(epoch.next().unwrap().unwrap());
        let waits = epoch.waits();
        sum += waits.last;
        assert!(waits.last >= 10 * delay, "{waits:?}");
        assert_eq!((waits.batches, waits.total), (taken, sum));
    }
}

#[test]
fn workers_are_started_by_themselves_where_an_item_is_worth_a_thread() {
    let meter = Arc::default();
    let loader = |delay| {
        let config = config(0).with_workers(Workers::Auto);
        Loader::collating(Blocks { delay, ..Blocks::new(&meter) }, config).unwrap()
    };
    assert_eq!(loader(Duration::ZERO).workers(), 0);
    let usable = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    assert_eq!(loader(Duration::from_millis(1)).workers(), usable);
}

#[test]
fn workers_read_as_many_batches_ahead_as_the_budget_has() {
    let loader = |workers, budget| {
        let config = config(workers).with_prefetch_bytes(budget);
        Loader::collating(Blocks::new(&Arc::default()), config).unwrap()
    };
    let read_ahead = |workers, budget| loader(workers, budget).read_ahead();
    assert_eq!([0, 1, 2].map(|workers| read_ahead(workers, 50_000)), [0, 5, 5]);
    assert_eq!([1, 19_999, 20_000].map(|budget| read_ahead(2, budget)), [1, 1, 2]);
    assert_eq!((loader(2, 1).samples(), loader(2, 1).batch()), (400, 10));
}

#[test]
fn workers_that_end_without_their_batch_are_an_error() {
    for workers in [1, 3] {
        let loader = Loader::collating(Blocks::new(&Arc::default()), config(workers)).unwrap();
        loader.collate().is_broken.store(true, Ordering::SeqCst);
        let items: Vec<_> = loader.epoch(0).map(|batch| batch.err().unwrap()).collect();
        assert!(matches!(items[..], [DataError::WorkerLost { batch: 0 }]), "{items:?}");
    }
}

#[test]
fn a_set_without_samples_is_refused() {
    let blocks = Blocks { count: 0, ..Blocks::new(&Arc::default()) };
    assert!(matches!(Loader::collating(blocks, config(0)), Err(DataError::Empty)));
}
