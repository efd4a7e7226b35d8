//! Importance of features: how much the loss rises if a feature's values are permuted.

use std::ops::Range;

use burn::tensor::{Device, Tensor};
use updraft_data::{Collate, Draw, Random, RowEncoder};
use updraft_precision::Policy;

use super::learn::Learn;
use super::model::{RowModel, RowNetwork};
use super::outputs::outputs;
use super::rows::{RowBatch, RowSet};
use super::tensors::{TableTargets, TargetTensors};
use crate::error::RunError;
use crate::task::{Bar, Picture};

/// Permutations of each feature; the bar is their mean.
const REPEATS: usize = 5;

/// Bars of a picture; the other features matter less.
const MOST_BARS: usize = 30;

/// The places of a feature in the encoded rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Places {
    pub(super) column: String,
    /// Its class, if it has one.
    pub(super) class: Option<usize>,
    pub(super) numbers: Range<usize>,
}

/// The places of every feature, in the order of the schema.
pub(super) fn places(encoder: &RowEncoder) -> Vec<Places> {
    let (mut class, mut number) = (0, 0);
    let place = |(name, feature): (&str, &updraft_data::FeatureEncoder)| {
        let has_class = feature.class_count().is_some();
        let own = number..number + feature.number_count();
        let places =
            Places { column: name.to_owned(), class: has_class.then_some(class), numbers: own };
        class += usize::from(has_class);
        number = places.numbers.end;
        places
    };
    encoder.features().map(place).collect()
}

/// At most `most` rows of a set, evenly spaced.
pub(super) fn sample(set: &RowSet, most: usize) -> Result<RowBatch, RunError> {
    let count = set.len().min(most);
    let mut batch = set.begin(count);
    for index in evenly_spaced(set.len(), count) {
        set.add(Draw { seed: 0, epoch: 0, index }, &mut (), &mut batch)?;
    }
    Ok(batch)
}

/// The indices of `count` of `len` samples; their distances differ by at most one.
fn evenly_spaced(len: usize, count: usize) -> impl Iterator<Item = usize> {
    (0..count).map(move |at| at * len / count)
}

/// The mean rise of each target's loss for each feature, `[feature][target]`.
pub(super) fn importance<N: RowNetwork>(
    learn: &Learn,
    (model, policy): (&RowModel<N>, Policy),
    (batch, places): (&RowBatch, &[Places]),
    device: &Device,
) -> Vec<Vec<f64>> {
    let rows = batch.indices.len();
    let targets = batch.targets.iter().cloned();
    let targets = targets.map(|target| TargetTensors::place(target, rows, device)).collect();
    let targets = TableTargets { rows, targets };
    let losses = |batch: &RowBatch| -> Vec<f64> {
        let losses = learn.target_losses(&outputs((model, policy), batch, device), &targets);
        let number = |loss: Tensor<1>| loss.into_data().iter::<f64>().next().unwrap_or(f64::NAN);
        losses.into_iter().map(number).collect()
    };
    let base = losses(batch);
    let mut rises = Vec::with_capacity(places.len());
    for (at, place) in places.iter().enumerate() {
        let mut mean = vec![0.0; base.len()];
        for repeat in 0..REPEATS {
            // Always the same permutations: a report does not depend on chance.
            let mut random = Random::for_augment(0, repeat as u64, at);
            let found = losses(&permuted(batch, place, &mut random));
            for ((mean, found), base) in mean.iter_mut().zip(found).zip(&base) {
                *mean += (found - base) / REPEATS as f64;
            }
        }
        rises.push(mean);
    }
    rises
}

/// The batch with the values of a feature in the order of a permutation of its rows.
fn permuted(batch: &RowBatch, place: &Places, random: &mut Random) -> RowBatch {
    let rows = batch.indices.len();
    let mut order: Vec<usize> = (0..rows).collect();
    for at in (1..rows).rev() {
        order.swap(at, random.below(at as u64 + 1) as usize);
    }
    let (classes, wide) = (batch.classes.len() / rows.max(1), batch.numbers.len() / rows.max(1));
    let mut permuted = batch.clone();
    for (row, &from) in order.iter().enumerate() {
        if let Some(class) = place.class {
            permuted.classes[row * classes + class] = batch.classes[from * classes + class];
        }
        let of = |row: usize| row * wide + place.numbers.start..row * wide + place.numbers.end;
        permuted.numbers[of(row)].copy_from_slice(&batch.numbers[of(from)]);
    }
    permuted
}

