//! What the metrics of a task are computed from.

use std::fmt::Debug;

use serde::Serialize;
use serde::de::DeserializeOwned;

/// What the metrics of a task are computed from: numbers added over batches.
///
/// A score in the middle of an epoch is part of a checkpoint, so it serializes; use
/// [`Sum`](crate::Sum) for an f64, which has to be restored to the bit. An integer is a count: a
/// checkpoint with one above 2⁵³ or below 0 is refused. Scores of parts of a set merge into that of
/// the whole.
pub trait Score: Clone + Debug + Default + PartialEq + Serialize + DeserializeOwned {
    /// Adds the numbers that [`Task::measure`](crate::Task::measure) returned for a batch of so
    /// many samples.
    fn add(&mut self, numbers: &[f64], samples: usize);

    /// Adds the samples of another score.
    fn merge(&mut self, other: &Self);
}

/// For a task whose only metric is its loss.
impl Score for () {
    fn add(&mut self, _: &[f64], _: usize) {}

    fn merge(&mut self, (): &Self) {}
}
