//! Threads that prepare batches ahead of the consumer.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use crate::error::DataError;
use crate::stream::assemble::{Assembled, Assembler, EpochOrder};
use crate::stream::collate::Collate;
use crate::trace;

/// Worker threads and the batches they have ready.
pub(super) struct Prefetch<C: Collate> {
    shared: Arc<Shared<C>>,
    threads: Vec<JoinHandle<()>>,
}

struct Shared<C: Collate> {
    assembler: Arc<Assembler<C>>,
    order: Arc<EpochOrder>,
    desk: Mutex<Desk<C::Batch>>,
    changed: Condvar,
    /// How many batches may be in preparation or ready at once.
    window: usize,
}

/// The state shared by workers and consumer.
struct Desk<B> {
    /// The next batch that no worker has started.
    left: Range<usize>,
    /// The next batch to deliver; workers stay within the window from here.
    next: usize,
    ready: BTreeMap<usize, Result<Assembled<B>, DataError>>,
    /// Workers that still run.
    running: usize,
    stop: bool,
}

impl<C: Collate> Prefetch<C> {
    /// Starts up to `workers` threads; `None` for none, or if the system cannot start even one.
    pub(super) fn start(
        assembler: &Arc<Assembler<C>>,
        order: &Arc<EpochOrder>,
        left: Range<usize>,
        workers: usize,
        window: usize,
    ) -> Option<Self> {
        let workers = workers.min(window).min(left.len());
        let desk = Desk { next: left.start, left, ready: BTreeMap::new(), running: 0, stop: false };
        let shared = Arc::new(Shared {
            assembler: Arc::clone(assembler),
            order: Arc::clone(order),
            desk: Mutex::new(desk),
            changed: Condvar::new(),
            window,
        });
        let mut threads = Vec::with_capacity(workers);
        for worker in 0..workers {
            let running = Running::new(&shared);
            let builder = thread::Builder::new().name(format!("updraft-loader-{worker}"));
            match builder.spawn(move || running.0.work()) {
                Ok(thread) => threads.push(thread),
                Err(_) => break,
            }
        }
        if threads.len() < workers {
            trace::fewer_workers(workers, threads.len());
        }
        (!threads.is_empty()).then_some(Self { shared, threads })
    }

    /// Whether [`take`](Self::take) returns this batch, or an error, at once.
    pub(super) fn is_ready(&self, batch: usize) -> bool {
        let desk = self.shared.lock();
        desk.ready.contains_key(&batch) || desk.running == 0
    }

    /// Waits for a batch; batches are taken in ascending order.
    pub(super) fn take(&mut self, batch: usize) -> Result<Assembled<C::Batch>, DataError> {
        let mut desk = self.shared.lock();
        loop {
            if let Some(ready) = desk.ready.remove(&batch) {
                desk.next = batch + 1;
                self.shared.changed.notify_all();
                return ready;
            }
            if desk.running == 0 {
                return Err(DataError::WorkerLost { batch });
            }
            desk = self.shared.wait(desk);
        }
    }
}

impl<C: Collate> Drop for Prefetch<C> {
    fn drop(&mut self) {
        self.shared.lock().stop = true;
        self.shared.changed.notify_all();
        for thread in self.threads.drain(..) {
            // A worker's panic reaches the consumer as a lost batch.
            let _ = thread.join();
        }
    }
}

impl<C: Collate> Shared<C> {
    fn lock(&self) -> MutexGuard<'_, Desk<C::Batch>> {
        self.desk.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, desk: MutexGuard<'a, Desk<C::Batch>>) -> MutexGuard<'a, Desk<C::Batch>> {
        self.changed.wait(desk).unwrap_or_else(PoisonError::into_inner)
    }

    fn work(&self) {
        let mut scratch = C::Scratch::default();
        let mut desk = self.lock();
        while !desk.stop && !desk.left.is_empty() {
            let batch = desk.left.start;
            if batch >= desk.next + self.window {
                desk = self.wait(desk);
                continue;
            }
            desk.left.start += 1;
            drop(desk);
            let assembled = self.assembler.batch(&self.order, batch, &mut scratch);
            desk = self.lock();
            if assembled.is_err() {
                // Nothing after an error is delivered.
                desk.left.end = desk.left.start;
            }
            desk.ready.insert(batch, assembled);
            self.changed.notify_all();
        }
    }
}

/// Marks a worker as running until it is dropped.
struct Running<C: Collate>(Arc<Shared<C>>);

impl<C: Collate> Running<C> {
    fn new(shared: &Arc<Shared<C>>) -> Self {
        shared.lock().running += 1;
        Self(Arc::clone(shared))
    }
}

impl<C: Collate> Drop for Running<C> {
    fn drop(&mut self) {
        self.0.lock().running -= 1;
        self.0.changed.notify_all();
    }
}
