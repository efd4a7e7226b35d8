//! Partial dependence: the mean prediction if a feature has one value in every row.

use burn::tensor::activation::{sigmoid, softmax};
use burn::tensor::{Device, FloatDType, Tensor};
use updraft_data::{CategoryEncoding, FeatureEncoder, NumberScale, RowEncoder, Vocabulary};
use updraft_precision::Policy;

use super::importance::Places;
use super::learn::{Learn, Target};
use super::model::{RowModel, RowNetwork};
use super::outputs::outputs;
use super::rows::RowBatch;
use super::targets::TargetCode;
use crate::task::{Bar, Line, Picture};

/// The most important features of each target that are drawn.
pub(super) const TOP: usize = 3;

/// Values of a number at which predictions are averaged.
const GRID: usize = 20;

/// Words of a category, the most frequent ones.
const MOST_WORDS: usize = 12;

/// Classes or labels of a target, those with the highest mean probability.
const MOST_CLASSES: usize = 4;

/// Draws the dependence of a target, the `at`-th, on one feature; `None` for a feature with fewer
/// than two values in these rows, and for a list of words, which has no single value.
pub(super) fn dependence<N: RowNetwork>(
    (learn, codes, encoder): (&Learn, &[TargetCode], &RowEncoder),
    (model, policy): (&RowModel<N>, Policy),
    (batch, place): (&RowBatch, &Places),
    at: usize,
    device: &Device,
) -> Option<Picture> {
    let (_, feature) = encoder.features().find(|(name, _)| *name == place.column)?;
    let values = values(feature, batch, place);
    if values.len() < 2 {
        return None;
    }
    let (target, code) = (&learn.targets[at], &codes[at]);
    let mut means: Vec<Vec<f64>> = Vec::with_capacity(values.len());
    for (_, set) in &values {
        let changed = with_value(batch, place, set);
        let outputs = outputs((model, policy), &changed, device).swap_remove(at);
        means.push(mean_predictions(target, code, &outputs.cast(FloatDType::F32)));
    }
    if !means.iter().flatten().all(|mean| mean.is_finite()) {
        return None;
    }
    let (names, value_name) = names(target, code);
    let column = &place.column;
    let title = format!(
        "Partial dependence of `{}` on `{column}`: mean over {} test rows",
        target.column,
        batch.indices.len()
    );
    let shown = shown(&means, names.len());
    Some(match feature {
        FeatureEncoder::Number { .. } => Picture::Lines {
            title: format!("{title}, {value_name}"),
            x_name: column.clone(),
            lines: shown
                .into_iter()
                .map(|of| Line {
                    name: names[of].clone(),
                    points: values
                        .iter()
                        .zip(&means)
                        .map(|((x, _), y)| [x.number, y[of]])
                        .collect(),
                })
                .collect(),
        },
        _ => {
            let of = shown.first().copied().unwrap_or(0);
            let bars = values.iter().zip(&means);
            let bars = bars.map(|((x, _), y)| Bar { name: x.word.clone(), value: y[of] });
            let title = match names.len() {
                1 if target.column == names[of] => title,
                _ => format!("{title}, `{}`", names[of]),
            };
            Picture::Bars { title, value_name, bars: bars.collect() }
        }
    })
}

/// A value of a feature as it is in files.
#[derive(Debug, Clone, PartialEq, Default)]
struct Shown {
    number: f64,
    word: String,
}

/// The same encoded: its class or its numbers.
#[derive(Debug, Clone, PartialEq)]
enum Value {
    Class(i32),
    Numbers(Vec<f32>),
}

/// The values at which predictions are averaged: quantiles of a number, or the most frequent words.
fn values(feature: &FeatureEncoder, batch: &RowBatch, place: &Places) -> Vec<(Shown, Value)> {
    let rows = batch.indices.len();
    let (classes, wide) = (batch.classes.len() / rows.max(1), batch.numbers.len() / rows.max(1));
    let own = |row: usize| &batch.numbers[row * wide..][place.numbers.clone()];
    match feature {
        FeatureEncoder::Number { scale, has_missing } => {
            let present = (0..rows).map(own).filter(|own| own.get(1).is_none_or(|gap| *gap == 0.0));
            let mut sorted: Vec<f32> = present.map(|own| own[0]).collect();
            sorted.sort_by(f32::total_cmp);
            let last = sorted.len().saturating_sub(1);
            let mut grid: Vec<f32> = match sorted.is_empty() {
                true => Vec::new(),
                false => (0..GRID).map(|at| sorted[at * last / (GRID - 1)]).collect(),
            };
            grid.dedup();
            let value = |encoded: f32| {
                let mut numbers = vec![encoded];
                numbers.extend(has_missing.then_some(0.0));
                let number = NumberScale::decode(scale, encoded);
                (Shown { number, word: String::new() }, Value::Numbers(numbers))
            };
            grid.into_iter().map(value).collect()
        }
        FeatureEncoder::Boolean { has_missing } => {
            let value = |(word, number): (&str, f32)| {
                let mut numbers = vec![number];
                numbers.extend(has_missing.then_some(0.0));
                (Shown { number: 0.0, word: word.to_owned() }, Value::Numbers(numbers))
            };
            [("false", -1.0), ("true", 1.0)].into_iter().map(value).collect()
        }
        FeatureEncoder::Category { vocabulary, encoding, .. } => {
            let words = vocabulary.words();
            let first = Vocabulary::UNKNOWN as i32 + 1;
            let of_row = |row: usize| match (encoding, place.class) {
                (CategoryEncoding::Embedding, Some(class)) => {
                    usize::try_from(batch.classes[row * classes + class] - first).ok()
                }
                _ => own(row).iter().position(|one| *one == 1.0),
            };
            let mut counts = vec![0_usize; words.len()];
            for word in (0..rows).filter_map(of_row).filter(|word| *word < words.len()) {
                counts[word] += 1;
            }
            let mut order: Vec<usize> = (0..words.len()).filter(|&at| counts[at] > 0).collect();
            order.sort_by_key(|&at| (std::cmp::Reverse(counts[at]), at));
            order.truncate(MOST_WORDS);
            let value = |at: usize| {
                let value = match place.class {
                    Some(_) => Value::Class(at as i32 + first),
                    None => {
                        let one = |other| if other == at { 1.0 } else { 0.0 };
                        Value::Numbers((0..place.numbers.len()).map(one).collect())
                    }
                };
                (Shown { number: 0.0, word: words[at].to_string() }, value)
            };
            order.into_iter().map(value).collect()
        }
        _ => Vec::new(),
    }
}

