//! The rows of a set on the device.

use burn::tensor::{Bool, Device, Int, Tensor, TensorData};
use updraft_data::{DeviceSamples, Draw, Draws, Vocabulary, index_tensor};

use super::learn::{RowInput, place_rows};
use super::rows::{RowBatch, RowSet, TargetBatch};
use super::tensors::{TableTargets, TargetTensors, ValueTensor};
use super::unknown::UnknownShare;
use crate::task::resident::BatchFrom;

/// A batch of rows with their targets.
pub(super) type TableBatch = BatchFrom<RowBatch, (RowInput, TableTargets)>;

/// All rows of a set on the device, with their targets.
pub(super) struct PlacedRows {
    input: RowInput,
    targets: Vec<PlacedTarget>,
    unknown_share: UnknownShare,
}

/// The values of a target.
struct PlacedTarget {
    /// Where the value of each row is; `None` if every row has one, in the order of the rows.
    places: Option<Vec<Option<usize>>>,
    values: ValueTensor,
}

impl PlacedRows {
    pub(super) fn new(set: &RowSet, all: RowBatch, device: &Device) -> Self {
        let rows = all.indices.len();
        let targets = all.targets.into_iter().map(|target| PlacedTarget::new(target, rows, device));
        let targets = targets.collect();
        let input = place_rows((all.classes, all.numbers), rows, device);
        Self { input, targets, unknown_share: set.unknown_share() }
    }

    /// The categories of a batch that are replaced by unknown, `[rows, columns]`.
    fn unknown(&self, draws: Draws<'_>, device: &Device) -> Tensor<2, Bool> {
        let [_, columns] = self.input.0.dims();
        let Draws { seed, epoch, indices } = draws;
        let of_row = |&index: &usize| {
            (0..columns).map(self.unknown_share.drawn(Draw { seed, epoch, index }))
        };
        let drawn: Vec<bool> = indices.iter().flat_map(of_row).collect();
        Tensor::from_data(TensorData::new(drawn, [indices.len(), columns]), device)
    }
}

impl DeviceSamples for PlacedRows {
    type Batch = (RowInput, TableTargets);

    fn select(&self, draws: Draws<'_>) -> Self::Batch {
        let (indices, (classes, numbers)) = (draws.indices, &self.input);
        let device = numbers.device();
        let places = index_tensor(indices, &device);
        let targets = self.targets.iter().map(|target| target.select(indices, &places));
        let targets = TableTargets { rows: indices.len(), targets: targets.collect() };
        let mut classes = classes.clone().select(0, places.clone());
        if !self.unknown_share.is_none() {
            let unknown = self.unknown(draws, &device);
            classes = classes.mask_fill(unknown, i64::from(Vocabulary::UNKNOWN));
        }
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
