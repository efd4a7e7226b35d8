//! Reading the numbers of batches from the device, all at once.

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

/// The same numbers while they are on the device, without an autodiff graph.
pub(crate) struct BatchTensors {
    /// The loss, then its parts.
    losses: Vec<Tensor<1>>,
    numbers: Option<Tensor<1>>,
    squares: Option<Tensor<1>>,
}

impl BatchTensors {
    pub(crate) fn new(
        losses: Losses,
        numbers: Option<Tensor<1>>,
        squares: Option<Tensor<1>>,
    ) -> Self {
        let losses = std::iter::once(losses.total).chain(losses.parts);
        Self { losses: losses.map(Tensor::without_autodiff).collect(), numbers, squares }
    }

    /// Reads the numbers of one batch.
    pub(crate) fn read(self) -> BatchNumbers {
        Self::read_all(vec![self]).pop().expect("the numbers of one batch")
    }

    /// Reads the numbers of several batches by one transaction.
    pub(crate) fn read_all(batches: Vec<Self>) -> Vec<BatchNumbers> {
        #[cfg(test)]
        tests::count_read();
        let shapes: Vec<_> = batches
            .iter()
            .map(|it| (it.losses.len(), it.numbers.is_some(), it.squares.is_some()))
            .collect();
        let tensors = batches
            .into_iter()
            .flat_map(|it| it.losses.into_iter().chain(it.numbers).chain(it.squares));
        let read = tensors.fold(Transaction::default(), Transaction::register);
        let mut read = read.execute().into_iter().map(|data| data.iter().collect::<Vec<f64>>());
        let mut next = || read.next().unwrap_or_default();
        let numbers_of = |(losses, has_numbers, has_squares): (usize, bool, bool)| BatchNumbers {
            loss: next().first().copied().unwrap_or(f64::NAN),
            parts: (1..losses).flat_map(|_| next()).collect(),
            numbers: if has_numbers { next() } else { Vec::new() },
            squares: if has_squares { next() } else { Vec::new() },
        };
        shapes.into_iter().map(numbers_of).collect()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::cell::Cell;

    use burn::tensor::Device;
    use updraft_testing::alone;

    use super::*;

    thread_local! {
        static READS: Cell<usize> = const { Cell::new(0) };
    }

    pub(super) fn count_read() {
        READS.set(READS.get() + 1);
    }

    /// How often this thread has read numbers of batches from a device.
    pub(crate) fn reads() -> usize {
        READS.get()
    }

    #[test]
    fn the_numbers_of_several_batches_are_read_together_and_stay_apart() {
        let _alone = alone();
        let device = Device::flex();
        let tensor = |values: &[f32]| Tensor::<1>::from_floats(values, &device);
        let losses = |total, parts: &[f32]| Losses {
            total: tensor(&[total]),
            parts: parts.iter().map(|part| tensor(&[*part])).collect(),
        };
        let before = reads();
        let read = BatchTensors::read_all(vec![
            BatchTensors::new(losses(1.0, &[2.0, 3.0]), None, Some(tensor(&[4.0, 5.0]))),
            BatchTensors::new(losses(6.0, &[7.0, 8.0]), Some(tensor(&[9.0])), None),
            BatchTensors::new(losses(10.0, &[]), None, None),
        ]);
        assert_eq!(reads() - before, 1);
        let found: Vec<_> = read
            .iter()
            .map(|it| (it.loss, it.parts.clone(), it.numbers.clone(), it.squares.clone()))
            .collect();
        let expected = [
            (1.0, vec![2.0, 3.0], vec![], vec![4.0, 5.0]),
            (6.0, vec![7.0, 8.0], vec![9.0], vec![]),
            (10.0, vec![], vec![], vec![]),
        ];
        assert_eq!(found, expected);
    }
}