/// The batch with one value of a feature in every row.
fn with_value(batch: &RowBatch, place: &Places, value: &Value) -> RowBatch {
    let mut changed = batch.clone();
    let rows = batch.indices.len();
    let (classes, wide) = (batch.classes.len() / rows.max(1), batch.numbers.len() / rows.max(1));
    for row in 0..rows {
        match (value, place.class) {
            (Value::Class(value), Some(class)) => changed.classes[row * classes + class] = *value,
            (Value::Numbers(values), _) => {
                let own = &mut changed.numbers[row * wide..][place.numbers.clone()];
                own.copy_from_slice(values);
            }
            (Value::Class(_), None) => unreachable!("a value has the places of its feature"),
        }
    }
    changed
}

/// The mean prediction over the rows: a number in its own unit, or a probability for each class or
/// label.
fn mean_predictions(target: &Target, code: &TargetCode, outputs: &Tensor<2>) -> Vec<f64> {
    let (values, width): (Vec<f64>, usize) = match code {
        TargetCode::Number { mean, std } => {
            let numbers = target.number(outputs).into_data();
            (numbers.iter::<f64>().map(|number| number * std + mean).collect(), 1)
        }
        TargetCode::Classes { classes } | TargetCode::Ordered { classes } => {
            let found = softmax(target.class_logits(outputs), 1).into_data();
            (found.iter().collect(), classes.len())
        }
        TargetCode::Labels { labels, .. } => {
            (sigmoid(outputs.clone()).into_data().iter().collect(), labels.len())
        }
    };
    let rows = (values.len() / width.max(1)).max(1) as f64;
    (0..width).map(|of| values.iter().skip(of).step_by(width).sum::<f64>() / rows).collect()
}

/// The name of each of them, and of their unit.
fn names(target: &Target, code: &TargetCode) -> (Vec<String>, String) {
    let probability = "probability".to_owned();
    match code {
        TargetCode::Number { .. } => (vec![target.column.clone()], target.column.clone()),
        TargetCode::Classes { classes } | TargetCode::Ordered { classes } => {
            (classes.clone(), probability)
        }
        TargetCode::Labels { labels, .. } => (labels.clone(), probability),
    }
}

/// Which predictions are drawn: of two classes the second, otherwise the first of those that are
/// highest on average.
fn shown(means: &[Vec<f64>], count: usize) -> Vec<usize> {
    if count == 2 {
        return vec![1];
    }
    let sum = |of: usize| means.iter().map(|mean| mean[of]).sum::<f64>();
    let mut order: Vec<usize> = (0..count).collect();
    order.sort_by(|&a, &b| sum(b).total_cmp(&sum(a)));
    order.truncate(MOST_CLASSES);
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_set_at_its_quantiles_and_a_category_to_its_frequent_words() {
        let batch = RowBatch {
            indices: (0..40).collect(),
            classes: (0..40).map(|row| if row < 30 { 1 } else { 2 + row % 2 }).collect(),
            numbers: (0..40).flat_map(|row| [row as f32, f32::from(row == 39)]).collect(),
            targets: Vec::new(),
        };
        let scale = NumberScale::Standard { mean: 10.0, std: 2.0 };
        let feature = FeatureEncoder::Number { scale, has_missing: true };
        let place = Places { column: "x".to_owned(), class: None, numbers: 0..2 };
        let found = values(&feature, &batch, &place);
        assert_eq!(found.len(), GRID);
        // Row 39 has no value.
        assert_eq!((found[0].0.number, found[GRID - 1].0.number), (10.0, 10.0 + 2.0 * 38.0));
        let changed = with_value(&batch, &place, &found[3].1);
        let Value::Numbers(value) = &found[3].1 else { panic!("{found:?}") };
        assert!(changed.numbers.chunks(2).all(|row| row[0] == value[0] && row[1] == 0.0));

        let text = r#"{"kind":"category","vocabulary":["a","b","c"],"has_missing":false,
                       "encoding":"embedding"}"#;
        let feature: FeatureEncoder = serde_json::from_str(text).expect("a feature");
        let place = Places { column: "w".to_owned(), class: Some(0), numbers: 0..0 };
        let words: Vec<String> =
            values(&feature, &batch, &place).into_iter().map(|(shown, _)| shown.word).collect();
        assert_eq!(words, ["a", "b", "c"]);
    }

    #[test]
    fn of_two_classes_the_second_is_drawn_and_of_many_the_most_probable() {
        assert_eq!(shown(&[vec![0.9, 0.1]], 2), [1]);
        let means = vec![vec![0.1, 0.2, 0.05, 0.3, 0.25, 0.1]];
        assert_eq!(shown(&means, 6), [3, 4, 1, 0]);
    }
}
