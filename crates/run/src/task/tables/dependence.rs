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

/// Days of a year of the calendar, on average.
const YEAR: f64 = 365.2425;

/// Draws the dependence of a target, the `at`-th, on one feature: lines over numbers and dates,
/// otherwise bars for each class or label. Empty for a feature with fewer than two values in these
/// rows.
pub(super) fn dependence<N: RowNetwork>(
    (learn, codes, encoder): (&Learn, &[TargetCode], &RowEncoder),
    (model, policy): (&RowModel<N>, Policy),
    (batch, place): (&RowBatch, &Places),
    at: usize,
    device: &Device,
) -> Vec<Picture> {
    let Some((_, feature)) = encoder.features().find(|(name, _)| *name == place.column) else {
        return Vec::new();
    };
    let values = values(feature, batch, place);
    if values.iter().filter(|(shown, _)| *shown != Shown::Missing).count() < 2 {
        return Vec::new();
    }
    let (target, code) = (&learn.targets[at], &codes[at]);
    let mut means: Vec<(Shown, Vec<f64>)> = Vec::with_capacity(values.len());
    for (shown, set) in values {
        let changed = with_value(batch, place, &set);
        let outputs = outputs((model, policy), &changed, device).swap_remove(at);
        means.push((shown, mean_predictions(target, code, &outputs.cast(FloatDType::F32))));
    }
    if !means.iter().flat_map(|(_, means)| means).all(|mean| mean.is_finite()) {
        return Vec::new();
    }
    let (names, value_name) = names(target, code);
    let column = &place.column;
    let of_all = match names.len().saturating_sub(MOST_CLASSES) {
        0 => String::new(),
        _ => format!(", the {MOST_CLASSES} of {} with the highest mean", names.len()),
    };
    let title = format!(
        "Partial dependence of `{}` on `{column}`: mean over {} test rows{of_all}",
        target.column,
        batch.indices.len()
    );
    let drawn = drawn(&means, names.len());
    match feature {
        FeatureEncoder::Number { .. } | FeatureEncoder::Date { .. } => {
            let is_date = matches!(feature, FeatureEncoder::Date { .. });
            let line = |of: usize| Line {
                name: name_of_line(&names[of], &means, of),
                points: points(&means, of),
            };
            vec![Picture::Lines {
                title: format!("{title}, {value_name}"),
                x_name: if is_date { format!("{column}, in years") } else { column.clone() },
                lines: drawn.into_iter().map(line).collect(),
            }]
        }
        _ => {
            let bars = |of: usize| {
                let bar = |(shown, means): &(Shown, Vec<f64>)| Bar {
                    name: shown.text().to_owned(),
                    value: means[of],
                };
                let title = match names.len() {
                    1 if target.column == names[of] => title.clone(),
                    _ => format!("{title}, `{}`", names[of]),
                };
                let value_name = value_name.clone();
                Picture::Bars { title, value_name, bars: means.iter().map(bar).collect() }
            };
            drawn.into_iter().map(bars).collect()
        }
    }
}

/// A value of a feature as a report shows it.
#[derive(Debug, Clone, PartialEq)]
enum Shown {
    /// A number, or a date in years.
    Number(f64),
    Word(String),
    /// A list without words.
    NoWord,
    Missing,
}

impl Shown {
    fn text(&self) -> &str {
        match self {
            Self::Number(_) => "",
            Self::Word(word) => word,
            Self::NoWord => "(no value)",
            Self::Missing => "(missing)",
        }
    }
}

/// The same encoded: its class or its numbers.
#[derive(Debug, Clone, PartialEq)]
enum Value {
    Class(i32),
    Numbers(Vec<f32>),
}

/// The points of the `of`-th prediction over the numbers of a feature.
fn points(means: &[(Shown, Vec<f64>)], of: usize) -> Vec<[f64; 2]> {
    let point = |(shown, means): &(Shown, Vec<f64>)| match shown {
        Shown::Number(x) => Some([*x, means[of]]),
        _ => None,
    };
    means.iter().filter_map(point).collect()
}

/// The name of a line, with the prediction for a missing value, which has no place on the axis.
fn name_of_line(name: &str, means: &[(Shown, Vec<f64>)], of: usize) -> String {
    match means.iter().find(|(shown, _)| *shown == Shown::Missing) {
        Some((_, means)) => format!("{name} (missing: {:.4})", means[of]),
        None => name.to_owned(),
    }
}

