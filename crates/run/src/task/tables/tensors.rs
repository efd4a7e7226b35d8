//! The targets of a batch on a device.

use burn::tensor::{Device, FloatDType, Int, Tensor, TensorData};
use updraft_trainer::{TensorMap, Tensors, with_graph};

use super::rows::{BatchValues, TargetBatch};

/// The targets of a batch, in the order of the network's heads.
#[derive(Debug, Clone)]
pub(super) struct TableTargets {
    /// The number of rows.
    pub(super) rows: usize,
    pub(super) targets: Vec<TargetTensors>,
}

/// The target of the rows that have it.
#[derive(Debug, Clone)]
pub(super) struct TargetTensors {
    /// The indices of these rows in the batch, `[present]`; `None` if all have it.
    pub(super) rows: Option<Tensor<1, Int>>,
    /// How many.
    pub(super) present: usize,
    pub(super) values: ValueTensor,
}

/// A value for each of those rows.
#[derive(Debug, Clone)]
pub(super) enum ValueTensor {
    /// Classes, `[present]`.
    Classes(Tensor<1, Int>),
    /// Numbers, or zeros and ones, `[present, width]`.
    Numbers(Tensor<2>),
}

impl ValueTensor {
    /// The values at these places.
    pub(super) fn select(&self, places: Tensor<1, Int>) -> Self {
        match self.clone() {
            Self::Classes(classes) => Self::Classes(classes.select(0, places)),
            Self::Numbers(numbers) => Self::Numbers(numbers.select(0, places)),
        }
    }
}

impl TargetTensors {
    pub(super) fn place(batch: TargetBatch, of_rows: usize, device: &Device) -> Self {
        let present = batch.rows.len();
        let ints = |values: Vec<i32>| {
            let data = TensorData::new(values, [present]);
            Tensor::<1, Int>::from_data(data, device)
        };
        let values = match batch.values {
            BatchValues::Classes(classes) => ValueTensor::Classes(ints(classes)),
            BatchValues::Numbers { width, values } => {
                let data = TensorData::new(values, [present, width]);
                ValueTensor::Numbers(Tensor::from_data(data, device))
            }
        };
        let rows = (present < of_rows && present > 0).then(|| ints(batch.rows));
        Self { rows, present, values }
    }

    /// The same with the graph of `device`.
    pub(super) fn with_graph(&self, device: &Device) -> Self {
        let rows = self.rows.clone().map(|rows| with_graph(rows, device));
        let values = match self.values.clone() {
            ValueTensor::Classes(classes) => ValueTensor::Classes(with_graph(classes, device)),
            ValueTensor::Numbers(numbers) => ValueTensor::Numbers(with_graph(numbers, device)),
        };
        Self { rows, present: self.present, values }
    }

    /// The outputs of the rows that have the target.
    pub(super) fn of(&self, outputs: &Tensor<2>) -> Tensor<2> {
        match &self.rows {
            Some(rows) => outputs.clone().select(0, rows.clone()),
            None => outputs.clone(),
        }
    }
}

impl Tensors for TableTargets {
    fn cast_floats(mut self, dtype: FloatDType) -> Self {
        for target in &mut self.targets {
            if let ValueTensor::Numbers(numbers) = &mut target.values {
                *numbers = numbers.clone().cast(dtype);
            }
        }
        self
    }

    fn without_graph(mut self) -> Self {
        for target in &mut self.targets {
            target.rows = target.rows.take().map(Tensor::without_autodiff);
            target.values = match target.values.clone() {
                ValueTensor::Classes(classes) => ValueTensor::Classes(classes.without_autodiff()),
                ValueTensor::Numbers(numbers) => ValueTensor::Numbers(numbers.without_autodiff()),
            };
        }
        self
    }

    fn device(&self) -> Option<Device> {
        self.targets.first().map(|target| match &target.values {
            ValueTensor::Classes(classes) => classes.device(),
            ValueTensor::Numbers(numbers) => numbers.device(),
        })
    }

    fn to_floats(&self) -> Vec<f32> {
        let numbers = self.targets.iter().filter_map(|target| match &target.values {
            ValueTensor::Numbers(numbers) => Some(numbers.to_data()),
            ValueTensor::Classes(_) => None,
        });
        numbers.flat_map(|data| data.iter::<f32>().collect::<Vec<_>>()).collect()
    }

    fn to_numbers(&self) -> Vec<f64> {
        let values = self.targets.iter().map(|target| match &target.values {
            ValueTensor::Numbers(numbers) => numbers.to_numbers(),
            ValueTensor::Classes(classes) => classes.to_numbers(),
        });
        values.flatten().collect()
    }

    fn shapes(&self) -> Vec<Vec<usize>> {
        let numbers = self.targets.iter().filter_map(|target| match &target.values {
            ValueTensor::Numbers(numbers) => Some(numbers.dims().to_vec()),
            ValueTensor::Classes(_) => None,
        });
        numbers.collect()
    }

    fn map_tensors<V: TensorMap>(mut self, map: &mut V) -> Self {
        for target in &mut self.targets {
            target.rows = target.rows.take().map_tensors(map);
            target.values = match target.values.clone() {
                ValueTensor::Classes(classes) => ValueTensor::Classes(map.map(classes)),
                ValueTensor::Numbers(numbers) => ValueTensor::Numbers(map.map(numbers)),
            };
        }
        self
    }
}
