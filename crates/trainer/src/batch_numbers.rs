//! The numbers of a batch that are read from the device, all at once.

use burn::tensor::Tensor;

use crate::device_read::read;
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

/// Which tensors a batch has.
pub(crate) struct BatchLayout {
    losses: usize,
    has_numbers: bool,
    has_squares: bool,
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
        let (layout, tensors) = self.into_tensors();
        layout.numbers(&mut read(tensors).into_iter())
    }

    /// The tensors, which [`BatchLayout::numbers`] takes apart after a read.
    pub(crate) fn into_tensors(self) -> (BatchLayout, Vec<Tensor<1>>) {
        let Self { losses, numbers, squares } = self;
        let layout = BatchLayout {
            losses: losses.len(),
            has_numbers: numbers.is_some(),
            has_squares: squares.is_some(),
        };
        (layout, losses.into_iter().chain(numbers).chain(squares).collect())
    }
}

impl BatchLayout {
    /// Takes the numbers of the batch from those of several.
    pub(crate) fn numbers(&self, read: &mut impl Iterator<Item = Vec<f64>>) -> BatchNumbers {
        let mut next = || read.next().unwrap_or_default();
        BatchNumbers {
            loss: next().first().copied().unwrap_or(f64::NAN),
            parts: (1..self.losses).flat_map(|_| next()).collect(),
            numbers: if self.has_numbers { next() } else { Vec::new() },
            squares: if self.has_squares { next() } else { Vec::new() },
        }
    }
}

#[cfg(test)]
mod tests {
    use burn::tensor::Device;
    use updraft_testing::alone;

    use super::*;

    #[test]
    fn the_numbers_of_several_batches_stay_apart() {
        let _alone = alone();
        let device = Device::flex();
        let tensor = |values: &[f32]| Tensor::<1>::from_floats(values, &device);
        let losses = |total, parts: &[f32]| Losses {
            total: tensor(&[total]),
            parts: parts.iter().map(|part| tensor(&[*part])).collect(),
        };
        let batches = vec![
            BatchTensors::new(losses(1.0, &[2.0, 3.0]), None, Some(tensor(&[4.0, 5.0]))),
            BatchTensors::new(losses(6.0, &[7.0, 8.0]), Some(tensor(&[9.0])), None),
            BatchTensors::new(losses(10.0, &[]), None, None),
        ];
        let (layouts, tensors): (Vec<_>, Vec<_>) =
            batches.into_iter().map(BatchTensors::into_tensors).unzip();
        let mut numbers = read(tensors.into_iter().flatten().collect()).into_iter();
        let read: Vec<_> = layouts.iter().map(|layout| layout.numbers(&mut numbers)).collect();
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
