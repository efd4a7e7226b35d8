//! The loader: delivers a set of samples in batches.

use std::fmt::{self, Debug, Formatter};
use std::num::NonZero;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::error::DataError;
use crate::fault::{FaultPolicy, Quarantine};
use crate::source::{ImageSource, SampleSource};
#[cfg(feature = "burn")]
use crate::stream::StreamPlan;
use crate::stream::assemble::Assembler;
use crate::stream::collate::Collate;
use crate::stream::images::ImageCollate;
use crate::stream::{
    Epoch, LoaderConfig, LoaderState, SampleCollate, SampleConfig, StreamConfig, Workers,
};
use crate::trace;

/// Delivers the samples of a set in batches, the same ones for any number of workers.
///
/// The order is a function of (seed, epoch), and random transforms are a function of (seed, epoch,
/// sample index). `Loader` without a type parameter is a loader of images.
pub struct Loader<C: Collate = ImageCollate> {
    assembler: Arc<Assembler<C>>,
    quarantine: Option<Arc<Quarantine>>,
    workers: usize,
}

impl<C: Collate> Debug for Loader<C> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_struct("Loader")
            .field("samples", &self.samples())
            .field("workers", &self.workers)
            .field("config", self.assembler.config())
            .finish_non_exhaustive()
    }
}

/// Below this time per sample threads do not pay: passing a batch between threads costs tens of
/// microseconds, and training is slower with fewer cores.
const WORTH_A_THREAD: Duration = Duration::from_micros(50);

impl Loader {
    /// Creates a loader of images; one is read to determine the size.
    ///
    /// # Errors
    /// As [`LoaderConfig::validate`] and [`collating`](Self::collating); the error of the first
    /// image, unless the policy allows to skip it.
    pub fn try_new(source: Arc<dyn ImageSource>, config: LoaderConfig) -> Result<Self, DataError> {
        let stream = config.stream.clone();
        Self::collating(ImageCollate::try_new(source, config)?, stream)
    }
}

impl Loader<SampleCollate> {
    /// Creates a loader of samples with rasters; one is read to determine their kind.
    ///
    /// # Errors
    /// As [`SampleCollate::try_new`] and [`collating`](Self::collating).
    pub fn from_samples(
        source: Arc<dyn SampleSource>,
        config: SampleConfig,
    ) -> Result<Self, DataError> {
        let stream = config.stream.clone();
        Self::collating(SampleCollate::try_new(source, config)?, stream)
    }
}

impl<C: Collate> Loader<C> {
    /// Creates a loader of any kind of samples; one is prepared to measure its cost.
    ///
    /// # Errors
    /// As [`StreamConfig::validate`]; [`DataError::Empty`] for a set without samples,
    /// [`DataError::Open`] for a quarantine file that cannot be written, the error of the first
    /// sample if errors are raised.
    pub fn collating(samples: C, config: StreamConfig) -> Result<Self, DataError> {
        let workers = config.workers;
        let assembler = Assembler::try_new(samples, config)?;
        let quarantine = match &assembler.config().faults {
            FaultPolicy::Quarantine { file, .. } => Some(Arc::new(Quarantine::open(file)?)),
            FaultPolicy::Raise | FaultPolicy::Skip { .. } => None,
        };
        let item = measure(&assembler)?;
        let workers = match workers {
            Workers::Count(count) => count,
            Workers::Auto if item < WORTH_A_THREAD => 0,
            Workers::Auto => std::thread::available_parallelism().map_or(1, NonZero::get),
        };
        trace::workers(workers, item);
        Ok(Self { assembler: Arc::new(assembler), quarantine, workers })
    }

    /// The batches of one epoch from its start.
    #[must_use]
    pub fn epoch(&self, epoch: u64) -> Epoch<C> {
        let plan = self.assembler.plan();
        self.start(0..plan.batches(), plan.state(epoch))
    }

