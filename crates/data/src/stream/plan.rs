//! Which samples a batch has: a function of seed, epoch and settings.

use std::ops::Range;

use crate::digest::Digest;
use crate::error::DataError;
use crate::random::{Purpose, Random};
use crate::stream::{LastBatch, LoaderState, Order, StreamConfig};

/// How the samples of a set are ordered and cut into batches.
#[derive(Debug, Clone)]
pub(crate) struct StreamPlan {
    config: StreamConfig,
    samples: usize,
    hash: String,
}

impl StreamPlan {
    pub(crate) fn try_new(
        samples: usize,
        fingerprint: &str,
        config: StreamConfig,
    ) -> Result<Self, DataError> {
        config.validate()?;
        if samples == 0 {
            return Err(DataError::Empty);
        }
        let hash = config.describe(Digest::new("updraft loader 2").text(fingerprint)).hex();
        Ok(Self { config, samples, hash })
    }

    pub(crate) const fn config(&self) -> &StreamConfig {
        &self.config
    }

    pub(crate) const fn samples(&self) -> usize {
        self.samples
    }

    pub(crate) const fn batches(&self) -> usize {
        match self.config.last {
            LastBatch::Keep => self.samples.div_ceil(self.config.batch),
            LastBatch::Drop => self.samples / self.config.batch,
        }
    }

    /// The places of a batch's samples in the order of an epoch.
    pub(crate) fn samples_of(&self, batch: usize) -> Range<usize> {
        let first = batch * self.config.batch;
        first..(first + self.config.batch).min(self.samples)
    }

    /// Samples before a batch.
    pub(crate) fn position_of(&self, batch: usize) -> u64 {
        (batch * self.config.batch).min(self.samples) as u64
    }

    /// The sample indices of an epoch, in the order of delivery.
    pub(crate) fn order(&self, epoch: u64) -> Vec<usize> {
        let mut indices: Vec<usize> = (0..self.samples).collect();
        if self.config.order == Order::Shuffled {
            Random::new(Purpose::Order, self.config.seed, epoch, 0).shuffle(&mut indices);
        }
        indices
    }

    /// The start of an epoch.
    pub(crate) fn state(&self, epoch: u64) -> LoaderState {
        let (seed, config) = (self.config.seed, self.hash.clone());
        LoaderState { seed, epoch, position: 0, skipped: 0, config }
    }

    /// The batch at which a state goes on, if the state is one of this stream.
    pub(crate) fn resume(&self, state: &LoaderState) -> Result<usize, DataError> {
        let foreign = |field, expected: &dyn ToString, got: &dyn ToString| {
            Err(DataError::ForeignState {
                field,
                expected: expected.to_string(),
                got: got.to_string(),
            })
        };
        if state.seed != self.config.seed {
            return foreign("seed", &self.config.seed, &state.seed);
        }
        if state.config != self.hash {
            return foreign("config", &self.hash, &state.config);
        }
        self.batch_at(state.position)
            .ok_or(DataError::StatePosition { position: state.position, batch: self.config.batch })
    }

    /// The batch that starts at a position, if one does or if the epoch ends there.
    fn batch_at(&self, position: u64) -> Option<usize> {
        let batch = usize::try_from(position).ok()?.div_ceil(self.config.batch);
        (batch <= self.batches() && self.position_of(batch) == position).then_some(batch)
    }
}
