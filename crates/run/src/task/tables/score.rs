//! The scores of all targets.

use burn::tensor::activation::sigmoid;
use burn::tensor::{Int, Tensor};
use serde::{Deserialize, Serialize};
use updraft_trainer::{ClassScores, Deviations, LabelScores, Score};

/// The smallest probability of ordered classes.
const LEAST_PROBABILITY: f64 = 1e-7;

/// The scores of all targets, in their order.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub(super) struct TableScore {
    pub(super) targets: Vec<TargetScore>,
}

/// The score of one target.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum TargetScore {
    /// Of classes.
    Classes(ClassScores),
    /// For ordered classes, with the distance of predictions in classes.
    Ordered(ClassScores, Deviations),
    /// Of labels.
    Labels(LabelScores),
    /// For a standardized number.
    Number(Deviations),
}

/// The numbers of one target's score, with their kind.
pub(super) struct Measured {
    pub(super) kind: MeasuredKind,
    /// Rows that have the target.
    pub(super) rows: usize,
    /// `None` if no row has it.
    pub(super) numbers: Vec<Tensor<1>>,
}

/// The kind of a target's numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MeasuredKind {
    Classes,
    Ordered,
    Labels,
    Number,
}

impl MeasuredKind {
    const ALL: [Self; 4] = [Self::Classes, Self::Ordered, Self::Labels, Self::Number];

    fn score(self) -> TargetScore {
        match self {
            Self::Classes => TargetScore::Classes(ClassScores::default()),
            Self::Ordered => TargetScore::Ordered(ClassScores::default(), Deviations::default()),
            Self::Labels => TargetScore::Labels(LabelScores::default()),
            Self::Number => TargetScore::Number(Deviations::default()),
        }
    }
}

/// The header of a target's numbers: kind, rows, first part and second part.
const HEADER: usize = 4;

/// The numbers of all targets in one tensor, each after its header: integers below 2²⁴, which f32
/// represents exactly.
pub(super) fn joined(measured: Vec<Measured>) -> Option<Tensor<1>> {
    let device = measured.iter().find_map(|one| one.numbers.first()).map(Tensor::device)?;
    let mut parts = Vec::new();
    for one in measured {
        let length = |at: usize| one.numbers.get(at).map_or(0, |part| part.dims()[0]);
        let header = [one.kind as usize, one.rows, length(0), length(1)];
        let header = header.map(|number| number as f32);
        parts.push(Tensor::<1>::from_floats(header, &device));
        parts.extend(one.numbers);
    }
    Some(Tensor::cat(parts, 0))
}

/// The log probabilities of ordered classes, `[rows, classes]`, of the logits of "is it above this
/// class?", `[rows, classes − 1]`.
pub(super) fn ordered_logits(logits: &Tensor<2>) -> Tensor<2> {
    let [rows, questions] = logits.dims();
    let above = sigmoid(logits.clone());
    let device = logits.device();
    let first = Tensor::<2>::ones([rows, 1], &device).cast(above.dtype());
    let above = Tensor::cat(vec![first.clone(), above, first.zeros_like()], 1);
    let classes = questions + 1;
    let low = above.clone().narrow(1, 0, classes);
    let high = above.narrow(1, 1, classes);
    (low - high).clamp_min(LEAST_PROBABILITY).log()
}

/// The distance in classes between the most probable and the true class, as input of
/// [`Deviations`].
pub(super) fn measure_order(logits: &Tensor<2>, classes: &Tensor<1, Int>) -> Tensor<1> {
    let dtype = logits.dtype();
    let predicted = logits.clone().argmax(1).float().cast(dtype);
    Deviations::measure(&predicted, &classes.clone().float().cast(dtype).unsqueeze_dim::<2>(1))
}

