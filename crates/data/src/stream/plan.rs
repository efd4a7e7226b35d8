//! The samples of a batch, as a function of seed, epoch and settings.

use std::fmt::Display;
use std::ops::Range;

use crate::error::DataError;
use crate::random::{Purpose, Random};
use crate::stream::{Collate, LastBatch, LoaderState, Order, StreamConfig};

/// How the samples of a set are ordered and divided into batches.
#[derive(Debug, Clone)]
pub(crate) struct StreamPlan {
    config: StreamConfig,
    samples: usize,
    source: String,
    settings: String,
}

impl StreamPlan {
    pub(crate) fn try_new(set: &impl Collate, config: StreamConfig) -> Result<Self, DataError> {
        config.validate()?;
        if set.is_empty() {
            return Err(DataError::Empty);
        }
        let (source, settings) = (set.fingerprint(), set.settings_fingerprint());
        Ok(Self { config, samples: set.len(), source, settings })
    }

    pub(crate) const fn config(&self) -> &StreamConfig {
        &self.config
    }

    pub(crate) const fn samples(&self) -> usize {
        self.samples
    }

    pub(crate) fn batches(&self) -> usize {
        match self.config.last {
            LastBatch::Keep => {
                let full = self.samples / self.config.batch;
                full + usize::from(!self.samples_of(full).is_empty())
            }
            LastBatch::Drop => self.samples / self.config.batch,
        }
    }

    /// The positions in an epoch of the samples of a batch, or of this stream's part of it.
    pub(crate) fn samples_of(&self, batch: usize) -> Range<usize> {
        let first = batch * self.config.batch;
        self.config.part.of(first..(first + self.config.batch).min(self.samples))
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
        LoaderState {
            epoch,
            position: 0,
            skipped: 0,
            seed: self.config.seed,
            batch: self.config.batch as u64,
            order: self.config.order,
            last: self.config.last,
            samples: self.samples as u64,
            source: self.source.clone(),
            settings: self.settings.clone(),
        }
    }

    /// The batches of an epoch with these numbers, as far as there are any, and their start.
    pub(crate) fn part(&self, epoch: u64, batches: Range<usize>) -> (Range<usize>, LoaderState) {
        let all = self.batches();
        let start = batches.start.min(all);
        let position = self.position_of(start);
        (start..batches.end.clamp(start, all), LoaderState { position, ..self.state(epoch) })
    }

    /// The batch at which a state resumes, if the state belongs to this stream.
    pub(crate) fn resume(&self, state: &LoaderState) -> Result<usize, DataError> {
        let own = self.state(state.epoch);
        // Settings of the user are compared before values derived from them.
        compare("seed", &own.seed, &state.seed)?;
        compare("batch", &own.batch, &state.batch)?;
        compare("order", &own.order, &state.order)?;
        compare("last batch", &own.last, &state.last)?;
        compare("samples", &own.samples, &state.samples)?;
        compare("source fingerprint", &own.source, &state.source)?;
        compare("sample settings fingerprint", &own.settings, &state.settings)?;
        self.batch_at(state.position)
            .ok_or(DataError::StatePosition { position: state.position, batch: self.config.batch })
    }

    /// The batch that starts at a position, if one does or if the epoch ends there.
    fn batch_at(&self, position: u64) -> Option<usize> {
        let batch = usize::try_from(position).ok()?.div_ceil(self.config.batch);
        (batch <= self.batches() && self.position_of(batch) == position).then_some(batch)
    }
}

fn compare<T: PartialEq + Display>(
    setting: &'static str,
    loader: &T,
    state: &T,
) -> Result<(), DataError> {
    if loader == state {
        return Ok(());
    }
    let (loader, state) = (loader.to_string(), state.to_string());
    Err(DataError::ForeignState { setting, loader, state })
}
