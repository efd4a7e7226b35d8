//! The score of a row's predictions by which a quantized network is compared with the one in f32.

use updraft_models::Head;
use updraft_quant::{Port, Score};

use super::learn::Target;
use super::rows::{BatchValues, RowBatch};
use super::target_plan::TargetKind;

/// The true value of a target.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Truth {
    Class(usize),
    /// A standardized number, or zeros and ones of labels.
    Numbers(Vec<f32>),
}

/// The true value of each target of a row; `None` where it is missing.
pub(super) type Truths = Vec<Option<Truth>>;

/// The true values of the rows of a batch.
pub(super) fn truths(batch: &RowBatch) -> Vec<Truths> {
    let mut all = vec![vec![None; batch.targets.len()]; batch.indices.len()];
    for (at, target) in batch.targets.iter().enumerate() {
        for (place, &row) in target.rows.iter().enumerate() {
            all[row as usize][at] = Some(match &target.values {
                BatchValues::Classes(classes) => Truth::Class(classes[place] as usize),
                BatchValues::Numbers { width, values } => {
                    Truth::Numbers(values[place * width..][..*width].to_vec())
                }
            });
        }
    }
    all
}

/// The mean over the targets that a row has: the share of right classes if all targets are classes,
/// otherwise squared errors, of standardized numbers and of the probabilities of classes and labels.
#[derive(Debug, Clone, Copy)]
pub(super) struct RowScore<'a>(pub(super) &'a [Target]);

impl RowScore<'_> {
    fn are_classes(self) -> bool {
        self.0.iter().all(|target| is_of_classes(target.kind))
    }

    /// The mean of a number for each target that is there.
    fn mean(
        self,
        outputs: &[&[f32]],
        truths: &[Option<Truth>],
        of: impl Fn(&Target, &[f32], &Truth) -> f64,
    ) -> f64 {
        let targets = self.0.iter().zip(outputs).zip(truths);
        let there = targets
            .filter_map(|((target, outputs), truth)| Some(of(target, outputs, truth.as_ref()?)));
        let (sum, count) = there.fold((0.0, 0_u32), |(sum, count), one| (sum + one, count + 1));
        sum / f64::from(count.max(1))
    }
}

const fn is_of_classes(kind: TargetKind) -> bool {
    matches!(kind, TargetKind::Classes | TargetKind::Ordered)
}

fn sigmoid(logit: f32) -> f64 {
    1.0 / (1.0 + (-f64::from(logit)).exp())
}

/// The probability of each class.
fn probabilities(head: Head, outputs: &[f32]) -> Vec<f64> {
    if let Head::Ordered(_) = head {
        // "Is it above this class?", from certainly to certainly not.
        let above = outputs.iter().map(|&logit| sigmoid(logit));
        let above: Vec<f64> = std::iter::once(1.0).chain(above).chain([0.0]).collect();
        return above.windows(2).map(|pair| (pair[0] - pair[1]).max(0.0)).collect();
    }
    let most = outputs.iter().fold(f32::NEG_INFINITY, |most, &logit| most.max(logit));
    let powers: Vec<f64> = outputs.iter().map(|&logit| f64::from(logit - most).exp()).collect();
    let sum: f64 = powers.iter().sum();
    powers.into_iter().map(|power| power / sum).collect()
}

/// The first of the most probable classes.
fn predicted_class(target: &Target, outputs: &[f32]) -> usize {
    let probabilities = probabilities(target.head, outputs);
    let better = |best: usize, at: usize| {
        if probabilities[at] > probabilities[best] { at } else { best }
    };
    (0..probabilities.len()).fold(0, better)
}

/// Whether a label is predicted, for each.
fn predicted_labels(target: &Target, outputs: &[f32]) -> Vec<bool> {
    let each = outputs.iter().zip(&target.thresholds);
    each.map(|(&logit, &threshold)| sigmoid(logit) >= f64::from(threshold)).collect()
}

fn squared_error(target: &Target, outputs: &[f32], truth: &Truth) -> f64 {
    match truth {
        Truth::Class(class) => {
            let each = probabilities(target.head, outputs).into_iter().enumerate();
            each.map(|(at, found)| (found - f64::from(u8::from(at == *class))).powi(2)).sum()
        }
        Truth::Numbers(labels) if target.kind == TargetKind::Labels => {
            let each = outputs.iter().zip(labels);
            let each = each.map(|(&logit, &label)| (sigmoid(logit) - f64::from(label)).powi(2));
            each.sum::<f64>() / labels.len() as f64
        }
        // Of quantiles the middle one is predicted.
        Truth::Numbers(values) => {
            (f64::from(outputs[(outputs.len() - 1) / 2]) - f64::from(values[0])).powi(2)
        }
    }
}

