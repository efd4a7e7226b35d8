//! Streams of batches: the data of a run.

use std::error::Error;

use updraft_data::{
    Collate, Epoch, Loader, LoaderState, ResidentBatch, ResidentEpoch, ResidentSet,
};

/// The error of a batch that cannot be delivered or placed on a device.
pub type StreamError = Box<dyn Error + Send + Sync>;

/// Batches of type `B`, epoch by epoch.
///
/// Implemented for [`Loader`] and [`ResidentSet`]. The same epoch always has the same batches, so
/// that a run can be resumed.
pub trait BatchStream<B> {
    /// The batches of an epoch from its start.
    fn epoch(&self, epoch: u64) -> Box<dyn EpochStream<B> + '_>;

    /// The batches that remained when `state` was taken.
    ///
    /// # Errors
    /// If the state was taken from another stream.
    fn resume(&self, state: &LoaderState) -> Result<Box<dyn EpochStream<B> + '_>, StreamError>;

    /// Batches in an epoch.
    fn batches(&self) -> usize;

    /// Samples in an epoch, delivered or not.
    fn samples(&self) -> usize;

    /// Samples in a full batch.
    fn batch(&self) -> usize;
}

/// The batches of one epoch, in order.
pub trait EpochStream<B>: Iterator<Item = Result<B, StreamError>> {
    /// Where the stream is: after the batch that was taken last.
    fn state(&self) -> LoaderState;

    /// Samples that were left out because they could not be delivered.
    fn left_out(&self) -> usize;
}

impl<C: Collate> BatchStream<C::Batch> for Loader<C> {
    fn epoch(&self, epoch: u64) -> Box<dyn EpochStream<C::Batch> + '_> {
        Box::new(Loaded(Self::epoch(self, epoch)))
    }

    fn resume(
        &self,
        state: &LoaderState,
    ) -> Result<Box<dyn EpochStream<C::Batch> + '_>, StreamError> {
        Ok(Box::new(Loaded(Self::resume(self, state)?)))
    }

    fn batches(&self) -> usize {
        Self::batches(self)
    }

    fn samples(&self) -> usize {
        Self::samples(self)
    }

    fn batch(&self) -> usize {
        Self::batch(self)
    }
}

struct Loaded<C: Collate>(Epoch<C>);

impl<C: Collate> Iterator for Loaded<C> {
    type Item = Result<C::Batch, StreamError>;

    fn next(&mut self) -> Option<Self::Item> {
        Some(self.0.next()?.map_err(StreamError::from))
    }
}

impl<C: Collate> EpochStream<C::Batch> for Loaded<C> {
    fn state(&self) -> LoaderState {
        self.0.state()
    }

    fn left_out(&self) -> usize {
        self.0.skipped().len()
    }
}

impl<const D: usize> BatchStream<ResidentBatch<D>> for ResidentSet<D> {
    fn epoch(&self, epoch: u64) -> Box<dyn EpochStream<ResidentBatch<D>> + '_> {
        Box::new(Resident(Self::epoch(self, epoch)))
    }

    fn resume(
        &self,
        state: &LoaderState,
    ) -> Result<Box<dyn EpochStream<ResidentBatch<D>> + '_>, StreamError> {
        Ok(Box::new(Resident(Self::resume(self, state)?)))
    }

    fn batches(&self) -> usize {
        Self::batches(self)
    }

    fn samples(&self) -> usize {
        Self::samples(self)
    }

    fn batch(&self) -> usize {
        Self::batch(self)
    }
}

struct Resident<'a, const D: usize>(ResidentEpoch<'a, D>);

impl<const D: usize> Iterator for Resident<'_, D> {
    type Item = Result<ResidentBatch<D>, StreamError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.next().map(Ok)
    }
}

impl<const D: usize> EpochStream<ResidentBatch<D>> for Resident<'_, D> {
    fn state(&self) -> LoaderState {
        self.0.state()
    }

    fn left_out(&self) -> usize {
        0
    }
}