/// The values at which predictions are averaged: quantiles of a number or a date, or the most
/// frequent words, each alone in a list; then the missing value, if training rows miss it.
fn values(feature: &FeatureEncoder, batch: &RowBatch, place: &Places) -> Vec<(Shown, Value)> {
    let rows = batch.indices.len();
    let (classes, wide) = (batch.classes.len() / rows.max(1), batch.numbers.len() / rows.max(1));
    let own = |row: usize| &batch.numbers[row * wide..][place.numbers.clone()];
    let count = place.numbers.len();
    let one_of = |at: usize| {
        let one = |other| if other == at { 1.0 } else { 0.0 };
        Value::Numbers((0..count).map(one).collect())
    };
    // Where it is missing, the last number is 1 and the others are 0.
    let missing =
        |has_missing: bool| has_missing.then(|| (Shown::Missing, one_of(count.saturating_sub(1))));
    let quantiles = |has_missing: bool| {
        let present = (0..rows).map(own).filter(|own| !has_missing || own[count - 1] == 0.0);
        let mut sorted: Vec<&[f32]> = present.collect();
        sorted.sort_by(|a, b| a[0].total_cmp(&b[0]));
        let last = sorted.len().saturating_sub(1);
        let mut grid: Vec<&[f32]> = match sorted.is_empty() {
            true => Vec::new(),
            false => (0..GRID).map(|at| sorted[at * last / (GRID - 1)]).collect(),
        };
        grid.dedup_by_key(|own| own[0]);
        grid
    };
    match feature {
        FeatureEncoder::Number { scale, has_missing } => {
            let value = |own: &[f32]| {
                let number = NumberScale::decode(scale, own[0]);
                (Shown::Number(number), Value::Numbers(own.to_vec()))
            };
            let grid = quantiles(*has_missing).into_iter().map(value);
            grid.chain(missing(*has_missing)).collect()
        }
        FeatureEncoder::Date { scale, has_missing, .. } => {
            let value = |own: &[f32]| {
                let years = 1970.0 + NumberScale::decode(scale, own[0]) / YEAR;
                (Shown::Number(years), Value::Numbers(own.to_vec()))
            };
            let grid = quantiles(*has_missing).into_iter().map(value);
            grid.chain(missing(*has_missing)).collect()
        }
        FeatureEncoder::Boolean { has_missing } => {
            let value = |(word, number): (&str, f32)| {
                let mut numbers = vec![number];
                numbers.extend(has_missing.then_some(0.0));
                (Shown::Word(word.to_owned()), Value::Numbers(numbers))
            };
            let both = [("false", -1.0), ("true", 1.0)].into_iter().map(value);
            both.chain(missing(*has_missing)).collect()
        }
        FeatureEncoder::Category { vocabulary, encoding, has_missing } => {
            let words = vocabulary.words();
            let first = Vocabulary::UNKNOWN as i32 + 1;
            let of_row = |row: usize| match (encoding, place.class) {
                (CategoryEncoding::Embedding, Some(class)) => {
                    usize::try_from(batch.classes[row * classes + class] - first).ok()
                }
                _ => own(row).iter().position(|one| *one == 1.0),
            };
            let value = |at: usize| match place.class {
                Some(_) => Value::Class(at as i32 + first),
                None => one_of(at),
            };
            let word = |at: usize| (Shown::Word(words[at].to_string()), value(at));
            // The missing word is the one after the others.
            let missing = has_missing.then(|| (Shown::Missing, value(words.len())));
            let frequent = frequent(words.len(), (0..rows).filter_map(of_row));
            frequent.into_iter().map(word).chain(missing).collect()
        }
        FeatureEncoder::Labels { vocabulary } => {
            let words = vocabulary.words();
            let of_row = |row: usize| (0..count).filter(move |&at| own(row)[at] == 1.0);
            let word = |at: usize| (Shown::Word(words[at].to_string()), one_of(at));
            let none = (Shown::NoWord, Value::Numbers(vec![0.0; count]));
            let frequent = frequent(words.len(), (0..rows).flat_map(of_row));
            frequent.into_iter().map(word).chain([none]).collect()
        }
        _ => Vec::new(),
    }
}

