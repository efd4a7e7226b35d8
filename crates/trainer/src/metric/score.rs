//! The trait of a task's score.

use std::fmt::Debug;

use serde::Serialize;
use serde::de::DeserializeOwned;

/// A task's score, from which its metrics are computed: numbers added over batches.
///
/// A score in the middle of an epoch is part of a checkpoint, so it serializes; use
/// [`Sum`](crate::Sum) for an f64, so that it is restored bit for bit. An integer is a count: a
/// checkpoint with one above 2⁵³ or below 0 is refused. Scores of parts of a data set can be
/// merged.
pub trait Score: Clone + Debug + Default + PartialEq + Serialize + DeserializeOwned {
    /// Adds the numbers that [`Task::measure`](crate::Task::measure) returned for a batch of
    /// `samples` samples.
    fn add(&mut self, numbers: &[f64], samples: usize);

    /// Adds the samples of another score.
    fn merge(&mut self, other: &Self);
}

/// For a task whose only metric is its loss.
impl Score for () {
    fn add(&mut self, _: &[f64], _: usize) {}

    fn merge(&mut self, (): &Self) {}
}
