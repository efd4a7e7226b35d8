//! The batches of one epoch, in order.

use std::fmt::{self, Debug, Formatter};
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::error::DataError;
use crate::fault::{Quarantine, SampleFault};
use crate::stream::assemble::{Assembled, Assembler, EpochOrder};
use crate::stream::collate::Collate;
use crate::stream::images::ImageCollate;
use crate::stream::prefetch::Prefetch;
use crate::stream::state::LoaderState;

/// The batches of one epoch, in order; the first error ends it.
///
/// Batches without any remaining sample (see [`FaultPolicy`](crate::FaultPolicy)) are skipped.
/// Worker threads end when it is dropped.
pub struct Epoch<C: Collate = ImageCollate> {
    assembler: Arc<Assembler<C>>,
    producer: Producer<C>,
    quarantine: Option<Arc<Quarantine>>,
    /// The batches that are left.
    left: Range<usize>,
    state: LoaderState,
    skipped: Vec<SampleFault>,
    waits: Waits,
}

/// The time that the consuming thread waited for batches or, without workers, prepared them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Waits {
    /// For the last batch.
    pub last: Duration,
    /// For all batches of this iterator.
    pub total: Duration,
    /// The number of batches delivered by this iterator.
    pub batches: u64,
}

/// The preparation of batches: on the consuming thread, or by workers.
enum Producer<C: Collate> {
    Inline { order: Arc<EpochOrder>, scratch: C::Scratch },
    Threads(Prefetch<C>),
}

impl<C: Collate> Epoch<C> {
    pub(super) fn start(
        assembler: &Arc<Assembler<C>>,
        quarantine: Option<Arc<Quarantine>>,
        (workers, window): (usize, usize),
        (left, state): (Range<usize>, LoaderState),
    ) -> Self {
        let order = Arc::new(assembler.order(state.epoch));
        let prefetch = Prefetch::start(assembler, &order, left.clone(), workers, window);
        let producer = match prefetch {
            Some(prefetch) => Producer::Threads(prefetch),
            None => Producer::Inline { order, scratch: C::Scratch::default() },
        };
        Self {
            assembler: Arc::clone(assembler),
            producer,
            quarantine,
            left,
            state,
            skipped: Vec::new(),
            waits: Waits::default(),
        }
    }

    /// The position of the stream: after the batch that was delivered last.
    #[must_use]
    pub fn state(&self) -> LoaderState {
        self.state.clone()
    }

    /// The samples that this iterator skipped, in the order of the stream.
    #[must_use]
    pub fn skipped(&self) -> &[SampleFault] {
        &self.skipped
    }

    /// Whether the next batch, or the end, can be taken without waiting for workers. Without
    /// workers a batch is prepared when it is taken, and this is true.
    ///
    /// A batch of which no sample remains is left out, so that the one after it may still be waited
    /// for.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        match &self.producer {
            Producer::Inline { .. } => true,
            Producer::Threads(prefetch) => {
                self.left.is_empty() || prefetch.is_ready(self.left.start)
            }
        }
    }

    /// The time spent waiting for its batches.
    #[must_use]
    pub const fn waits(&self) -> Waits {
        self.waits
    }

    /// The next batch that has samples.
    fn take(&mut self) -> Option<Result<C::Batch, DataError>> {
        while !self.left.is_empty() {
            let next = self.left.start;
            let assembled = match &mut self.producer {
                Producer::Inline { order, scratch } => self.assembler.batch(order, next, scratch),
                Producer::Threads(prefetch) => prefetch.take(next),
            };
            match assembled.and_then(|assembled| self.account(assembled)) {
                Ok(None) => {}
                Ok(Some(batch)) => return Some(Ok(batch)),
                Err(error) => {
                    self.left = self.left.end..self.left.end;
                    return Some(Err(error));
                }
            }
        }
        None
    }

    /// Counts skipped samples and advances; `None` for a batch without samples.
    fn account(&mut self, assembled: Assembled<C::Batch>) -> Result<Option<C::Batch>, DataError> {
        let Assembled { batch, kept, faults } = assembled;
        let at_most = self.assembler.config().faults.at_most();
        let mut skipped = self.state.skipped;
        for fault in faults {
            skipped += 1;
            if let Some(quarantine) = &self.quarantine {
                quarantine.add(self.state.epoch, &fault)?;
            }
            if skipped > at_most {
                let cause = Box::new(fault.error);
                return Err(DataError::TooManyFaults { at_most, cause });
            }
            self.skipped.push(fault);
        }
        self.left.start += 1;
        self.state.position = self.assembler.plan().position_of(self.left.start);
        self.state.skipped = skipped;
        Ok((kept > 0).then_some(batch))
    }
}

impl<C: Collate> Iterator for Epoch<C> {
    type Item = Result<C::Batch, DataError>;

    fn next(&mut self) -> Option<Self::Item> {
        let started = Instant::now();
        let item = self.take();
        if let Some(Ok(_)) = item {
            self.waits.last = started.elapsed();
            self.waits.total += self.waits.last;
            self.waits.batches += 1;
        }
        item
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (0, Some(self.left.len()))
    }
}

impl<C: Collate> Debug for Epoch<C> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_struct("Epoch").field("state", &self.state).finish_non_exhaustive()
    }
}
