//! Metrics compared with scikit-learn's; `scikit_learn/make.py` made its numbers.

use burn::tensor::{Device, Int, Tensor, TensorData};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use updraft_trainer::{ClassScores, Deviations, LabelScores, Score};

/// Probabilities are f32 here and f64 there.
const NEAR: f64 = 2e-6;

#[derive(Deserialize)]
struct Golden {
    binary: Classes,
    many: Classes,
    labels: Labels,
    numbers: Numbers,
}

#[derive(Deserialize)]
struct Classes {
    logits: Vec<f32>,
    truth: Vec<i32>,
    values: Vec<f64>,
}

#[derive(Deserialize)]
struct Labels {
    logits: Vec<f32>,
    truth: Vec<f32>,
    thresholds: Vec<f32>,
    values: Vec<f64>,
}

#[derive(Deserialize)]
struct Numbers {
    predicted: Vec<f64>,
    truth: Vec<f64>,
    values: Vec<f64>,
}

fn golden() -> Golden {
    serde_json::from_str(include_str!("scikit_learn/metrics.json")).unwrap()
}

fn matrix(values: &[f32], columns: usize) -> Tensor<2> {
    let data = TensorData::new(values.to_vec(), [values.len() / columns, columns]);
    Tensor::from_data(data, &Device::flex())
}

fn assert_near(found: &[Option<f64>], expected: &[f64]) {
    assert_eq!(found.len(), expected.len());
    for (at, (found, expected)) in found.iter().zip(expected).enumerate() {
        let found = found.expect("defined");
        assert!((found - expected).abs() < NEAR, "number {at}: {found}, expected {expected}");
    }
}

/// The score of two parts, of which the first was written down and read again.
fn merged<S: Score + DeserializeOwned>(parts: [(Tensor<1>, usize); 2]) -> S {
    let [first, second] = parts.map(|(numbers, samples)| {
        let mut score = S::default();
        score.add(&numbers.into_data().iter::<f64>().collect::<Vec<_>>(), samples);
        score
    });
    let text = serde_json::to_string(&first).unwrap();
    let mut score: S = serde_json::from_str(&text).unwrap();
    assert_eq!(score, first);
    score.merge(&second);
    score
}

#[test]
fn metrics_of_classes_are_scikit_learns() {
    let golden = golden();
    for (own, classes) in [(golden.binary, 2), (golden.many, 4)] {
        let cut = 13;
        let part = |rows: std::ops::Range<usize>| {
            let logits = matrix(&own.logits[rows.start * classes..rows.end * classes], classes);
            let truth = Tensor::<1, Int>::from_ints(&own.truth[rows.clone()], &Device::flex());
            (ClassScores::measure(&logits, &truth), rows.len())
        };
        let score: ClassScores = merged([part(0..cut), part(cut..own.truth.len())]);
        assert_near(&score.values(), &own.values);
        assert_eq!(score.values().len(), ClassScores::specs().len());
    }
    assert!(ClassScores::default().values().iter().all(Option::is_none));
}

#[test]
fn metrics_of_labels_are_scikit_learns() {
    let own = golden().labels;
    let labels = own.thresholds.len();
    let part = |rows: std::ops::Range<usize>| {
        let cut = rows.start * labels..rows.end * labels;
        let (logits, truth) =
            (matrix(&own.logits[cut.clone()], labels), matrix(&own.truth[cut], labels));
        (LabelScores::measure(&logits, &truth, &own.thresholds), rows.len())
    };
    let score: LabelScores = merged([part(0..20), part(20..own.truth.len() / labels)]);
    assert_near(&score.values(), &own.values);
    assert_eq!(score.values().len(), LabelScores::specs().len());
    assert!(LabelScores::default().values().iter().all(Option::is_none));
    // The thresholds found give an F1 of no label that is worse.
    let found: Vec<f32> = score.best_thresholds().into_iter().map(|own| own.unwrap()).collect();
    let (logits, truth) = (matrix(&own.logits, labels), matrix(&own.truth, labels));
    let mut better = LabelScores::default();
    let numbers = LabelScores::measure(&logits, &truth, &found).into_data();
    better.add(&numbers.iter::<f64>().collect::<Vec<_>>(), own.truth.len() / labels);
    assert!(better.values()[1] >= score.values()[1]);
}

#[test]
fn metrics_of_numbers_are_scikit_learns() {
    let own = golden().numbers;
    let mut score = Deviations::default();
    score.add(&[own.predicted, own.truth.clone()].concat(), own.truth.len());
    let found = [score.r_squared(), score.mean_absolute_error(0), score.root_mean_squared_error(0)];
    assert_near(&found, &own.values);
}