impl Score for RowScore<'_> {
    type Target = Truths;

    fn name(&self) -> &'static str {
        if self.are_classes() { "accuracy" } else { "squared_error" }
    }

    fn score(&self, outputs: &[&[f32]], truths: &Truths) -> f64 {
        if !self.are_classes() {
            return self.mean(outputs, truths, squared_error);
        }
        self.mean(outputs, truths, |target, outputs, truth| {
            f64::from(u8::from(Truth::Class(predicted_class(target, outputs)) == *truth))
        })
    }

    fn is_higher_better(&self) -> bool {
        self.are_classes()
    }

    fn is_share(&self) -> bool {
        self.are_classes()
    }

    fn is_same_prediction(&self, a: &[&[f32]], b: &[&[f32]]) -> Option<bool> {
        let mut is_same = true;
        for (target, (a, b)) in self.0.iter().zip(a.iter().zip(b)) {
            is_same &= match target.kind {
                TargetKind::Number => return None,
                TargetKind::Labels => predicted_labels(target, a) == predicted_labels(target, b),
                TargetKind::Classes | TargetKind::Ordered => {
                    predicted_class(target, a) == predicted_class(target, b)
                }
            };
        }
        Some(is_same)
    }

    fn loss(&self, outputs: &[&[f32]], truths: &Truths) -> Option<f64> {
        Some(self.mean(outputs, truths, squared_error))
    }

    fn check(&self, truths: &Truths, outputs: &[Port]) -> Result<(), String> {
        let widths: Vec<usize> = self.0.iter().map(|target| target.head.width()).collect();
        let found: Vec<usize> = outputs.iter().map(Port::numbers).collect();
        if widths == found && truths.len() == widths.len() {
            return Ok(());
        }
        Err(format!(
            "{} targets with {widths:?} numbers where the outputs have {found:?}",
            truths.len()
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::task::tables::loss::TargetLoss;
    use crate::task::tables::rows::TargetBatch;
    use crate::task::tables::target_plan::TargetPlan;

    fn target(kind: TargetKind, head: Head) -> Target {
        let plan = TargetPlan {
            kind,
            loss: TargetLoss::Quantile { quantiles: vec![0.1, 0.5, 0.9] },
            weight: 1.0,
            missing: Default::default(),
            classes: None,
            separator: None,
        };
        Target::new("y", &plan, head)
    }

    fn logit(p: f64) -> f32 {
        (p / (1.0 - p)).ln() as f32
    }

    #[test]
    fn scores_are_those_that_are_computed_by_hand() {
        let classes = [
            target(TargetKind::Classes, Head::Classes(2)),
            target(TargetKind::Ordered, Head::Ordered(3)),
        ];
        let score = RowScore(&classes);
        // Class 1 with 0.75; above class 0 with 0.8, above class 1 with 0.3: class 1 with 0.5.
        let (first, second) = ([0.0, 3.0_f32.ln()], [logit(0.8), logit(0.3)]);
        let outputs = [&first[..], &second[..]];
        let truths = |a, b| vec![Some(Truth::Class(a)), Some(Truth::Class(b))];
        assert_eq!((score.name(), score.is_share()), ("accuracy", true));
        assert_eq!(score.score(&outputs, &truths(1, 1)), 1.0);
        assert_eq!(score.score(&outputs, &truths(1, 2)), 0.5);
        assert_eq!(score.score(&outputs, &vec![None, Some(Truth::Class(0))]), 0.0);
        let expected = (2.0 * 0.25_f64.powi(2) + 0.04 + 0.25 + 0.09) / 2.0;
        let loss = score.loss(&outputs, &truths(1, 1)).expect("a loss");
        assert!((loss - expected).abs() < 1e-6, "{loss} {expected}");
        let other = [&first[..], &[logit(0.9), logit(0.8)][..]];
        assert_eq!(score.is_same_prediction(&outputs, &other), Some(false));
        assert_eq!(score.is_same_prediction(&outputs, &outputs), Some(true));

        let mixed = [
            target(TargetKind::Number, Head::Numbers(3)),
            target(TargetKind::Labels, Head::Labels(2)),
        ];
        let score = RowScore(&mixed);
        let outputs = [&[-1.0, 0.5, 2.0][..], &[logit(0.6), logit(0.1)][..]];
        let numbers = |values: &[f32]| Some(Truth::Numbers(values.to_vec()));
        let error = score.score(&outputs, &vec![numbers(&[1.0]), numbers(&[1.0, 0.0])]);
        let expected = (0.25 + (0.16 + 0.01) / 2.0) / 2.0;
        assert!((error - expected).abs() < 1e-6, "{error} {expected}");
        assert_eq!((score.name(), score.is_higher_better()), ("squared_error", false));
        assert_eq!(score.is_same_prediction(&outputs, &outputs), None);
        let labels = RowScore(&mixed[1..]);
        let other = [&[logit(0.4), logit(0.1)][..]];
        assert_eq!(labels.is_same_prediction(&outputs[1..], &other), Some(false));
    }

    #[test]
    fn the_values_of_a_batch_belong_to_its_rows() {
        let batch = RowBatch {
            indices: vec![4, 7, 9],
            classes: Vec::new(),
            numbers: vec![0.0; 3],
            targets: vec![
                TargetBatch { rows: vec![0, 2], values: BatchValues::Classes(vec![1, 0]) },
                TargetBatch {
                    rows: vec![0, 1, 2],
                    values: BatchValues::Numbers {
                        width: 2,
                        values: vec![1.0, 0.0, 0.0, 1.0, 1.0, 1.0],
                    },
                },
            ],
        };
        let labels = |a, b| Some(Truth::Numbers(vec![a, b]));
        let expected = [
            vec![Some(Truth::Class(1)), labels(1.0, 0.0)],
            vec![None, labels(0.0, 1.0)],
            vec![Some(Truth::Class(0)), labels(1.0, 1.0)],
        ];
        assert_eq!(truths(&batch), expected);
    }
}
