//! Streams of batches: the data of a run.

use std::error::Error;
use std::fmt;
use std::ops::Range;

use burn::tensor::kind::Autodiff;
use burn::tensor::{Device, Tensor};
use serde_json::Value;
use updraft_data::{
    Collate, DeviceSamples, Epoch, Loader, LoaderState, ResidentEpoch, ResidentSet,
};

/// The error of a batch that cannot be delivered or placed on a device.
pub type StreamError = Box<dyn Error + Send + Sync>;

/// Batches of type `B`, epoch by epoch.
///
/// Implemented for [`Loader`] and [`ResidentSet`]. The same epoch always has the same batches, so
/// that a run can be resumed.
///
/// The crate's page has a stream of your own: an iterator of batches for each epoch.
pub trait BatchStream<B> {
    /// The batches of an epoch from its start.
    fn epoch(&self, epoch: u64) -> Box<dyn EpochStream<B> + '_>;

    /// The batches of an epoch that remained when `state` was taken.
    ///
    /// By default the state is a number of batches, as that of [`Counted`], and so many are taken
    /// and dropped.
    ///
    /// # Errors
    /// If the state was taken from another stream, or a batch cannot be delivered.
    fn resume(
        &self,
        epoch: u64,
        state: &Value,
    ) -> Result<Box<dyn EpochStream<B> + '_>, StreamError> {
        let taken = state.as_u64().ok_or("the state of the stream is not a number of batches")?;
        let mut stream = self.epoch(epoch);
        for at in 0..taken {
            let batch = stream.next().transpose()?;
            let ended = || format!("the epoch ends after {at} batches; {taken} were taken before");
            batch.ok_or_else(ended)?;
        }
        Ok(stream)
    }

    /// Checks that [`resume`](Self::resume) accepts a state, without preparing a batch.
    ///
    /// By default every state is accepted here.
    ///
    /// # Errors
    /// If the state was taken from another stream.
    fn check_state(&self, state: &Value) -> Result<(), StreamError> {
        let _ = state;
        Ok(())
    }

    /// The batches of an epoch with these numbers, counted from 0, for ranks that each take a part.
    ///
    /// By default the earlier ones are taken and dropped; a stream that may leave out whole batches
    /// has to count them.
    ///
    /// # Errors
    /// If an earlier batch cannot be delivered.
    fn epoch_part(
        &self,
        epoch: u64,
        batches: Range<usize>,
    ) -> Result<EpochPart<'_, B>, StreamError> {
        let mut stream = self.epoch(epoch);
        for _ in 0..batches.start {
            stream.next().transpose()?;
        }
        Ok(EpochPart::first(stream, batches.len()))
    }

    /// Batches in an epoch.
    fn batches(&self) -> usize;

    /// Samples in an epoch, delivered or not.
    fn samples(&self) -> usize;

    /// Samples in a full batch.
    fn batch(&self) -> usize;

    /// Batches that threads of the stream read beyond the one that was taken last.
    fn read_ahead(&self) -> usize {
        0
    }
}

/// The batches of one epoch, in order.
pub trait EpochStream<B>: Iterator<Item = Result<B, StreamError>> {
    /// Where the stream is: after the batch that was taken last. Any value but null; checkpoints
    /// store it, and [`BatchStream::resume`] reads it.
    fn state(&self) -> Value;

    /// Samples that were left out because they could not be delivered.
    fn left_out(&self) -> usize;

    /// Whether the next batch, or the end, is there without waiting for other threads: only then is
    /// a batch moved to the device ahead of its update.
    ///
    /// By default true, for streams that prepare a batch when it is taken.
    fn is_ready(&self) -> bool {
        true
    }
}

/// Neighboring batches of an epoch; see [`BatchStream::epoch_part`].
pub struct EpochPart<'a, B> {
    batches: Box<dyn EpochStream<B> + 'a>,
    left: usize,
}

impl<'a, B> EpochPart<'a, B> {
    /// Everything that a stream delivers.
    #[must_use]
    pub fn all(batches: Box<dyn EpochStream<B> + 'a>) -> Self {
        Self::first(batches, usize::MAX)
    }

    /// The first batches that a stream delivers.
    #[must_use]
    pub fn first(batches: Box<dyn EpochStream<B> + 'a>, count: usize) -> Self {
        Self { batches, left: count }
    }

    /// The same part of a stream that is made of this one, batch by batch.
    pub fn map_stream<C>(
        self,
        convert: impl FnOnce(Box<dyn EpochStream<B> + 'a>) -> Box<dyn EpochStream<C> + 'a>,
    ) -> EpochPart<'a, C> {
        EpochPart { batches: convert(self.batches), left: self.left }
    }
}

impl<B> fmt::Debug for EpochPart<'_, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EpochPart").field("left", &self.left).finish_non_exhaustive()
    }
}