impl Score for TableScore {
    fn add(&mut self, numbers: &[f64], _: usize) {
        let (mut rest, mut at) = (numbers, 0);
        while rest.len() >= HEADER {
            let (header, values) = rest.split_at(HEADER);
            let [kind, rows, first, second] = [0, 1, 2, 3].map(|at| header[at] as usize);
            let (first, values) = values.split_at(first);
            let (second, after) = values.split_at(second);
            if self.targets.len() <= at {
                self.targets.push(MeasuredKind::ALL[kind].score());
            }
            match &mut self.targets[at] {
                TargetScore::Classes(score) => score.add(first, rows),
                TargetScore::Ordered(score, steps) => {
                    score.add(first, rows);
                    steps.add(second, rows);
                }
                TargetScore::Labels(score) => score.add(first, rows),
                TargetScore::Number(score) => score.add(first, rows),
            }
            (rest, at) = (after, at + 1);
        }
    }

    fn merge(&mut self, other: &Self) {
        if self.targets.is_empty() {
            self.targets.clone_from(&other.targets);
            return;
        }
        for (own, other) in self.targets.iter_mut().zip(&other.targets) {
            match (own, other) {
                (TargetScore::Classes(own), TargetScore::Classes(other)) => own.merge(other),
                (TargetScore::Ordered(own, steps), TargetScore::Ordered(other, others)) => {
                    own.merge(other);
                    steps.merge(others);
                }
                (TargetScore::Labels(own), TargetScore::Labels(other)) => own.merge(other),
                (TargetScore::Number(own), TargetScore::Number(other)) => own.merge(other),
                _ => unreachable!("scores of one task have the same targets"),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use updraft_testing::{assert_close, devices, tolerance};

    use super::*;

    #[test]
    fn ordered_classes_have_the_differences_of_their_questions() {
        for device in devices() {
            // Above class 0 with 0.8, above class 1 with 0.3.
            let logit = |p: f64| (p / (1.0 - p)).ln() as f32;
            let logits = Tensor::<2>::from_floats([[logit(0.8), logit(0.3)]], &device);
            let found = ordered_logits(&logits).exp();
            assert_close(&found, &[0.2, 0.5, 0.3], tolerance::F32);
            let classes = Tensor::<1, Int>::from_ints([2], &device);
            let numbers = measure_order(&ordered_logits(&logits), &classes);
            assert_close(&numbers, &[1.0, 2.0], tolerance::F32);
        }
    }

    #[test]
    fn every_target_has_its_own_score_and_parts_merge_to_the_whole() {
        for device in devices() {
            let logits = Tensor::<2>::from_floats([[2.0, 0.0], [0.0, 1.0], [1.0, 0.5]], &device);
            let classes = Tensor::<1, Int>::from_ints([0, 1, 1], &device);
            let predicted = Tensor::<2>::from_floats([[1.0], [3.0]], &device);
            let values = Tensor::<2>::from_floats([[1.0], [1.0]], &device);
            let measured = || {
                let numbers = vec![ClassScores::measure(&logits, &classes)];
                let of_classes = Measured { kind: MeasuredKind::Classes, rows: 3, numbers };
                let numbers = vec![Deviations::measure(&predicted, &values)];
                let of_number = Measured { kind: MeasuredKind::Number, rows: 2, numbers };
                let none = Measured { kind: MeasuredKind::Labels, rows: 0, numbers: Vec::new() };
                vec![of_classes, none, of_number]
            };
            let numbers = joined(measured()).expect("three rows");
            let numbers: Vec<f64> = numbers.into_data().iter().collect();
            let (mut twice, mut once) = (TableScore::default(), TableScore::default());
            twice.add(&numbers, 3);
            twice.add(&numbers, 3);
            once.add(&numbers, 3);
            let mut merged = TableScore::default();
            merged.merge(&once);
            merged.merge(&once);
            assert_eq!(merged, twice);
            let TargetScore::Classes(score) = &once.targets[0] else { panic!("{once:?}") };
            assert_eq!(score.values()[0], Some(2.0 / 3.0));
            let TargetScore::Number(score) = &once.targets[2] else { panic!("{once:?}") };
            assert_eq!(score.mean_absolute_error(0), Some(1.0));
            let text = serde_json::to_string(&once).expect("JSON");
            assert_eq!(serde_json::from_str::<TableScore>(&text).expect("a score"), once);
        }
    }
}
