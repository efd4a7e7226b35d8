//! A batch of samples of any shape.

use burn::tensor::{Device, Int, Tensor, TensorData};

use crate::error::DataError;

/// A batch of samples of one shape.
#[derive(Debug, Clone, PartialEq)]
pub struct TensorBatch {
    pub(crate) shape: Vec<usize>,
    pub(crate) values: Vec<f32>,
    pub(crate) targets: TargetBatch,
    pub(crate) indices: Vec<usize>,
}

/// The targets of the samples of a batch.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum TargetBatch {
    /// None: the samples are their own target, or there is none.
    None,
    /// A class each.
    Classes(Vec<usize>),
    /// Numbers of the same shape for each sample.
    Values {
        /// The shape of one sample's numbers.
        shape: Vec<usize>,
        /// Sample by sample.
        values: Vec<f32>,
    },
    /// Reads an image per sample.
    Images {
        /// `[channels, height, width]` or `[channels, depth, height, width]`.
        shape: Vec<usize>,
        /// Sample by sample.
        values: Vec<f32>,
    },
    /// One mask per sample: the label of every pixel or voxel.
    Labels {
        /// `[height, width]` or `[depth, height, width]`.
        shape: Vec<usize>,
        /// Sample by sample.
        labels: Vec<u16>,
    },
}

impl TargetBatch {
    /// The name of this kind of targets in messages.
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

impl TensorBatch {
    /// The number of samples.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.indices.len()
    }

    /// Whether the batch is empty; a loader never delivers such a batch.
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

    /// The targets.
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
    /// [`DataError::BatchTarget`] if the targets are not classes.
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
    /// [`DataError::BatchTarget`] if the targets are not labels, [`DataError::BatchRank`] if `D` is
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

    /// Truncates the batch to its first samples.
    pub(crate) fn truncate(&mut self, samples: usize) {
        self.values.truncate(samples * self.shape.iter().product::<usize>());
        self.indices.truncate(samples);
        match &mut self.targets {
            TargetBatch::None => {}
            TargetBatch::Classes(classes) => classes.truncate(samples),
            TargetBatch::Values { shape, values } | TargetBatch::Images { shape, values } => {
                values.truncate(samples * shape.iter().product::<usize>());
            }
            TargetBatch::Labels { shape, labels } => {
                labels.truncate(samples * shape.iter().product::<usize>());
            }
        }
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

/// Copies through staging memory where the device has it..
fn staged(mut data: TensorData, device: &Device) -> TensorData {
    device.staging(std::iter::once(&mut data));
    data
}
