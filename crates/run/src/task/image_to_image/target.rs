//! Training targets: masks or images.

use burn::tensor::{Device, FloatDType, Int, Tensor, TensorData};
use updraft_data::{TargetBatch, TensorBatch};
use updraft_trainer::{StreamError, TensorMap, Tensors};

use crate::task::image_pairs::data_plan::LabelKind;

/// The targets of a batch.
#[derive(Debug, Clone)]
pub(super) enum ImageTarget<const D: usize> {
    /// The class of every position, `[batch, positions]`.
    Masks(Tensor<2, Int>),
    /// `[batch, channels, …sides]`.
    Image(Tensor<D>),
}

impl<const D: usize> ImageTarget<D> {
    pub(super) fn of(
        batch: &TensorBatch,
        labels_are: LabelKind,
        device: &Device,
    ) -> Result<Self, StreamError> {
        let TargetBatch::Labels { labels, .. } = batch.targets() else {
            return Ok(Self::Image(batch.target_values(device)?));
        };
        let class = |&label: &u16| match labels_are {
            LabelKind::Classes => i64::from(label),
            LabelKind::Foreground => i64::from(label > 0),
        };
        let positions = labels.len() / batch.len();
        let classes: Vec<i64> = labels.iter().map(class).collect();
        let mut data = TensorData::new(classes, [batch.len(), positions]);
        device.staging(std::iter::once(&mut data));
        Ok(Self::Masks(Tensor::from_data(data, device)))
    }

    pub(super) fn samples(&self) -> usize {
        match self {
            Self::Masks(labels) => labels.dims()[0],
            Self::Image(image) => image.dims()[0],
        }
    }
}

impl<const D: usize> Tensors for ImageTarget<D> {
    fn cast_floats(self, dtype: FloatDType) -> Self {
        match self {
            Self::Masks(labels) => Self::Masks(labels),
            Self::Image(image) => Self::Image(image.cast(dtype)),
        }
    }

    fn without_graph(self) -> Self {
        match self {
            Self::Masks(labels) => Self::Masks(labels.without_graph()),
            Self::Image(image) => Self::Image(image.without_graph()),
        }
    }

    fn device(&self) -> Option<Device> {
        match self {
            Self::Masks(labels) => Tensors::device(labels),
            Self::Image(image) => Tensors::device(image),
        }
    }

    fn to_floats(&self) -> Vec<f32> {
        match self {
            Self::Masks(labels) => labels.to_floats(),
            Self::Image(image) => image.to_floats(),
        }
    }

    fn to_numbers(&self) -> Vec<f64> {
        match self {
            Self::Masks(labels) => labels.to_numbers(),
            Self::Image(image) => image.to_numbers(),
        }
    }

    fn shapes(&self) -> Vec<Vec<usize>> {
        match self {
            Self::Masks(labels) => labels.shapes(),
            Self::Image(image) => image.shapes(),
        }
    }

    fn map_tensors<V: TensorMap>(self, map: &mut V) -> Self {
        match self {
            Self::Masks(labels) => Self::Masks(map.map(labels)),
            Self::Image(image) => Self::Image(map.map(image)),
        }
    }
}
