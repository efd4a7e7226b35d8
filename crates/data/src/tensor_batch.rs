//! Some samples of any shape, ready for a model.

use burn::tensor::{Device, Int, Tensor, TensorData};

/// Some samples of one shape, ready for a model.
#[derive(Debug, Clone, PartialEq)]
pub struct TensorBatch {
    pub(crate) shape: Vec<usize>,
    pub(crate) values: Vec<f32>,
    pub(crate) targets: TargetBatch,
    pub(crate) indices: Vec<usize>,
}

/// What the samples of a batch are to be told as.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum TargetBatch {
    /// Nothing.
    None,
    /// A class each.
    Classes(Vec<usize>),
    /// Numbers each, of the same shape.
    Values {
        /// The shape of one sample's numbers.
        shape: Vec<usize>,
        /// Sample by sample.
        values: Vec<f32>,
    },
}

impl TensorBatch {
    /// How many samples there are.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.indices.len()
    }

    /// Whether there are none; a loader never delivers such a batch.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.indices.is_empty()
    }

    /// The shape of one sample.
    #[must_use]
    pub fn sample_shape(&self) -> &[usize] {
        &self.shape
    }

    /// The numbers, sample by sample.
    #[must_use]
    pub fn values(&self) -> &[f32] {
        &self.values
    }

    /// What the samples are to be told as.
    #[must_use]
    pub const fn targets(&self) -> &TargetBatch {
        &self.targets
    }

    /// The index of each sample in the loader's set.
    #[must_use]
    pub fn indices(&self) -> &[usize] {
        &self.indices
    }

    /// The samples as a tensor `[samples, …]` in the device's default dtype.
    ///
    /// # Panics
    /// If `D` is not one more than the axes of a sample.
    #[must_use]
    pub fn input<const D: usize>(&self, device: &Device) -> Tensor<D> {
        tensor(&self.values, self.len(), &self.shape, device)
    }

    /// The classes as a tensor `[samples]`.
    ///
    /// # Panics
    /// If the targets are no classes.
    #[must_use]
    pub fn classes(&self, device: &Device) -> Tensor<1, Int> {
        let TargetBatch::Classes(classes) = &self.targets else {
            panic!("the targets of the batch are no classes")
        };
        let classes: Vec<i64> = classes.iter().map(|&class| class as i64).collect();
        Tensor::from_data(staged(TensorData::new(classes, [self.len()]), device), device)
    }

    /// The target numbers as a tensor `[samples, …]` in the device's default dtype.
    ///
    /// # Panics
    /// If the targets are no numbers, or `D` is not one more than the axes of a target.
    #[must_use]
    pub fn target_values<const D: usize>(&self, device: &Device) -> Tensor<D> {
        let TargetBatch::Values { shape, values } = &self.targets else {
            panic!("the targets of the batch are no numbers")
        };
        tensor(values, self.len(), shape, device)
    }
}

fn tensor<const D: usize>(
    values: &[f32],
    samples: usize,
    shape: &[usize],
    device: &Device,
) -> Tensor<D> {
    assert_eq!(D, shape.len() + 1, "a batch of samples of shape {shape:?} has another rank");
    let shape: Vec<usize> = [&[samples], shape].concat();
    Tensor::from_data(staged(TensorData::new(values.to_vec(), shape), device), device)
}

/// Where the device has memory that it copies from by itself, the way there leads through.
fn staged(mut data: TensorData, device: &Device) -> TensorData {
    device.staging(std::iter::once(&mut data));
    data
}
