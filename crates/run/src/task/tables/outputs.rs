//! The outputs of a network for any number of rows, computed in parts.

use burn::tensor::{Device, Tensor};
use updraft_precision::Policy;

use super::learn::place_rows;
use super::model::{RowModel, RowNetwork};
use super::rows::RowBatch;

/// Rows of a forward pass, which limits the memory for large files and batches.
pub(super) const ROWS_AT_ONCE: usize = 4096;

/// The outputs of each target for all rows of a batch.
pub(super) fn outputs<N: RowNetwork>(
    (model, policy): (&RowModel<N>, Policy),
    batch: &RowBatch,
    device: &Device,
) -> Vec<Tensor<2>> {
    in_parts((model, policy), batch, ROWS_AT_ONCE, device)
}

fn in_parts<N: RowNetwork>(
    (model, policy): (&RowModel<N>, Policy),
    batch: &RowBatch,
    at_once: usize,
    device: &Device,
) -> Vec<Tensor<2>> {
    let rows = batch.indices.len();
    let (columns, wide) = (batch.classes.len() / rows.max(1), batch.numbers.len() / rows.max(1));
    let mut all: Vec<Vec<Tensor<2>>> = Vec::new();
    for start in (0..rows).step_by(at_once) {
        let end = rows.min(start + at_once);
        let classes = batch.classes[start * columns..end * columns].to_vec();
        let numbers = batch.numbers[start * wide..end * wide].to_vec();
        let (classes, numbers) = place_rows((classes, numbers), end - start, device);
        let part = policy.scope(|| model.outputs(classes, numbers.cast(policy.compute)));
        all.resize_with(part.len(), Vec::new);
        for (target, outputs) in all.iter_mut().zip(part) {
            target.push(outputs.cast(policy.output));
        }
    }
    all.into_iter().map(|parts| Tensor::cat(parts, 0)).collect()
}

#[cfg(test)]
mod tests {
    use updraft_models::{Head, RowFeatures, TableNetConfig};
    use updraft_testing::{assert_close, devices, tolerance};

    use super::super::weighting::LossWeights;
    use super::*;

    #[test]
    fn parts_have_the_outputs_of_the_whole() {
        let _alone = updraft_testing::alone();
        for device in devices() {
            let features = RowFeatures { class_counts: vec![4], numbers: 2 };
            let heads = vec![Head::Numbers(1), Head::Classes(3)];
            let network = TableNetConfig::new(features, heads).init(&device);
            let model = RowModel::new(network, LossWeights::default());
            let batch = RowBatch {
                indices: (0..10).collect(),
                classes: (0..10).map(|row| row % 4).collect(),
                numbers: (0..20).map(|at| at as f32 / 10.0).collect(),
                targets: Vec::new(),
            };
            let of = |at_once| in_parts((&model, Policy::F32), &batch, at_once, &device);
            let whole = of(10);
            assert_eq!(whole.iter().map(Tensor::dims).collect::<Vec<_>>(), [[10, 1], [10, 3]]);
            for at_once in [1, 4, 5] {
                for (whole, parts) in whole.iter().zip(of(at_once)) {
                    let expected: Vec<f64> = whole.to_data().iter().collect();
                    assert_close(&parts, &expected, tolerance::F32);
                }
            }
        }
    }
}
