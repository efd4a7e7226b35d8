//! Pictures of the targets for the report: confusion matrices, residuals, and calibration.

use burn::tensor::activation::softmax;
use burn::tensor::{Device, FloatDType};
use updraft_data::Loader;
use updraft_precision::Policy;

use super::learn::{Learn, Target, place_rows};
use super::model::{RowModel, RowNetwork};
use super::residuals::residual_pictures;
use super::rows::{BatchValues, RowSet, TargetBatch};
use super::target_plan::TargetKind;
use super::targets::TargetCode;
use crate::error::RunError;
use crate::task::Picture;

/// The largest number of classes in a matrix.
const MOST_CLASSES: usize = 100;

/// What is collected of a target over the batches.
enum Collected {
    Matrix(Vec<Vec<u64>>),
    Points(Vec<[f64; 2]>),
    Nothing,
}

/// The pictures of all targets on the test rows.
pub(super) fn pictures<N: RowNetwork>(
    (learn, codes): (&Learn, &[TargetCode]),
    model: &RowModel<N>,
    policy: Policy,
    test: &Loader<RowSet>,
    device: &Device,
) -> Result<Vec<Picture>, RunError> {
    let mut collected: Vec<Collected> = codes.iter().map(begin).collect();
    for batch in test.epoch(0) {
        let batch = batch?;
        let rows = batch.indices.len();
        let (classes, numbers) = place_rows((batch.classes, batch.numbers), rows, device);
        let outputs = policy.scope(|| model.outputs(classes, numbers.cast(policy.compute)));
        for (at, (target, truth)) in learn.targets.iter().zip(&batch.targets).enumerate() {
            let outputs = outputs[at].clone().cast(policy.output).cast(FloatDType::F32);
            let found: Vec<f64> = match target.kind {
                TargetKind::Number => target.number(&outputs).into_data().iter().collect(),
                TargetKind::Labels => Vec::new(),
                TargetKind::Classes | TargetKind::Ordered => {
                    softmax(target.class_logits(&outputs), 1).into_data().iter().collect()
                }
            };
            add(&mut collected[at], &found, truth, &codes[at]);
        }
    }
    let pictures = learn.targets.iter().zip(codes).zip(collected);
    Ok(pictures.flat_map(|((target, code), collected)| draw(target, code, collected)).collect())
}

fn begin(code: &TargetCode) -> Collected {
    match code {
        TargetCode::Classes { classes } | TargetCode::Ordered { classes }
            if classes.len() <= MOST_CLASSES =>
        {
            Collected::Matrix(vec![vec![0; classes.len()]; classes.len()])
        }
        TargetCode::Number { .. } => Collected::Points(Vec::new()),
        _ => Collected::Nothing,
    }
}

/// Adds the rows of a batch that have the target.
fn add(collected: &mut Collected, found: &[f64], truth: &TargetBatch, code: &TargetCode) {
    match (collected, &truth.values, code) {
        (Collected::Matrix(counts), BatchValues::Classes(classes), _) => {
            let width = counts.len();
            for (&row, &class) in truth.rows.iter().zip(classes) {
                let row = &found[row as usize * width..][..width];
                let predicted = largest(row);
                counts[class as usize][predicted] += 1;
            }
        }
        (
            Collected::Points(points),
            BatchValues::Numbers { values, .. },
            TargetCode::Number { mean, std },
        ) => {
            let pair = |(&row, &value): (&i32, &f32)| {
                [f64::from(value), found[row as usize]].map(|number| number * std + mean)
            };
            points.extend(truth.rows.iter().zip(values).map(pair));
        }
        _ => {}
    }
}

/// The position of the largest number, the first of equal ones.
pub(super) fn largest(numbers: &[f64]) -> usize {
    (0..numbers.len()).fold(0, |best, at| if numbers[at] > numbers[best] { at } else { best })
}

fn draw(target: &Target, code: &TargetCode, collected: Collected) -> Vec<Picture> {
    let column = &target.column;
    match (collected, code) {
        (
            Collected::Matrix(counts),
            TargetCode::Classes { classes } | TargetCode::Ordered { classes },
        ) => vec![Picture::Confusion {
            title: Some(format!("Confusion matrix of `{column}` on the test rows")),
            classes: classes.clone(),
            counts,
        }],
        (Collected::Points(points), _) => residual_pictures(column, points),
        _ => Vec::new(),
    }
}
