//! The batches of one epoch, in order.

use std::fmt::{self, Debug, Formatter};
use std::sync::Arc;

use crate::augment::Canvas;
use crate::batch::ImageBatch;
use crate::error::DataError;
use crate::stream::LoaderState;
use crate::stream::assemble::{Assembler, EpochOrder};
use crate::stream::prefetch::Prefetch;

/// The batches of one epoch, in order; the first error ends it.
///
/// Threads that prepare batches end when it is dropped.
pub struct Epoch {
    assembler: Arc<Assembler>,
    supply: Supply,
    next: usize,
    state: LoaderState,
}

enum Supply {
    Inline { order: Arc<EpochOrder>, canvas: Canvas },
    Threads(Prefetch),
}

impl Epoch {
    pub(super) fn start(
        assembler: &Arc<Assembler>,
        order: EpochOrder,
        (workers, window): (usize, usize),
        (next, state): (usize, LoaderState),
    ) -> Self {
        let order = Arc::new(order);
        let left = next..assembler.batches();
        let prefetch = (workers > 0)
            .then(|| Prefetch::start(assembler, &order, left, workers, window))
            .flatten();
        let supply = match prefetch {
            Some(prefetch) => Supply::Threads(prefetch),
            None => Supply::Inline { order, canvas: Canvas::default() },
        };
        Self { assembler: Arc::clone(assembler), supply, next, state }
    }

    /// Where the stream is: after the batch that was taken last.
    #[must_use]
    pub fn state(&self) -> LoaderState {
        self.state.clone()
    }
}

impl Iterator for Epoch {
    type Item = Result<ImageBatch, DataError>;

    fn next(&mut self) -> Option<Self::Item> {
        let batches = self.assembler.batches();
        if self.next >= batches {
            return None;
        }
        let batch = match &mut self.supply {
            Supply::Inline { order, canvas } => self.assembler.batch(order, self.next, canvas),
            Supply::Threads(prefetch) => prefetch.take(self.next),
        };
        if batch.is_ok() {
            self.next += 1;
            self.state.position = self.assembler.position_of(self.next);
        } else {
            self.next = batches;
        }
        Some(batch)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (0, Some(self.assembler.batches() - self.next))
    }
}

impl Debug for Epoch {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_struct("Epoch").field("state", &self.state).finish_non_exhaustive()
    }
}
