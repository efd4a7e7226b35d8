//! The adapter to burn's own training loop.

use std::sync::Arc;

use burn::data::dataloader::{DataLoader, DataLoaderIterator, Progress};
use burn::data::dataset::DatasetError;
use burn::tensor::Device;

use crate::epochs::{Batches, Epochs};
use crate::error::DataError;
use crate::stream::{Collate, StreamConfig};

/// Implements burn's `DataLoader` trait: the batches of a [`Loader`](crate::Loader), converted one
/// step ahead.
///
/// burn does not pass an epoch, so each iterator is the epoch after that of the previous iterator.
pub struct BurnLoader<C: Collate, F>(Epochs<C, F>);

impl<C: Collate, F> BurnLoader<C, F> {
    /// Delivers the result of `convert` for each batch on `device`, from epoch 0.
    ///
    /// [`ImageCollate::try_new`](crate::ImageCollate::try_new) creates a set of images.
    ///
    /// # Errors
    /// As [`Loader::collating`](crate::Loader::collating).
    ///
    /// # Example
    /// ```
    /// use burn::data::dataloader::DataLoader;
    /// use burn::tensor::{Device, Tensor};
    /// use updraft_data::{BurnLoader, DataError, InMemoryTensors, StreamConfig, Targets, TensorBatch};
    ///
    /// fn batches(device: Device) -> Result<usize, DataError> {
    ///     let set = InMemoryTensors::from_bytes(3, &[1], vec![0, 128, 255], Targets::None)?;
    ///     let convert = |batch: TensorBatch, device: &Device| -> Tensor<2> {
    ///         batch.input(device).expect("samples of one axis")
    ///     };
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
        Ok(Self(Epochs::try_new(samples, config, device, convert)?))
    }

    /// Sets the epoch of the next iterator, to continue a training run.
    #[must_use]
    pub fn with_epoch(self, epoch: u64) -> Self {
        Self(self.0.with_epoch(epoch))
    }
}

impl<C, T, F> DataLoader<T> for BurnLoader<C, F>
where
    C: Collate,
    T: Send + 'static,
    F: Fn(C::Batch, &Device) -> T + Send + Sync + 'static,
{
    fn iter<'a>(&'a self) -> Box<dyn DataLoaderIterator<T> + 'a> {
        Box::new(Handed { batches: self.0.begin(), items: self.0.samples() })
    }

    fn num_items(&self) -> usize {
        self.0.samples()
    }

    fn to_device(&self, device: &Device) -> Arc<dyn DataLoader<T>> {
        Arc::new(Self(self.0.on(device)))
    }

    /// The samples `start..end` of the set in its own order, shuffled among themselves; indices
    /// past the end are ignored.
    fn slice(&self, start: usize, end: usize) -> Arc<dyn DataLoader<T>> {
        match self.0.slice(start, end) {
            Some(epochs) => Arc::new(Self(epochs)),
            None => Arc::new(Nothing),
        }
    }
}

/// The batches of one epoch with their progress.
struct Handed<C: Collate, T, F> {
    batches: Batches<C, T, F>,
    items: usize,
}

impl<C: Collate, T, F: FnMut(C::Batch) -> T> Iterator for Handed<C, T, F> {
    type Item = Result<T, DatasetError>;

    fn next(&mut self) -> Option<Self::Item> {
        Some(self.batches.next()?.map_err(DatasetError::new))
    }
}

impl<C: Collate, T, F: FnMut(C::Batch) -> T> DataLoaderIterator<T> for Handed<C, T, F> {
    fn progress(&self) -> Progress {
        progress(self.batches.processed(), self.items)
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
