//! The settings of batches of any kind of samples.

use std::fmt::{self, Display, Formatter};
use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::error::DataError;
use crate::fault::FaultPolicy;

/// The order of the samples in an epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// As in the source, in every epoch.
    #[default]
    Sequential,
    /// A different random order in every epoch.
    Shuffled,
}

impl Display for Order {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Sequential => "sequential",
            Self::Shuffled => "shuffled",
        })
    }
}

/// What to do with samples that do not fill the last batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LastBatch {
    /// A smaller batch.
    #[default]
    Keep,
    /// They are left out of this epoch.
    Drop,
}

impl Display for LastBatch {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Keep => "keep",
            Self::Drop => "drop",
        })
    }
}

/// How many threads prepare batches; the batches are the same for any number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Workers {
    /// No threads if a sample takes less than 50 µs on this machine, otherwise one per core.
    #[default]
    Auto,
    /// This many; with 0, batches are prepared on the thread that takes them.
    Count(usize),
}

/// One part of every batch, for one of several processes that train together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    /// Which part, below the count.
    pub index: usize,
    /// How many parts a batch has, at least 1.
    pub count: usize,
}

impl Part {
    /// The whole batch.
    pub const WHOLE: Self = Self { index: 0, count: 1 };

    /// The part of a range: parts are in order, and their lengths differ by at most one.
    pub(crate) fn of(self, range: Range<usize>) -> Range<usize> {
        let at = |part: usize| range.start + range.len() * part / self.count;
        at(self.index)..at(self.index + 1)
    }
}

/// The settings of a [`Loader`](crate::Loader): order, batches and threads.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct StreamConfig {
    /// Samples in a batch, at least 1.
    pub batch: usize,
    /// The order of the samples.
    pub order: Order,
    /// The seed of the order and of all random transforms.
    pub seed: u64,
    /// What to do with an incomplete last batch.
    pub last: LastBatch,
    /// Threads that prepare batches.
    pub workers: Workers,
    /// The limit in bytes for batches that are ready or in preparation; one batch is always
    /// allowed.
    pub prefetch_bytes: usize,
    /// The policy for samples that cannot be delivered.
    pub faults: FaultPolicy,
    /// Which part of every batch is delivered.
    pub part: Part,
}

impl StreamConfig {
    /// Batches of the given size: sequential, no samples dropped, workers chosen by measurement, 64
    /// MiB in flight, errors raised.
    #[must_use]
    pub fn new(batch: usize) -> Self {
        Self {
            batch,
            order: Order::default(),
            seed: 0,
            last: LastBatch::default(),
            workers: Workers::default(),
            prefetch_bytes: 64 << 20,
            faults: FaultPolicy::default(),
            part: Part::WHOLE,
        }
    }

    /// Sets the order of the samples.
    #[must_use]
    pub fn with_order(mut self, order: Order) -> Self {
        self.order = order;
        self
    }

    /// Sets the seed of the order and of all random transforms.
    #[must_use]
    pub fn with_seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Sets what to do with an incomplete last batch.
    #[must_use]
    pub fn with_last(mut self, last: LastBatch) -> Self {
        self.last = last;
        self
    }

    /// Sets how many threads prepare batches.
    #[must_use]
    pub fn with_workers(mut self, workers: Workers) -> Self {
        self.workers = workers;
        self
    }

    /// Sets the limit in bytes for batches in flight.
    #[must_use]
    pub fn with_prefetch_bytes(mut self, bytes: usize) -> Self {
        self.prefetch_bytes = bytes;
        self
    }

    /// Sets the policy for samples that cannot be delivered.
    #[must_use]
    pub fn with_faults(mut self, faults: FaultPolicy) -> Self {
        self.faults = faults;
        self
    }

    /// Sets which part of every batch is delivered. The parts of all processes together are the
    /// batches of a single one, and a state resumes with any number of parts. A last batch with
    /// fewer samples than parts, if it is kept, has no batch for the others.
    #[must_use]
    pub fn with_part(mut self, part: Part) -> Self {
        self.part = part;
        self
    }

    /// Checks the ranges of all settings.
    ///
    /// # Errors
    /// [`DataError::Setting`] naming the setting that is out of range.
    pub fn validate(&self) -> Result<(), DataError> {
        let at_most = |name, value: usize, most: usize, least: usize| {
            if (least..=most).contains(&value) {
                return Ok(());
            }
            let expected = format!("{least} to {most}");
            Err(DataError::Setting { name, value: value.to_string(), expected })
        };
        let Part { index, count } = self.part;
        at_most("batch", self.batch, 1 << 24, count.max(1))?;
        at_most("part.count", count, 1 << 24, 1)?;
        at_most("part.index", index, count - 1, 0)?;
        if count > 1 && self.faults != FaultPolicy::Raise {
            // A process whose samples are all skipped would be a batch ahead of the others.
            let expected = "`raise` if several processes share a batch".to_owned();
            let value = format!("`{}`", self.faults.name());
            return Err(DataError::Setting { name: "faults", value, expected });
        }
        match self.workers {
            Workers::Count(count) => at_most("workers", count, 1024, 0),
            Workers::Auto => Ok(()),
        }
    }
}
