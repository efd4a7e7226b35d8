//! A stream whose batches are converted one by one.

use std::ops::Range;

use serde_json::Value;

use crate::stream::{BatchStream, EpochPart, EpochStream, StreamError};

/// A stream whose batches are converted.
#[derive(Debug)]
pub struct Converted<S, A, B> {
    stream: S,
    convert: fn(A) -> B,
}

impl<S: BatchStream<A>, A, B> Converted<S, A, B> {
    /// The batches of a stream, converted one by one.
    pub const fn new(stream: S, convert: fn(A) -> B) -> Self {
        Self { stream, convert }
    }
}

impl<S: BatchStream<A>, A, B> BatchStream<B> for Converted<S, A, B> {
    fn epoch(&self, epoch: u64) -> Box<dyn EpochStream<B> + '_> {
        Box::new(ConvertedEpoch { batches: self.stream.epoch(epoch), convert: self.convert })
    }

    fn resume(
        &self,
        epoch: u64,
        state: &Value,
    ) -> Result<Box<dyn EpochStream<B> + '_>, StreamError> {
        let batches = self.stream.resume(epoch, state)?;
        Ok(Box::new(ConvertedEpoch { batches, convert: self.convert }))
    }

    fn check_state(&self, state: &Value) -> Result<(), StreamError> {
        self.stream.check_state(state)
    }

    fn epoch_part(
        &self,
        epoch: u64,
        batches: Range<usize>,
    ) -> Result<EpochPart<'_, B>, StreamError> {
        let part = self.stream.epoch_part(epoch, batches)?;
        let convert = self.convert;
        Ok(part.map_stream(|batches| Box::new(ConvertedEpoch { batches, convert })))
    }

    fn batches(&self) -> usize {
        self.stream.batches()
    }

    fn samples(&self) -> usize {
        self.stream.samples()
    }

    fn batch(&self) -> usize {
        self.stream.batch()
    }

    fn read_ahead(&self) -> usize {
        self.stream.read_ahead()
    }
}

struct ConvertedEpoch<'a, A, B> {
    batches: Box<dyn EpochStream<A> + 'a>,
    convert: fn(A) -> B,
}

impl<A, B> Iterator for ConvertedEpoch<'_, A, B> {
    type Item = Result<B, StreamError>;

    fn next(&mut self) -> Option<Self::Item> {
        Some(self.batches.next()?.map(self.convert))
    }
}

impl<A, B> EpochStream<B> for ConvertedEpoch<'_, A, B> {
    fn state(&self) -> Value {
        self.batches.state()
    }

    fn left_out(&self) -> usize {
        self.batches.left_out()
    }

    fn is_ready(&self) -> bool {
        self.batches.is_ready()
    }
}
