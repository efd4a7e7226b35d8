//! Reading the numbers of a batch from the device, all at once.

use burn::tensor::{Tensor, Transaction};

use crate::task::Losses;

/// The numbers of a batch, read after all of its work was submitted: each read waits for the
/// device.
pub(crate) struct BatchNumbers {
    pub(crate) loss: f64,
    pub(crate) parts: Vec<f64>,
    /// The numbers of [`Task::measure`](crate::Task::measure).
    pub(crate) numbers: Vec<f64>,
    /// The gradients' sums of squares, with the last batch of an update.
    pub(crate) squares: Vec<f64>,
}

impl BatchNumbers {
    /// Reads all tensors by one transaction.
    pub(crate) fn of(
        losses: Losses,
        numbers: Option<Tensor<1>>,
        squares: Option<Tensor<1>>,
    ) -> Self {
        let (parts, is_measured) = (losses.parts.len(), numbers.is_some());
        let tensors = std::iter::once(losses.total).chain(losses.parts);
        let tensors = tensors.map(Tensor::without_autodiff).chain(numbers).chain(squares);
        let read = tensors.fold(Transaction::default(), Transaction::register);
        let mut read = read.execute().into_iter().map(|data| data.iter().collect::<Vec<f64>>());
        let mut next = || read.next().unwrap_or_default();
        Self {
            loss: next().first().copied().unwrap_or(f64::NAN),
            parts: (0..parts).flat_map(|_| next()).collect(),
            numbers: if is_measured { next() } else { Vec::new() },
            squares: next(),
        }
    }
}