impl<B> Iterator for EpochPart<'_, B> {
    type Item = Result<B, StreamError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        self.batches.next()
    }
}

/// The batches of an iterator, with all samples; its state is the number of batches that were
/// taken.
#[derive(Debug, Clone)]
pub struct Counted<I> {
    batches: I,
    taken: u64,
}

impl<I> Counted<I> {
    /// Counts the batches of an iterator from its first one.
    pub const fn new(batches: I) -> Self {
        Self { batches, taken: 0 }
    }
}

impl<I: Iterator> Iterator for Counted<I> {
    type Item = I::Item;

    fn next(&mut self) -> Option<I::Item> {
        let batch = self.batches.next()?;
        self.taken += 1;
        Some(batch)
    }
}

impl<B, I: Iterator<Item = Result<B, StreamError>>> EpochStream<B> for Counted<I> {
    fn state(&self) -> Value {
        self.taken.into()
    }

    fn left_out(&self) -> usize {
        0
    }
}

/// The state of a loader or a set on the device, as a value.
fn stored(state: LoaderState) -> Value {
    serde_json::to_value(state).expect("a state has only texts and numbers")
}

/// The state that [`stored`] made a value of.
fn read(state: &Value) -> Result<LoaderState, StreamError> {
    let read = serde::Deserialize::deserialize(state);
    read.map_err(|cause: serde_json::Error| {
        format!("the state is not one of this kind of stream: {cause}").into()
    })
}

impl<C: Collate> BatchStream<C::Batch> for Loader<C> {
    fn epoch(&self, epoch: u64) -> Box<dyn EpochStream<C::Batch> + '_> {
        Box::new(Loaded(Self::epoch(self, epoch)))
    }

    fn resume(
        &self,
        _: u64,
        state: &Value,
    ) -> Result<Box<dyn EpochStream<C::Batch> + '_>, StreamError> {
        Ok(Box::new(Loaded(Self::resume(self, &read(state)?)?)))
    }

    fn check_state(&self, state: &Value) -> Result<(), StreamError> {
        Ok(Self::check_state(self, &read(state)?)?)
    }

    fn epoch_part(
        &self,
        epoch: u64,
        batches: Range<usize>,
    ) -> Result<EpochPart<'_, C::Batch>, StreamError> {
        Ok(EpochPart::all(Box::new(Loaded(Self::epoch_part(self, epoch, batches)))))
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

    fn read_ahead(&self) -> usize {
        Self::read_ahead(self)
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
    fn state(&self) -> Value {
        stored(self.0.state())
    }

    fn left_out(&self) -> usize {
        self.0.skipped().len()
    }

    fn is_ready(&self) -> bool {
        self.0.is_ready()
    }
}

impl<S: DeviceSamples> BatchStream<S::Batch> for ResidentSet<S> {
    fn epoch(&self, epoch: u64) -> Box<dyn EpochStream<S::Batch> + '_> {
        Box::new(Resident(Self::epoch(self, epoch)))
    }

    fn resume(
        &self,
        _: u64,
        state: &Value,
    ) -> Result<Box<dyn EpochStream<S::Batch> + '_>, StreamError> {
        Ok(Box::new(Resident(Self::resume(self, &read(state)?)?)))
    }

    fn check_state(&self, state: &Value) -> Result<(), StreamError> {
        Ok(Self::check_state(self, &read(state)?)?)
    }

    fn epoch_part(
        &self,
        epoch: u64,
        batches: Range<usize>,
    ) -> Result<EpochPart<'_, S::Batch>, StreamError> {
        Ok(EpochPart::all(Box::new(Resident(Self::epoch_part(self, epoch, batches)))))
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

struct Resident<'a, S>(ResidentEpoch<'a, S>);

impl<S: DeviceSamples> Iterator for Resident<'_, S> {
    type Item = Result<S::Batch, StreamError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.next().map(Ok)
    }
}

impl<S: DeviceSamples> EpochStream<S::Batch> for Resident<'_, S> {
    fn state(&self) -> Value {
        stored(self.0.state())
    }

    fn left_out(&self) -> usize {
        0
    }
}

/// A tensor as if it had been created on `device`, which has its memory, with or without autodiff:
/// for [`Task::place`](crate::Task::place) of batches from a [`ResidentSet`].
///
/// `Tensor::to_device` leaves a tensor without autodiff as it is. Then operations on it alone are
/// not part of the graph, and gradients are summed in another order.
#[must_use]
pub fn with_graph<const D: usize, K: Autodiff>(
    tensor: Tensor<D, K>,
    device: &Device,
) -> Tensor<D, K> {
    match device.gradient_checkpointing_strategy() {
        Some(strategy) => tensor.autodiff().with_gradient_checkpointing_strategy(strategy),
        None => tensor.without_autodiff(),
    }
}