/// The features by importance for one target, the most important first, without those whose
/// importance is not finite.
pub(super) fn ranked(rises: &[Vec<f64>], target: usize) -> Vec<usize> {
    let rise = |feature: usize| rises[feature][target];
    let mut order: Vec<usize> = (0..rises.len()).filter(|&at| rise(at).is_finite()).collect();
    order.sort_by(|&a, &b| rise(b).total_cmp(&rise(a)));
    order
}

/// A picture of the importance of the features for each target.
pub(super) fn importance_pictures(
    learn: &Learn,
    places: &[Places],
    rises: &[Vec<f64>],
    rows: usize,
) -> Vec<Picture> {
    let picture = |(at, target): (usize, &super::learn::Target)| {
        let order = ranked(rises, at);
        let bar = |&feature: &usize| Bar {
            name: places[feature].column.clone(),
            value: rises[feature][at],
        };
        let left_out = match order.len().saturating_sub(MOST_BARS) {
            0 => String::new(),
            more => format!(", without the {more} least important features"),
        };
        let title = format!(
            "Importance of features for `{}`: rise of its loss if a feature is permuted, mean of \
             {REPEATS} permutations of {rows} test rows{left_out}",
            target.column
        );
        let bars: Vec<Bar> = order.iter().take(MOST_BARS).map(bar).collect();
        let value_name = "rise of the loss".to_owned();
        (!bars.is_empty()).then_some(Picture::Bars { title, value_name, bars })
    };
    learn.targets.iter().enumerate().filter_map(picture).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_is_evenly_spaced_and_has_the_rows_asked_for() {
        let of = |len, count| evenly_spaced(len, count).collect::<Vec<_>>();
        assert_eq!(of(10, 4), [0, 2, 5, 7]);
        // With a whole step of two, only a half of these would be taken.
        assert_eq!(of(1500, 1000).len(), 1000);
        assert_eq!(of(3, 3), [0, 1, 2]);
        assert_eq!(of(0, 0), [0; 0]);
        let distances = |of: &[usize]| of.windows(2).map(|pair| pair[1] - pair[0]).collect();
        let distances: std::collections::BTreeSet<usize> = distances(&of(1500, 1000));
        assert_eq!(distances.into_iter().collect::<Vec<_>>(), [1, 2]);
    }

    #[test]
    fn features_without_a_finite_importance_have_no_rank() {
        let rises = [vec![0.5], vec![f64::NAN], vec![2.0], vec![f64::INFINITY], vec![-0.1]];
        assert_eq!(ranked(&rises, 0), [2, 0, 4]);
    }

    #[test]
    fn a_permutation_moves_one_feature_and_keeps_its_values() {
        let batch = RowBatch {
            indices: (0..50).collect(),
            classes: (0..50).flat_map(|row| [row, 100 + row]).collect(),
            numbers: (0..50).flat_map(|row| [row as f32, 0.5, -(row as f32)]).collect(),
            targets: Vec::new(),
        };
        let place = Places { column: "x".to_owned(), class: Some(1), numbers: 1..3 };
        let found = permuted(&batch, &place, &mut Random::for_augment(0, 0, 0));
        assert_ne!(found, batch);
        for row in 0..50 {
            assert_eq!(found.classes[2 * row], row as i32);
            assert_eq!(found.numbers[3 * row], row as f32);
            // The parts of a feature move together.
            assert_eq!(found.classes[2 * row + 1] - 100, -found.numbers[3 * row + 2] as i32);
        }
        let mut moved: Vec<i32> = found.classes.iter().skip(1).step_by(2).copied().collect();
        moved.sort_unstable();
        assert_eq!(moved, (100..150).collect::<Vec<_>>());
    }
}
