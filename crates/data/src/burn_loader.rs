//! The stream as burn's own training loop takes it.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use burn::data::dataloader::{DataLoader, DataLoaderIterator, Progress};
use burn::data::dataset::DatasetError;
use burn::tensor::Device;

use crate::digest::Digest;
use crate::error::DataError;
use crate::stream::{Ahead, Collate, Draw, Loader, LoaderState, StreamConfig};

/// Samples behind burn's `DataLoader` trait: the batches of a [`Loader`], converted one step
/// before they are taken.
///
/// burn counts no epochs, so each iterator is the epoch after the one begun before it.
pub struct BurnLoader<C: Collate, F> {
    loader: Loader<Part<C>>,
    convert: Arc<F>,
    device: Device,
    epoch: AtomicU64,
}

impl<C: Collate, F> BurnLoader<C, F> {
    /// Delivers what `convert` makes of each batch on `device`, from epoch 0.
    ///
    /// [`ImageCollate::try_new`](crate::ImageCollate::try_new) makes samples of images.
    ///
    /// # Errors
    /// As [`Loader::collating`].
    ///
    /// # Example
    /// ```
    /// use burn::data::dataloader::DataLoader;
    /// use burn::tensor::{Device, Tensor};
    /// use updraft_data::{BurnLoader, DataError, InMemoryTensors, StreamConfig, Targets, TensorBatch};
    ///
    /// fn batches(device: Device) -> Result<usize, DataError> {
    ///     let set = InMemoryTensors::from_bytes(3, &[1], vec![0, 128, 255], Targets::None)?;
    ///     let convert =
    ///         |batch: TensorBatch, device: &Device| -> Tensor<2> { batch.input(device) };
    ///     let loader = BurnLoader::try_new(set, StreamConfig::new(2), device, convert)?;
    ///     Ok(loader.iter().count())
    /// }
    /// ```
    pub fn try_new(
        samples: C,
        config: StreamConfig,
        device: Device,
        convert: F,
    ) -> Result<Self, DataError> {
        let range = 0..samples.len();
        let loader = Loader::collating(Part { samples: Arc::new(samples), range }, config)?;
        Ok(Self { loader, convert: Arc::new(convert), device, epoch: AtomicU64::new(0) })
    }

    /// Sets the epoch of the next iterator: where a training run goes on.
    #[must_use]
    pub fn with_epoch(mut self, epoch: u64) -> Self {
        self.epoch = AtomicU64::new(epoch);
        self
    }

    fn begun(&self) -> AtomicU64 {
        AtomicU64::new(self.epoch.load(Ordering::Relaxed))
    }
}

impl<C, T, F> DataLoader<T> for BurnLoader<C, F>
where
    C: Collate,
    T: Send + 'static,
    F: Fn(C::Batch, &Device) -> T + Send + Sync + 'static,
{
    fn iter<'a>(&'a self) -> Box<dyn DataLoaderIterator<T> + 'a> {
        let epoch = self.loader.epoch(self.epoch.fetch_add(1, Ordering::Relaxed));
        let state = epoch.state();
        let (convert, device) = (Arc::clone(&self.convert), self.device.clone());
        let batches = epoch.ahead(move |batch| convert(batch, &device));
        Box::new(Batches { batches, state, items: self.loader.samples() })
    }

    fn num_items(&self) -> usize {
        self.loader.samples()
    }

    fn to_device(&self, device: &Device) -> Arc<dyn DataLoader<T>> {
        let (loader, convert) = (self.loader.shared(), Arc::clone(&self.convert));
        Arc::new(Self { loader, convert, device: device.clone(), epoch: self.begun() })
    }

    /// The samples `start..end` of the set as it lies, shuffled among themselves; what lies past
    /// the end is left out.
    fn slice(&self, start: usize, end: usize) -> Arc<dyn DataLoader<T>> {
        match self.loader.with_samples(self.loader.collate().part(start..end)) {
            Ok(loader) => {
                let (convert, device) = (Arc::clone(&self.convert), self.device.clone());
                Arc::new(Self { loader, convert, device, epoch: self.begun() })
            }
            // The settings were checked before, so there are no samples.
            Err(_) => Arc::new(Nothing),
        }
    }
}

