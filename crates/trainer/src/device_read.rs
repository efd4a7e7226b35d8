//! The reads of a training loop, each of which makes the host wait for the device.

use burn::tensor::{DType, FloatDType, Tensor, Transaction};

/// Reads tensors by one transaction. Every read of an update goes through this function, and a test
/// counts its calls.
pub(crate) fn read(tensors: Vec<Tensor<1>>) -> Vec<Vec<f64>> {
    if tensors.is_empty() {
        return Vec::new();
    }
    #[cfg(test)]
    tests::count_read();
    let reading = tensors.into_iter().fold(Transaction::default(), Transaction::register);
    reading.execute().into_iter().map(|data| data.iter().collect()).collect()
}

/// Several tensors as one on the device, so that a read copies one buffer.
pub(crate) struct Packed {
    numbers: Tensor<1>,
    /// The length of each tensor.
    lengths: Vec<usize>,
}

impl Packed {
    /// Packs at least one tensor; nothing is read.
    pub(crate) fn of(tensors: Vec<Tensor<1>>) -> Self {
        let lengths = tensors.iter().map(|tensor| tensor.dims()[0]).collect();
        Self { numbers: joined(tensors), lengths }
    }

    /// The numbers of each tensor of each pack, by one read of one tensor.
    pub(crate) fn read_all(packs: Vec<Self>) -> Vec<Vec<Vec<f64>>> {
        if packs.is_empty() {
            return Vec::new();
        }
        let (tensors, lengths): (Vec<_>, Vec<_>) =
            packs.into_iter().map(|pack| (pack.numbers, pack.lengths)).unzip();
        let mut numbers = read(vec![joined(tensors)]).into_iter().flatten();
        let mut of = |length: usize| numbers.by_ref().take(length).collect::<Vec<f64>>();
        lengths.into_iter().map(|pack| pack.into_iter().map(&mut of).collect()).collect()
    }
}

/// The tensors behind each other, in f32, or in f64 if one of them is: both represent every number
/// of a narrower dtype.
fn joined(tensors: Vec<Tensor<1>>) -> Tensor<1> {
    let is_wide = tensors.iter().any(|tensor| tensor.dtype() == DType::F64);
    let dtype = if is_wide { FloatDType::F64 } else { FloatDType::F32 };
    Tensor::cat(tensors.into_iter().map(|tensor| tensor.cast(dtype)).collect(), 0)
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

    /// How often this thread has read numbers of updates from a device.
    pub(crate) fn reads() -> usize {
        READS.get()
    }

    #[test]
    fn packs_of_several_dtypes_are_read_at_once_and_stay_apart() {
        let _alone = alone();
        let device = Device::flex();
        let tensor = |values: &[f64], dtype: FloatDType| {
            let data = burn::tensor::TensorData::new(values.to_vec(), [values.len()]);
            Tensor::<1>::from_data(data, &device).cast(dtype)
        };
        let third = 1.0 / 3.0;
        let before = reads();
        let read = Packed::read_all(vec![
            Packed::of(vec![tensor(&[1.0, 2.0], FloatDType::F32), tensor(&[], FloatDType::F32)]),
            Packed::of(vec![
                tensor(&[0.5], FloatDType::F16),
                tensor(&[1.0], FloatDType::F64).div_scalar(3.0),
            ]),
        ]);
        assert_eq!(reads() - before, 1);
        assert_eq!(read, [vec![vec![1.0, 2.0], vec![]], vec![vec![0.5], vec![third]]]);
        assert!(Packed::read_all(Vec::new()).is_empty());
        assert_eq!(reads() - before, 1, "nothing to read");
    }
}
