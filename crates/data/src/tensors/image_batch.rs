//! A batch of images as tensors.

use burn::tensor::{Device, Int, Tensor, TensorData};

use crate::batch::ImageBatch;

impl ImageBatch {
    /// Images `[samples, 3, height, width]` and labels `[samples]` as tensors, in the device's
    /// default dtypes.
    ///
    /// A label is a sample's own class even where samples were mixed: take [`mix`](Self::mix) or
    /// [`soft_labels`](Self::soft_labels) before, or the partner's share is learned as an error.
    #[must_use]
    pub fn to_device(self, device: &Device) -> (Tensor<4>, Tensor<1, Int>) {
        let (shape, samples) = (self.shape(), self.len());
        let labels: Vec<i64> = self.labels.into_iter().map(|label| label as i64).collect();
        let mut images = TensorData::new(self.planes, shape);
        let mut labels = TensorData::new(labels, [samples]);
        // Where the device has memory that it copies from by itself, the way there leads through.
        device.staging([&mut images, &mut labels].into_iter());
        (Tensor::from_data(images, device), Tensor::from_data(labels, device))
    }
}
