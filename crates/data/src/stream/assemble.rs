//! Assembling a batch from sample indices.

use crate::error::DataError;
use crate::fault::{FaultPolicy, SampleFault};
use crate::guard::guarded;
use crate::stream::collate::{Collate, Draw, place};
use crate::stream::{StreamConfig, StreamPlan};

/// The state shared by all workers: the samples and how they are collated.
pub(super) struct Assembler<C> {
    samples: C,
    plan: StreamPlan,
}

/// A batch with the samples that were skipped.
pub(super) struct Assembled<B> {
    pub(super) batch: B,
    /// How many samples the batch has.
    pub(super) kept: usize,
    /// The skipped samples; more than the policy allows only if it was exceeded in this batch
    /// alone.
    pub(super) faults: Vec<SampleFault>,
}

/// The samples of one epoch in the order of delivery.
pub(super) struct EpochOrder {
    epoch: u64,
    indices: Vec<usize>,
}

impl<C: Collate> Assembler<C> {
    pub(super) fn try_new(samples: C, config: StreamConfig) -> Result<Self, DataError> {
        let plan = StreamPlan::try_new(&samples, config)?;
        Ok(Self { samples, plan })
    }

    pub(super) const fn plan(&self) -> &StreamPlan {
        &self.plan
    }

    pub(super) const fn config(&self) -> &StreamConfig {
        self.plan.config()
    }

    pub(super) const fn collate(&self) -> &C {
        &self.samples
    }

    /// The bytes of a full batch.
    pub(super) fn batch_bytes(&self) -> usize {
        let samples = self.config().batch.min(self.plan.samples());
        self.samples.sample_bytes().saturating_mul(samples).max(1)
    }

    /// The samples of an epoch in the order of delivery.
    pub(super) fn order(&self, epoch: u64) -> EpochOrder {
        EpochOrder { epoch, indices: self.plan.order(epoch) }
    }

    /// The batch with the given number, counted from the start of the epoch.
    pub(super) fn batch(
        &self,
        order: &EpochOrder,
        batch: usize,
        scratch: &mut C::Scratch,
    ) -> Result<Assembled<C::Batch>, DataError> {
        self.assemble(order.epoch, &order.indices[self.plan.samples_of(batch)], scratch)
    }

    pub(super) fn assemble(
        &self,
        epoch: u64,
        indices: &[usize],
        scratch: &mut C::Scratch,
    ) -> Result<Assembled<C::Batch>, DataError> {
        let mut batch = self.samples.begin(indices.len());
        let (mut kept, mut faults) = (0, Vec::new());
        for (at, &index) in indices.iter().enumerate() {
            let place = || place(&self.samples, index);
            let draw = Draw { seed: self.config().seed, epoch, index };
            let added = guarded(place, || {
                if let Some(&next) = indices.get(at + 1) {
                    self.samples.announce(next);
                }
                self.samples.add(draw, scratch, &mut batch)
            });
            match added {
                Ok(()) => kept += 1,
                // A batch without a sample that was replaced would be another than before.
                Err(error @ DataError::ChangedFile { .. }) => return Err(error),
                Err(error) if self.config().faults == FaultPolicy::Raise => return Err(error),
                Err(error) => {
                    self.samples.truncate(&mut batch, kept);
                    // After a panic the buffers may be in any state.
                    *scratch = C::Scratch::default();
                    faults.push(SampleFault { index, name: self.samples.name(index), error });
                    if faults.len() as u64 > self.config().faults.at_most() {
                        break;
                    }
                }
            }
        }
        if kept > 0 {
            let place = || place(&self.samples, indices[0]);
            guarded(place, || {
                self.samples.finish(self.config().seed, epoch, &mut batch);
                Ok(())
            })?;
        }
        Ok(Assembled { batch, kept, faults })
    }
}
