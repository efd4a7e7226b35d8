//! From sample indices to a batch.

use crate::error::DataError;
use crate::fault::{FaultPolicy, SampleFault};
use crate::guard::guarded;
use crate::random::{Purpose, Random};
use crate::stream::collate::{Collate, Draw, place};
use crate::stream::{LastBatch, Order, StreamConfig};

/// What every worker shares: the samples and how they become batches.
pub(super) struct Assembler<C> {
    samples: C,
    config: StreamConfig,
}

/// A batch with the samples that were left out of it.
pub(super) struct Assembled<B> {
    pub(super) batch: B,
    /// How many samples the batch has.
    pub(super) kept: usize,
    /// The others; more than the policy allows only if it was exceeded in this batch alone.
    pub(super) faults: Vec<SampleFault>,
}

/// The samples of one epoch in the order of delivery.
pub(super) struct EpochOrder {
    epoch: u64,
    indices: Vec<usize>,
}

impl<C: Collate> Assembler<C> {
    pub(super) const fn new(samples: C, config: StreamConfig) -> Self {
        Self { samples, config }
    }

    pub(super) const fn config(&self) -> &StreamConfig {
        &self.config
    }

    pub(super) const fn collate(&self) -> &C {
        &self.samples
    }

    pub(super) fn samples(&self) -> usize {
        self.samples.len()
    }

    pub(super) fn batches(&self) -> usize {
        match self.config.last {
            LastBatch::Keep => self.samples().div_ceil(self.config.batch),
            LastBatch::Drop => self.samples() / self.config.batch,
        }
    }

    /// The bytes of a full batch.
    pub(super) fn batch_bytes(&self) -> usize {
        let samples = self.config.batch.min(self.samples());
        self.samples.sample_bytes().saturating_mul(samples).max(1)
    }

    /// Samples before a batch.
    pub(super) fn position_of(&self, batch: usize) -> u64 {
        (batch * self.config.batch).min(self.samples()) as u64
    }

    /// The batch that starts at a position, if one does or if the epoch ends there.
    pub(super) fn batch_at(&self, position: u64) -> Option<usize> {
        let batch = usize::try_from(position).ok()?.div_ceil(self.config.batch);
        (batch <= self.batches() && self.position_of(batch) == position).then_some(batch)
    }

    /// The sample indices of an epoch, in the order of delivery.
    pub(super) fn order(&self, epoch: u64) -> EpochOrder {
        EpochOrder {
            epoch,
            indices: self.config.order.indices(self.samples(), &self.config, epoch),
        }
    }

    /// The batch with the given number, counted from the start of the epoch.
    pub(super) fn batch(
        &self,
        order: &EpochOrder,
        batch: usize,
        scratch: &mut C::Scratch,
    ) -> Result<Assembled<C::Batch>, DataError> {
        let first = batch * self.config.batch;
        let last = (first + self.config.batch).min(self.samples());
        self.assemble(order.epoch, &order.indices[first..last], scratch)
    }

    pub(super) fn assemble(
        &self,
        epoch: u64,
        indices: &[usize],
        scratch: &mut C::Scratch,
    ) -> Result<Assembled<C::Batch>, DataError> {
        let mut batch = self.samples.begin(indices.len());
        let (mut kept, mut faults) = (0, Vec::new());
        for &index in indices {
            let place = || place(&self.samples, index);
            let draw = Draw { seed: self.config.seed, epoch, index };
            match guarded(place, || self.samples.add(draw, scratch, &mut batch)) {
                Ok(()) => kept += 1,
                Err(error) if self.config.faults == FaultPolicy::Raise => return Err(error),
                Err(error) => {
                    self.samples.truncate(&mut batch, kept);
                    // After a panic the working memory may be anything.
                    *scratch = C::Scratch::default();
                    faults.push(SampleFault { index, name: self.samples.name(index), error });
                    if faults.len() as u64 > self.config.faults.at_most() {
                        break;
                    }
                }
            }
        }
        if kept > 0 {
            let place = || place(&self.samples, indices[0]);
            guarded(place, || {
                self.samples.finish(self.config.seed, epoch, &mut batch);
                Ok(())
            })?;
        }
        Ok(Assembled { batch, kept, faults })
    }
}

impl Order {
    fn indices(self, samples: usize, config: &StreamConfig, epoch: u64) -> Vec<usize> {
        let mut indices: Vec<usize> = (0..samples).collect();
        if self == Self::Shuffled {
            Random::new(Purpose::Order, config.seed, epoch, 0).shuffle(&mut indices);
        }
        indices
    }
}
