//! A loader for a training loop without epoch numbers: consecutive epochs, on a device, of a part
//! of the set.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use burn::tensor::Device;

use crate::digest::Digest;
use crate::error::DataError;
use crate::stream::{Ahead, Collate, Draw, Loader, LoaderState, StreamConfig};

/// The consecutive epochs of a [`Loader`]; batches are converted one step ahead.
pub(crate) struct Epochs<C: Collate, F> {
    loader: Loader<Part<C>>,
    convert: Arc<F>,
    device: Device,
    epoch: AtomicU64,
}

impl<C: Collate, F> Epochs<C, F> {
    /// From epoch 0.
    pub(crate) fn try_new(
        samples: C,
        config: StreamConfig,
        device: Device,
        convert: F,
    ) -> Result<Self, DataError> {
        let range = 0..samples.len();
        let loader = Loader::collating(Part { samples: Arc::new(samples), range }, config)?;
        Ok(Self { loader, convert: Arc::new(convert), device, epoch: AtomicU64::new(0) })
    }

    /// Sets the next epoch.
    pub(crate) fn with_epoch(mut self, epoch: u64) -> Self {
        self.epoch = AtomicU64::new(epoch);
        self
    }

    /// Samples in the set.
    pub(crate) fn samples(&self) -> usize {
        self.loader.samples()
    }

    /// Begins an epoch.
    pub(crate) fn begin<T: 'static>(
        &self,
    ) -> Batches<Part<C>, T, impl FnMut(C::Batch) -> T + use<C, T, F>>
    where
        F: Fn(C::Batch, &Device) -> T + 'static,
    {
        let epoch = self.loader.epoch(self.epoch.fetch_add(1, Ordering::Relaxed));
        let state = epoch.state();
        let (convert, device) = (Arc::clone(&self.convert), self.device.clone());
        Batches { batches: epoch.ahead(move |batch| convert(batch, &device)), state }
    }

    /// The same on another device, from the next epoch.
    pub(crate) fn on(&self, device: &Device) -> Self {
        self.with_loader(self.loader.shared(), device)
    }

    /// The samples `start..end` of the set in its own order, shuffled among themselves; indices
    /// past the end are ignored. `None` for no samples.
    pub(crate) fn slice(&self, start: usize, end: usize) -> Option<Self> {
        // The settings were checked before, so an error means that there are no samples.
        let loader = self.loader.with_samples(self.loader.collate().part(start..end)).ok()?;
        Some(self.with_loader(loader, &self.device))
    }

    fn with_loader(&self, loader: Loader<Part<C>>, device: &Device) -> Self {
        let epoch = AtomicU64::new(self.epoch.load(Ordering::Relaxed));
        Self { loader, convert: Arc::clone(&self.convert), device: device.clone(), epoch }
    }
}

/// The batches of one epoch.
pub(crate) struct Batches<C: Collate, T, F> {
    batches: Ahead<C, T, F>,
    state: LoaderState,
}

impl<C: Collate, T, F: FnMut(C::Batch) -> T> Batches<C, T, F> {
    /// Samples of the epoch that were delivered or skipped.
    pub(crate) const fn processed(&self) -> usize {
        self.state.position as usize
    }
}

impl<C: Collate, T, F: FnMut(C::Batch) -> T> Iterator for Batches<C, T, F> {
    type Item = Result<T, DataError>;

    fn next(&mut self) -> Option<Self::Item> {
        let batch = self.batches.next()?;
        self.state = self.batches.state();
        Some(batch)
    }
}

/// A range of samples of a set, with their indices in that set.
pub(crate) struct Part<C> {
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

    fn settings_fingerprint(&self) -> String {
        self.samples.settings_fingerprint()
    }

    fn is_random(&self) -> bool {
        self.samples.is_random()
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

#[cfg(test)]
mod tests {
    use updraft_testing::devices;

    use super::*;
    use crate::source::{InMemoryTensors, Targets};
    use crate::stream::{Order, Workers};
    use crate::tensor_batch::TensorBatch;

    fn set() -> InMemoryTensors {
        InMemoryTensors::from_bytes(10, &[2], (0..20).collect(), Targets::None).unwrap()
    }

    fn config(workers: usize) -> StreamConfig {
        let config = StreamConfig::new(4).with_order(Order::Shuffled).with_seed(3);
        config.with_workers(Workers::Count(workers))
    }

    type Convert = fn(TensorBatch, &Device) -> Vec<usize>;
    type Own = Epochs<InMemoryTensors, Convert>;

    fn own(workers: usize) -> Own {
        let device = devices().into_iter().next().unwrap();
        let convert: Convert = |batch, _| batch.indices().to_vec();
        Epochs::try_new(set(), config(workers), device, convert).unwrap()
    }

    fn epoch(epochs: &Own) -> Vec<Vec<usize>> {
        epochs.begin().map(Result::unwrap).collect()
    }

    #[test]
    fn each_begun_is_the_next_epoch_of_the_loader() {
        let plain = Loader::collating(set(), config(0)).unwrap();
        let expected = |number| -> Vec<Vec<usize>> {
            plain.epoch(number).map(|batch| batch.unwrap().indices().to_vec()).collect()
        };
        for workers in [0, 2] {
            let epochs = own(workers);
            assert_eq!(epochs.samples(), 10);
            assert_eq!(epoch(&epochs), expected(0));
            assert_eq!(epoch(&epochs), expected(1));
            let moved = epochs.on(&epochs.device);
            assert_eq!(epoch(&moved), expected(2), "moved on the way");
            assert_eq!(epoch(&own(workers).with_epoch(7)), expected(7));
        }
    }

    #[test]
    fn what_was_taken_is_counted_and_not_what_is_on_its_way() {
        let epochs = own(0);
        let mut batches = epochs.begin();
        for taken in [4, 8, 10] {
            batches.next().unwrap().unwrap();
            assert_eq!(batches.processed(), taken);
        }
        assert!(batches.next().is_none());
    }

    #[test]
    fn slices_share_the_samples_out_and_may_be_sliced_and_empty() {
        let epochs = own(0);
        let sorted = |slices: &[Own]| {
            let mut seen =
                slices.iter().flat_map(|slice| epoch(slice).concat()).collect::<Vec<_>>();
            seen.sort_unstable();
            seen
        };
        let slice = |start, end| epochs.slice(start, end).unwrap();
        assert_eq!(sorted(&[slice(0, 5), slice(5, 99)]), (0..10).collect::<Vec<_>>());
        let inner = slice(2, 9).slice(1, 3).unwrap();
        assert_eq!(inner.samples(), 2);
        assert_eq!(sorted(&[inner]), [3, 4]);
        assert!(epochs.slice(7, 3).is_none());
    }
}
