//! A batch of samples of any shape as tensors.

use burn::tensor::{Device, Int, Tensor, TensorData};

use crate::error::DataError;
use crate::tensor_batch::{TargetBatch, TensorBatch};

impl TensorBatch {
    /// The samples as a tensor `[samples, …]` in the device's default dtype.
    ///
    /// # Errors
    /// [`DataError::BatchRank`] if `D` is not one more than the axes of a sample.
    pub fn input<const D: usize>(&self, device: &Device) -> Result<Tensor<D>, DataError> {
        let shape = self.shape::<D>("input", &self.shape)?;
        let data = TensorData::new(self.values.clone(), shape);
        Ok(Tensor::from_data(staged(data, device), device))
    }

    /// The classes as a tensor `[samples]`.
    ///
    /// # Errors
    /// [`DataError::BatchTarget`] if the targets are no classes.
    pub fn classes(&self, device: &Device) -> Result<Tensor<1, Int>, DataError> {
        let TargetBatch::Classes(classes) = &self.targets else {
            return Err(self.other_target("classes"));
        };
        let classes: Vec<i64> = classes.iter().map(|&class| class as i64).collect();
        let data = TensorData::new(classes, [self.len()]);
        Ok(Tensor::from_data(staged(data, device), device))
    }

    /// The target values or images as a tensor `[samples, …]` in the device's default dtype.
    ///
    /// # Errors
    /// [`DataError::BatchTarget`] if the targets are neither values nor images,
    /// [`DataError::BatchRank`] if `D` is not one more than the axes of a target.
    pub fn target_values<const D: usize>(&self, device: &Device) -> Result<Tensor<D>, DataError> {
        let (TargetBatch::Values { shape, values } | TargetBatch::Images { shape, values }) =
            &self.targets
        else {
            return Err(self.other_target("values or images"));
        };
        let shape = self.shape::<D>("target", shape)?;
        let data = TensorData::new(values.clone(), shape);
        Ok(Tensor::from_data(staged(data, device), device))
    }

    /// The label of every pixel, `[samples, height, width]`, or of every voxel, `[samples, depth,
    /// height, width]`.
    ///
    /// # Errors
    /// [`DataError::BatchTarget`] if the targets are no labels, [`DataError::BatchRank`] if `D` is
    /// not one more than the axes of a mask.
    pub fn target_labels<const D: usize>(
        &self,
        device: &Device,
    ) -> Result<Tensor<D, Int>, DataError> {
        let TargetBatch::Labels { shape, labels } = &self.targets else {
            return Err(self.other_target("labels"));
        };
        let shape = self.shape::<D>("target", shape)?;
        let labels: Vec<i64> = labels.iter().map(|&label| i64::from(label)).collect();
        Ok(Tensor::from_data(staged(TensorData::new(labels, shape), device), device))
    }

    /// The shape of the batch, if it has `D` axes.
    fn shape<const D: usize>(
        &self,
        part: &'static str,
        sample: &[usize],
    ) -> Result<Vec<usize>, DataError> {
        let shape = [&[self.len()], sample].concat();
        if shape.len() == D {
            return Ok(shape);
        }
        Err(DataError::BatchRank { part, expected: D, got: shape })
    }

    fn other_target(&self, expected: &'static str) -> DataError {
        DataError::BatchTarget { expected, got: self.targets.kind() }
    }
}

impl TargetBatch {
    /// What a message calls targets of this kind.
    const fn kind(&self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Classes(_) => "classes",
            Self::Values { .. } => "values",
            Self::Images { .. } => "images",
            Self::Labels { .. } => "labels",
        }
    }
}

/// Copies through pinned memory if the device has it.
fn staged(mut data: TensorData, device: &Device) -> TensorData {
    device.staging(std::iter::once(&mut data));
    data
}
