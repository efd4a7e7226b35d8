//! The loader: a source and how its samples become batches.

use std::fmt::{self, Debug, Formatter};
use std::num::NonZero;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::augment::Canvas;
use crate::digest::Digest;
use crate::error::DataError;
use crate::source::ImageSource;
use crate::stream::assemble::Assembler;
use crate::stream::{Epoch, LoaderConfig, LoaderState, Workers};
use crate::trace;

/// Delivers the samples of a source in batches, the same ones for any number of workers.
///
/// The order is a function of (seed, epoch), and what [`Augment`](crate::Augment) does to a
/// sample of (seed, epoch, sample index).
pub struct Loader {
    assembler: Arc<Assembler>,
    workers: usize,
    prefetch_bytes: usize,
    config_hash: String,
}

impl Debug for Loader {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_struct("Loader")
            .field("samples", &self.samples())
            .field("workers", &self.workers)
            .field("config", self.assembler.config())
            .finish_non_exhaustive()
    }
}

/// An item that takes less than this is not worth a thread: handing a batch from one thread to
/// another costs tens of microseconds, and training is slower with fewer cores to itself.
const WORTH_A_THREAD: Duration = Duration::from_micros(50);

impl Loader {
    /// Makes a loader; one sample is read to know the size of all.
    ///
    /// # Errors
    /// As [`LoaderConfig::validate`]; [`DataError::Empty`] for a source without samples;
    /// what is wrong with the first sample.
    pub fn try_new(source: Arc<dyn ImageSource>, config: LoaderConfig) -> Result<Self, DataError> {
        config.validate()?;
        if source.is_empty() {
            return Err(DataError::Empty);
        }
        let digest = Digest::new("updraft loader 1").text(&source.fingerprint());
        let config_hash = config.describe(digest).hex();
        let (workers, prefetch_bytes) = (config.workers, config.prefetch_bytes);
        let assembler = Assembler::try_new(source, config)?;
        let item = measure(&assembler)?;
        let workers = match workers {
            Workers::Count(count) => count,
            Workers::Auto if item < WORTH_A_THREAD => 0,
            Workers::Auto => std::thread::available_parallelism().map_or(1, NonZero::get),
        };
        trace::workers(workers, item);
        Ok(Self { assembler: Arc::new(assembler), workers, prefetch_bytes, config_hash })
    }

    /// The batches of one epoch from its start.
    #[must_use]
    pub fn epoch(&self, epoch: u64) -> Epoch {
        self.start(epoch, 0)
    }

    /// The batches that were left when `state` was taken, with any number of workers.
    ///
    /// # Errors
    /// [`DataError::ForeignState`] if the state was taken from another source or configuration,
    /// [`DataError::StatePosition`] if it lies inside a batch or past the end.
    pub fn resume(&self, state: &LoaderState) -> Result<Epoch, DataError> {
        let foreign = |field, expected: &dyn ToString, got: &dyn ToString| {
            Err(DataError::ForeignState {
                field,
                expected: expected.to_string(),
                got: got.to_string(),
            })
        };
        let config = self.assembler.config();
        if state.seed != config.seed {
            return foreign("seed", &config.seed, &state.seed);
        }
        if state.config != self.config_hash {
            return foreign("config", &self.config_hash, &state.config);
        }
        let taken = self
            .assembler
            .batch_at(state.position)
            .ok_or(DataError::StatePosition { position: state.position, batch: config.batch })?;
        Ok(self.start(state.epoch, taken))
    }

    /// Batches in an epoch.
    #[must_use]
    pub fn batches(&self) -> usize {
        self.assembler.batches()
    }

    /// Samples in the source, delivered or not.
    #[must_use]
    pub fn samples(&self) -> usize {
        self.assembler.samples()
    }

    /// Samples in a full batch.
    #[must_use]
    pub fn batch(&self) -> usize {
        self.assembler.config().batch
    }

    /// How many threads prepare batches; 0 is the thread that takes them.
    #[must_use]
    pub const fn workers(&self) -> usize {
        self.workers
    }

    fn start(&self, epoch: u64, batch: usize) -> Epoch {
        let order = self.assembler.order(epoch);
        let window = (self.prefetch_bytes / self.assembler.batch_bytes()).max(1);
        let state = LoaderState {
            seed: self.assembler.config().seed,
            epoch,
            position: self.assembler.position_of(batch),
            config: self.config_hash.clone(),
        };
        Epoch::start(&self.assembler, order, (self.workers, window), (batch, state))
    }
}

/// The shortest of three preparations of the first item.
fn measure(assembler: &Assembler) -> Result<Duration, DataError> {
    let mut canvas = Canvas::default();
    let mut shortest = Duration::MAX;
    for _ in 0..3 {
        let started = Instant::now();
        assembler.assemble(0, &[0], &mut canvas)?;
        shortest = shortest.min(started.elapsed());
    }
    Ok(shortest)
}
