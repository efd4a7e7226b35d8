//! The rows of a set on the device.

use burn::tensor::{Device, Int, Tensor};
use updraft_data::{DeviceSamples, index_tensor};

use super::learn::{RowInput, place_rows};
use super::rows::{RowBatch, TargetBatch};
use super::tensors::{TableTargets, TargetTensors, ValueTensor};
use crate::task::resident::BatchFrom;

/// A batch of rows with their targets.
pub(super) type TableBatch = BatchFrom<RowBatch, (RowInput, TableTargets)>;

/// All rows of a set on the device, with their targets.
pub(super) struct PlacedRows {
    input: RowInput,
    targets: Vec<PlacedTarget>,
}

/// The values of a target.
struct PlacedTarget {
    /// Where the value of each row is; `None` if every row has one, in the order of the rows.
    places: Option<Vec<Option<usize>>>,
    values: ValueTensor,
}

impl PlacedRows {
    pub(super) fn new(all: RowBatch, device: &Device) -> Self {
        let rows = all.indices.len();
        let targets = all.targets.into_iter().map(|target| PlacedTarget::new(target, rows, device));
        let targets = targets.collect();
        Self { input: place_rows((all.classes, all.numbers), rows, device), targets }
    }
}

impl DeviceSamples for PlacedRows {
    type Batch = (RowInput, TableTargets);

    fn select(&self, indices: &[usize]) -> Self::Batch {
        let (classes, numbers) = &self.input;
        let places = index_tensor(indices, &numbers.device());
        let targets = self.targets.iter().map(|target| target.select(indices, &places));
        let targets = TableTargets { rows: indices.len(), targets: targets.collect() };
        let classes = classes.clone().select(0, places.clone());
        ((classes, numbers.clone().select(0, places)), targets)
    }
}

impl PlacedTarget {
    fn new(target: TargetBatch, rows: usize, device: &Device) -> Self {
        let places = (target.rows.len() < rows).then(|| {
            let mut places = vec![None; rows];
            for (place, &row) in target.rows.iter().enumerate() {
                places[row as usize] = Some(place);
            }
            places
        });
        Self { places, values: TargetTensors::place(target, rows, device).values }
    }

    /// The target of rows, whose indices `all` has, too.
    fn select(&self, indices: &[usize], all: &Tensor<1, Int>) -> TargetTensors {
        let Some(places) = &self.places else {
            let values = self.values.select(all.clone());
            return TargetTensors { rows: None, present: indices.len(), values };
        };
        let found = indices.iter().map(|&index| places[index]).enumerate();
        let (rows, found): (Vec<usize>, Vec<usize>) =
            found.filter_map(|(row, place)| Some((row, place?))).unzip();
        let (present, device) = (rows.len(), all.device());
        let values = self.values.select(index_tensor(&found, &device));
        let is_part = present < indices.len() && present > 0;
        let rows = is_part.then(|| index_tensor(&rows, &device));
        TargetTensors { rows, present, values }
    }
}
