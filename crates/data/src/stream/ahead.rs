//! Batches that are on their way to the device one step before they are taken.

use crate::error::DataError;
use crate::stream::{Collate, Epoch, LoaderState, Waits};

/// An epoch whose next batch is converted, say moved to the device, before the current one is
/// returned: with a device that works by itself the copy of one batch overlaps with the
/// computation on the one before it.
///
/// One batch more than the loader's budget is alive.
pub struct Ahead<C: Collate, T, F> {
    epoch: Epoch<C>,
    convert: F,
    state: LoaderState,
    next: Option<Result<T, DataError>>,
    next_state: LoaderState,
    has_begun: bool,
}

impl<C: Collate> Epoch<C> {
    /// Converts each batch one step before it is taken.
    pub fn ahead<T, F: FnMut(C::Batch) -> T>(self, convert: F) -> Ahead<C, T, F> {
        let state = self.state();
        let next_state = state.clone();
        Ahead { epoch: self, convert, state, next: None, next_state, has_begun: false }
    }
}

impl<C: Collate, T, F: FnMut(C::Batch) -> T> Ahead<C, T, F> {
    /// Where the stream is: after the batch that was taken last, whatever is on its way.
    #[must_use]
    pub fn state(&self) -> LoaderState {
        self.state.clone()
    }

    /// How long the epoch's batches were waited for, the one on its way included.
    #[must_use]
    pub const fn waits(&self) -> Waits {
        self.epoch.waits()
    }

    fn fetch(&mut self) -> Option<Result<T, DataError>> {
        let batch = self.epoch.next()?;
        Some(batch.map(&mut self.convert))
    }
}

impl<C: Collate, T, F: FnMut(C::Batch) -> T> Iterator for Ahead<C, T, F> {
    type Item = Result<T, DataError>;

    fn next(&mut self) -> Option<Self::Item> {
        if !self.has_begun {
            self.has_begun = true;
            self.next = self.fetch();
            self.next_state = self.epoch.state();
        }
        let current = self.next.take()?;
        self.state = self.next_state.clone();
        self.next = self.fetch();
        self.next_state = self.epoch.state();
        Some(current)
    }
}