/// The indices of the most frequent of `count` words, the most frequent first.
fn frequent(count: usize, seen: impl Iterator<Item = usize>) -> Vec<usize> {
    let mut counts = vec![0_usize; count];
    seen.filter(|word| *word < count).for_each(|word| counts[word] += 1);
    let mut order: Vec<usize> = (0..count).filter(|&at| counts[at] > 0).collect();
    order.sort_by_key(|&at| (std::cmp::Reverse(counts[at]), at));
    order.truncate(MOST_WORDS);
    order
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
fn drawn(means: &[(Shown, Vec<f64>)], count: usize) -> Vec<usize> {
    if count == 2 {
        return vec![1];
    }
    let sum = |of: usize| means.iter().map(|(_, mean)| mean[of]).sum::<f64>();
    let mut order: Vec<usize> = (0..count).collect();
    order.sort_by(|&a, &b| sum(b).total_cmp(&sum(a)));
    order.truncate(MOST_CLASSES);
    // The same order, and color, for every feature.
    order.sort_unstable();
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
        // Row 39 has no value.
        let numbers: Vec<f64> = found.iter().filter_map(|(shown, _)| number(shown)).collect();
        assert_eq!((numbers.len(), found.len()), (GRID, GRID + 1));
        assert_eq!((numbers[0], numbers[GRID - 1]), (10.0, 10.0 + 2.0 * 38.0));
        assert_eq!(found[GRID], (Shown::Missing, Value::Numbers(vec![0.0, 1.0])));
        let changed = with_value(&batch, &place, &found[3].1);
        let Value::Numbers(value) = &found[3].1 else { panic!("{found:?}") };
        assert!(changed.numbers.chunks(2).all(|row| row[0] == value[0] && row[1] == 0.0));

        let text = r#"{"kind":"category","vocabulary":["a","b","c"],"has_missing":true,
                       "encoding":"embedding"}"#;
        let feature: FeatureEncoder = serde_json::from_str(text).expect("a feature");
        let place = Places { column: "w".to_owned(), class: Some(0), numbers: 0..0 };
        let found = values(&feature, &batch, &place);
        assert_eq!(texts(&found), ["a", "b", "c", "(missing)"]);
        assert_eq!(found[3].1, Value::Class(4));
    }

    fn number(shown: &Shown) -> Option<f64> {
        if let Shown::Number(number) = shown { Some(*number) } else { None }
    }

    fn texts(values: &[(Shown, Value)]) -> Vec<&str> {
        values.iter().map(|(shown, _)| shown.text()).collect()
    }

    #[test]
    fn a_date_is_set_to_whole_rows_and_a_list_to_each_of_its_words() {
        // Two parts of a date beside its days, and whether it is missing; then three words of a list.
        let row = |at: usize| {
            let words = [at.is_multiple_of(2), at < 5, false].map(f32::from);
            [at as f32, at as f32 * 0.5, -(at as f32), 0.0].into_iter().chain(words)
        };
        let batch = RowBatch {
            indices: (0..40).collect(),
            classes: Vec::new(),
            numbers: (0..40).rev().flat_map(row).collect(),
            targets: Vec::new(),
        };
        let scale = NumberScale::Standard { mean: 0.0, std: 365.2425 };
        let feature = FeatureEncoder::Date { scale, has_time: false, has_missing: true };
        let place = Places { column: "d".to_owned(), class: None, numbers: 0..4 };
        let found = values(&feature, &batch, &place);
        let years: Vec<f64> = found.iter().filter_map(|(shown, _)| number(shown)).collect();
        assert_eq!((years[0], years[GRID - 1], found.len()), (1970.0, 2009.0, GRID + 1));
        assert_eq!(found[GRID - 1].1, Value::Numbers(vec![39.0, 19.5, -39.0, 0.0]));
        assert_eq!(found[GRID], (Shown::Missing, Value::Numbers(vec![0.0, 0.0, 0.0, 1.0])));

        let text = r#"{"kind":"labels","vocabulary":["a","b","c"]}"#;
        let feature: FeatureEncoder = serde_json::from_str(text).expect("a feature");
        let place = Places { column: "l".to_owned(), class: None, numbers: 4..7 };
        let found = values(&feature, &batch, &place);
        // No row has the third.
        assert_eq!(texts(&found), ["a", "b", "(no value)"]);
        assert_eq!(found[1].1, Value::Numbers(vec![0.0, 1.0, 0.0]));
        assert_eq!(found[2].1, Value::Numbers(vec![0.0; 3]));
    }

    #[test]
    fn of_two_classes_the_second_is_drawn_and_of_many_the_most_probable() {
        let means = |values: &[f64]| vec![(Shown::NoWord, values.to_vec())];
        assert_eq!(drawn(&means(&[0.9, 0.1]), 2), [1]);
        assert_eq!(drawn(&means(&[0.1, 0.2, 0.05, 0.3, 0.25, 0.1]), 6), [0, 1, 3, 4]);
    }

    #[test]
    fn a_missing_value_is_in_the_name_of_a_line() {
        let means = [(Shown::Number(1.0), vec![0.5]), (Shown::Missing, vec![0.25])];
        assert_eq!(name_of_line("yes", &means, 0), "yes (missing: 0.2500)");
        assert_eq!(points(&means, 0), [[1.0, 0.5]]);
        assert_eq!(name_of_line("yes", &means[..1], 0), "yes");
    }
}
