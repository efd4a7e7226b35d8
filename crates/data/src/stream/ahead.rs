//! Batches that are converted, such as moved to the device, one step ahead.

use crate::error::DataError;
use crate::stream::{Collate, Epoch, LoaderState, Waits};

/// An epoch whose next batch is converted, for example moved to the device, before the current one
/// is returned: on an asynchronous device the copy overlaps with the computation on the previous
/// batch.
///
/// One batch more than the loader's budget is in memory.
pub struct Ahead<C: Collate, T, F> {
    epoch: Epoch<C>,
    convert: F,
    state: LoaderState,
    next: Option<Result<T, DataError>>,
    next_state: LoaderState,
    has_begun: bool,
}

impl<C: Collate> Epoch<C> {
    /// Converts each batch one step ahead.
    pub fn ahead<T, F: FnMut(C::Batch) -> T>(self, convert: F) -> Ahead<C, T, F> {
        let state = self.state();
        let next_state = state.clone();
        Ahead { epoch: self, convert, state, next: None, next_state, has_begun: false }
    }
}

impl<C: Collate, T, F: FnMut(C::Batch) -> T> Ahead<C, T, F> {
    /// The position of the stream: after the batch that was delivered last, regardless of those in
    /// preparation.
    #[must_use]
    pub fn state(&self) -> LoaderState {
        self.state.clone()
    }

    /// The time spent waiting for the epoch's batches, including the next one.
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
