//! Some samples, ready for a model.

use burn::tensor::{Device, Int, Tensor, TensorData};

use crate::image::Image;

/// Some samples of one size, ready for a model.
#[derive(Debug, Clone, PartialEq)]
pub struct ImageBatch {
    pub(crate) height: usize,
    pub(crate) width: usize,
    pub(crate) planes: Vec<f32>,
    pub(crate) labels: Vec<usize>,
    pub(crate) indices: Vec<usize>,
}

impl ImageBatch {
    /// How many samples there are.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.labels.len()
    }

    /// Whether there are none; a loader never delivers such a batch.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.labels.is_empty()
    }

    /// The shape of [`planes`](Self::planes): `[samples, 3, height, width]`.
    #[must_use]
    pub const fn shape(&self) -> [usize; 4] {
        [self.labels.len(), Image::CHANNELS, self.height, self.width]
    }

    /// The normalized images, sample by sample, red before green before blue, row by row.
    #[must_use]
    pub fn planes(&self) -> &[f32] {
        &self.planes
    }

    /// The class of each sample.
    #[must_use]
    pub fn labels(&self) -> &[usize] {
        &self.labels
    }

    /// The index of each sample in the loader's source.
    #[must_use]
    pub fn indices(&self) -> &[usize] {
        &self.indices
    }

    /// Images `[samples, 3, height, width]` and labels `[samples]` as tensors, in the device's
    /// default dtypes.
    #[must_use]
    pub fn to_device(self, device: &Device) -> (Tensor<4>, Tensor<1, Int>) {
        let (shape, samples) = (self.shape(), self.len());
        let images = TensorData::new(self.planes, shape);
        let labels: Vec<i64> = self.labels.into_iter().map(|label| label as i64).collect();
        let labels = TensorData::new(labels, [samples]);
        (Tensor::from_data(images, device), Tensor::from_data(labels, device))
    }
}