/// The batches of one epoch with their progress.
struct Batches<C: Collate, T, F> {
    batches: Ahead<C, T, F>,
    state: LoaderState,
    items: usize,
}

impl<C: Collate, T, F: FnMut(C::Batch) -> T> Iterator for Batches<C, T, F> {
    type Item = Result<T, DatasetError>;

    fn next(&mut self) -> Option<Self::Item> {
        let batch = self.batches.next()?;
        self.state = self.batches.state();
        Some(batch.map_err(DatasetError::new))
    }
}

impl<C: Collate, T, F: FnMut(C::Batch) -> T> DataLoaderIterator<T> for Batches<C, T, F> {
    fn progress(&self) -> Progress {
        progress(self.state.position as usize, self.items)
    }
}

fn progress(processed: usize, total: usize) -> Progress {
    Progress::new(processed, total, Some("items".to_owned()))
}

/// A loader without samples.
struct Nothing;

impl<T: 'static> DataLoader<T> for Nothing {
    fn iter<'a>(&'a self) -> Box<dyn DataLoaderIterator<T> + 'a> {
        Box::new(NoBatches(std::iter::empty()))
    }

    fn num_items(&self) -> usize {
        0
    }

    fn to_device(&self, _: &Device) -> Arc<dyn DataLoader<T>> {
        Arc::new(Self)
    }

    fn slice(&self, _: usize, _: usize) -> Arc<dyn DataLoader<T>> {
        Arc::new(Self)
    }
}

struct NoBatches<T>(std::iter::Empty<Result<T, DatasetError>>);

impl<T> Iterator for NoBatches<T> {
    type Item = Result<T, DatasetError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.next()
    }
}

impl<T> DataLoaderIterator<T> for NoBatches<T> {
    fn progress(&self) -> Progress {
        progress(0, 0)
    }
}

/// Some neighboring samples of a set, with the indices that they have there.
struct Part<C> {
    samples: Arc<C>,
    range: Range<usize>,
}

impl<C: Collate> Part<C> {
    /// A part of the part.
    fn part(&self, range: Range<usize>) -> Self {
        let at = |place: usize| self.range.start.saturating_add(place).min(self.range.end);
        let range = at(range.start)..at(range.end).max(at(range.start));
        Self { samples: Arc::clone(&self.samples), range }
    }
}

impl<C: Collate> Collate for Part<C> {
    type Batch = C::Batch;
    type Scratch = C::Scratch;

    fn len(&self) -> usize {
        self.range.len()
    }

    fn name(&self, index: usize) -> String {
        self.samples.name(self.range.start + index)
    }

    fn fingerprint(&self) -> String {
        let digest = Digest::new("updraft part").text(&self.samples.fingerprint());
        digest.number(self.range.start).number(self.range.end).hex()
    }

    fn sample_bytes(&self) -> usize {
        self.samples.sample_bytes()
    }

    fn begin(&self, samples: usize) -> C::Batch {
        self.samples.begin(samples)
    }

    fn add(
        &self,
        draw: Draw,
        scratch: &mut C::Scratch,
        batch: &mut C::Batch,
    ) -> Result<(), DataError> {
        let index = self.range.start + draw.index;
        self.samples.add(Draw { index, ..draw }, scratch, batch)
    }

    fn announce(&self, next: usize) {
        self.samples.announce(self.range.start + next);
    }

    fn truncate(&self, batch: &mut C::Batch, samples: usize) {
        self.samples.truncate(batch, samples);
    }

    fn finish(&self, seed: u64, epoch: u64, batch: &mut C::Batch) {
        self.samples.finish(seed, epoch, batch);
    }
}
