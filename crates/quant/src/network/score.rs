//! The score of predictions, which a task defines for an evaluation.

use super::graph::Port;

/// The score of a network's outputs for one sample, given the sample's target.
///
/// An evaluation reports the mean over all samples, in f32 and in int8, and tests the
/// difference sample by sample.
pub trait Score {
    /// The target of a sample.
    type Target;

    /// Its name, such as `accuracy`.
    fn name(&self) -> &'static str;

    /// The score of one sample; `outputs` has a slice for each output, channels first.
    fn score(&self, outputs: &[&[f32]], target: &Self::Target) -> f64;

    /// Whether the greater of two scores is the better one.
    fn is_higher_better(&self) -> bool {
        true
    }

    /// Whether it is a share, from 0 to 1.
    fn is_share(&self) -> bool {
        false
    }

    /// Whether the outputs `a` and `b` are the same prediction, such as the same class; `None` for
    /// outputs without such a prediction, such as numbers.
    fn is_same_prediction(&self, _a: &[&[f32]], _b: &[&[f32]]) -> Option<bool> {
        None
    }

    /// The loss of one sample, which is less for better outputs and finer than the score; `None` for
    /// scores without a loss.
    fn loss(&self, _outputs: &[&[f32]], _target: &Self::Target) -> Option<f64> {
        None
    }

    /// Whether a target fits a network's outputs.
    ///
    /// # Errors
    /// What is wrong with it.
    fn check(&self, _target: &Self::Target, _outputs: &[Port]) -> Result<(), String> {
        Ok(())
    }
}

/// Whether the maximum of the first output is at the sample's class.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Accuracy;

impl Score for Accuracy {
    type Target = usize;

    fn name(&self) -> &'static str {
        "accuracy"
    }

    fn score(&self, outputs: &[&[f32]], target: &usize) -> f64 {
        f64::from(u8::from(greatest(outputs[0]) == *target))
    }

    fn is_share(&self) -> bool {
        true
    }

    /// The cross-entropy of the first output as logits.
    fn loss(&self, outputs: &[&[f32]], target: &usize) -> Option<f64> {
        let logits = outputs[0];
        let most = f64::from(logits[greatest(logits)]);
        let sum: f64 = logits.iter().map(|&logit| (f64::from(logit) - most).exp()).sum();
        Some(sum.ln() + most - f64::from(logits[*target]))
    }

    fn is_same_prediction(&self, a: &[&[f32]], b: &[&[f32]]) -> Option<bool> {
        Some(greatest(a[0]) == greatest(b[0]))
    }

    fn check(&self, target: &usize, outputs: &[Port]) -> Result<(), String> {
        let classes = outputs[0].numbers();
        if *target < classes {
            return Ok(());
        }
        Err(format!("class {target} of {classes}, counted from 0"))
    }
}

/// The mean squared error over all numbers of the outputs; a target has them output by output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SquaredError;

impl Score for SquaredError {
    type Target = Vec<f32>;

    fn name(&self) -> &'static str {
        "squared_error"
    }

    fn score(&self, outputs: &[&[f32]], target: &Vec<f32>) -> f64 {
        let all = outputs.iter().copied().flatten().zip(target);
        let sum: f64 = all.map(|(&a, &b)| (f64::from(a) - f64::from(b)).powi(2)).sum();
        sum / target.len() as f64
    }

    fn is_higher_better(&self) -> bool {
        false
    }

    fn loss(&self, outputs: &[&[f32]], target: &Vec<f32>) -> Option<f64> {
        Some(self.score(outputs, target))
    }

    fn check(&self, target: &Vec<f32>, outputs: &[Port]) -> Result<(), String> {
        let expected: usize = outputs.iter().map(Port::numbers).sum();
        if target.len() == expected {
            return Ok(());
        }
        Err(format!("{} numbers where the outputs have {expected}", target.len()))
    }
}

/// The index of the first maximum.
fn greatest(values: &[f32]) -> usize {
    let mut best = 0;
    for (index, value) in values.iter().enumerate() {
        if *value > values[best] {
            best = index;
        }
    }
    best
}