    /// The batches of one epoch with these numbers, counted from 0; no other is prepared. Numbers
    /// past the end have no batches.
    ///
    /// The limit of a [`FaultPolicy`] counts the samples of these batches only.
    #[must_use]
    pub fn epoch_part(&self, epoch: u64, batches: Range<usize>) -> Epoch<C> {
        let (part, state) = self.assembler.plan().part(epoch, batches);
        self.start(part, state)
    }

    /// The batches that remained when `state` was taken, with any number of workers.
    ///
    /// Batches that were delivered before are not prepared again: resuming costs as much as
    /// starting an epoch.
    ///
    /// # Errors
    /// [`DataError::ForeignState`] if the state was taken from another source or configuration,
    /// [`DataError::StatePosition`] if it lies inside a batch or past the end.
    pub fn resume(&self, state: &LoaderState) -> Result<Epoch<C>, DataError> {
        let taken = self.assembler.plan().resume(state)?;
        Ok(self.start(taken..self.batches(), state.clone()))
    }

    /// Checks that [`resume`](Self::resume) accepts a state, without preparing a batch.
    ///
    /// # Errors
    /// As [`resume`](Self::resume).
    pub fn check_state(&self, state: &LoaderState) -> Result<(), DataError> {
        self.assembler.plan().resume(state).map(drop)
    }

    /// Batches in an epoch.
    #[must_use]
    pub fn batches(&self) -> usize {
        self.assembler.plan().batches()
    }

    /// Samples in the set, delivered or not.
    #[must_use]
    pub fn samples(&self) -> usize {
        self.assembler.plan().samples()
    }

    /// Samples in a full batch.
    #[must_use]
    pub fn batch(&self) -> usize {
        self.assembler.config().batch
    }

    /// The number of threads that prepare batches; 0 means the consuming thread.
    #[must_use]
    pub const fn workers(&self) -> usize {
        self.workers
    }

    /// The samples themselves.
    #[must_use]
    pub fn collate(&self) -> &C {
        self.assembler.collate()
    }

    /// The same samples, settings and threads.
    #[cfg(any(all(test, feature = "burn"), feature = "burn-dataloader"))]
    pub(crate) fn shared(&self) -> Self {
        let (assembler, quarantine) = (Arc::clone(&self.assembler), self.quarantine.clone());
        Self { assembler, quarantine, workers: self.workers }
    }

    /// Other samples with the same settings and threads.
    #[cfg(any(all(test, feature = "burn"), feature = "burn-dataloader"))]
    pub(crate) fn with_samples(&self, samples: C) -> Result<Self, DataError> {
        let assembler = Assembler::try_new(samples, self.assembler.config().clone())?;
        Ok(Self { assembler: Arc::new(assembler), ..self.shared() })
    }

    /// The order of the samples and their division into batches.
    #[cfg(feature = "burn")]
    pub(crate) fn plan(&self) -> &StreamPlan {
        self.assembler.plan()
    }

    /// Batches that workers assemble beyond the one that was taken last; 0 without workers.
    #[must_use]
    pub fn read_ahead(&self) -> usize {
        if self.workers == 0 { 0 } else { self.window() }
    }

    fn window(&self) -> usize {
        let prefetch_bytes = self.assembler.config().prefetch_bytes;
        (prefetch_bytes / self.assembler.batch_bytes()).max(1)
    }

    fn start(&self, batches: Range<usize>, state: LoaderState) -> Epoch<C> {
        let quarantine = self.quarantine.clone();
        Epoch::start(&self.assembler, quarantine, (self.workers, self.window()), (batches, state))
    }
}

/// The median time of the first, the middle and the last sample.
///
/// Three samples, because the first one may already be cached; errors of the others are reported
/// when their batch is delivered.
fn measure<C: Collate>(assembler: &Assembler<C>) -> Result<Duration, DataError> {
    let mut scratch = C::Scratch::default();
    let mut time = |index| {
        let started = Instant::now();
        assembler.assemble(0, &[index], &mut scratch).map(|_| started.elapsed())
    };
    let (first, last) = (time(0)?, assembler.plan().samples() - 1);
    let mut times = [first, time(last / 2).unwrap_or(first), time(last).unwrap_or(first)];
    times.sort_unstable();
    Ok(times[1])
}
