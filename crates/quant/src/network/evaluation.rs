//! The cost of int8 on a test set, as one report: the task's score, layers, bytes.

use std::cell::RefCell;
use std::collections::VecDeque;

use serde::Serialize;
use updraft_simd::Isa;

use super::fuse::Steps;
use super::graph::Graph;
use super::model::QuantizedModel;
use super::plan::Arithmetic;
use super::report::Comparison;
use super::samples::{Samples, SamplesExt};
use super::score::Score;
use crate::observe::Calibration;
use crate::weights::WeightFormat;

/// Below this ratio, in decibels, a layer's noise is a tenth of its signal or more.
const NOISY_DB: f64 = 20.0;

/// How much noisier than its inputs a layer must be, in decibels, to be the cause itself: its
/// noise is then four times that of its inputs.
const CAUSE_DB: f64 = 6.0;

/// A comparison of a model with its graph in f32, by a task's score.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Evaluation {
    /// Samples of the test set.
    pub samples: usize,
    /// The name of the score.
    pub score: &'static str,
    /// Whether the score is a share, from 0 to 1.
    pub is_share: bool,
    /// Whether the greater of two scores is the better one.
    pub is_higher_better: bool,
    /// The mean score in f32.
    pub score_f32: f64,
    /// The mean score of the model.
    pub score_int8: f64,
    /// Samples whose score is better in f32.
    pub f32_better: usize,
    /// Samples whose score is better of the model.
    pub int8_better: usize,
    /// The probability of a difference as large as this one if both are equally good: the exact
    /// sign test on both sides, which for right and wrong predictions is `McNemar`'s.
    pub p_value: f64,
    /// The share of samples with equal predictions, if the score defines predictions.
    pub agreement: Option<f64>,
    /// Signal to quantization noise of the outputs, in decibels, the lowest of all; `None` if
    /// there is no noise.
    pub sqnr_db: Option<f64>,
    /// The share of multiply-adds that run in int8.
    pub int8_share: f64,
    /// Bytes of the parameters in f32.
    pub bytes_f32: usize,
    /// Bytes of the model's file.
    pub bytes_int8: usize,
    /// Bytes of the model's parameters in its file, without names and settings.
    pub parameter_bytes: usize,
    /// The calibration method: `minmax`, `percentile`, `entropy` or `mse`.
    pub calibration: &'static str,
    /// Samples of the calibration.
    pub calibration_samples: u64,
    /// The caller's hash of them.
    pub calibration_set: String,
    /// The layers in the order in which they run.
    pub layers: Vec<LayerEvaluation>,
    /// Layers that are noisy although their inputs are not: the first to keep in f32.
    pub advised_f32: Vec<String>,
    /// Layers whose output was zero for every calibration sample.
    pub zero_layers: Vec<String>,
}

/// A layer of an [`Evaluation`].
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct LayerEvaluation {
    /// The names of its layers, joined by `+`.
    pub name: String,
    /// `int8`, or `f32` and the reason.
    pub arithmetic: String,
    /// Signal to quantization noise, in decibels, with all noise of the layers before it; none if
    /// there is no noise.
    pub sqnr_db: Option<f64>,
    /// Multiplications, each with its addition, for one sample.
    pub multiply_adds: usize,
    /// Bytes of the weights as they run.
    pub weight_bytes: usize,
    /// Bits of its integer weights; none in f32 or without weights.
    pub weight_bits: Option<u8>,
}

/// Errors of an evaluation.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EvaluateError {
    /// There are no samples.
    #[error("the test set has no sample; a score needs one at least")]
    NoSample,
    /// Samples and targets differ in number.
    #[error(
        "test batch {batch} has {targets} targets and {got:?} numbers; for each input they must be \
         {targets} times {sample:?}, those of a sample"
    )]
    Targets {
        /// The batch, counted from 0.
        batch: usize,
        /// Its targets.
        targets: usize,
        /// Numbers of the batch, input by input.
        got: Vec<usize>,
        /// Numbers of a sample, input by input.
        sample: Vec<usize>,
    },
    /// A target does not fit the network.
    #[error("a target of test batch {batch} is not a target of the network: {cause}")]
    Target {
        /// The batch, counted from 0.
        batch: usize,
        /// The reason, from the score.
        cause: String,
    },
}

impl Evaluation {
    /// Runs both over batches of samples with a target for each.
    ///
    /// Each batch is dropped before the next one is requested.
    ///
    /// # Errors
    /// [`EvaluateError`] for no samples, or targets that do not fit.
    ///
    /// # Panics
    /// If the model is not of this graph, or the CPU does not have `isa`.
    pub fn try_new<B: Samples, S: Score>(
        graph: &Graph,
        model: &QuantizedModel,
        batches: impl IntoIterator<Item = (B, Vec<S::Target>)>,
        score: &S,
        isa: Isa,
    ) -> Result<Self, EvaluateError> {
        let outputs: Vec<_> = model.outputs().cloned().collect();
        let targets = RefCell::new(VecDeque::new());
        let mut failed = None;
        let mut batches = batches.into_iter().enumerate();
        let checked = std::iter::from_fn(|| {
            let (batch, (samples, given)) = batches.next()?;
            if samples.count(&model.inputs) != Some(given.len()) {
                let got = (0..samples.inputs()).map(|input| samples.input(input).len()).collect();
                let sample = model.inputs.iter().map(super::graph::Port::numbers).collect();
                failed = Some(EvaluateError::Targets { batch, targets: given.len(), got, sample });
                return None;
            }
            let wrong = given.iter().find_map(|target| score.check(target, &outputs).err());
            if let Some(cause) = wrong {
                failed = Some(EvaluateError::Target { batch, cause });
                return None;
            }
            targets.borrow_mut().extend(given);
            Some(samples)
        });
        let mut sums = Sums::default();
        let compared = Comparison::visited(graph, model, checked, isa, |right, given| {
            let target = targets.borrow_mut().pop_front().expect("one target for each sample");
            let scores = [right, given].map(|outputs| score.score(outputs, &target));
            sums.add(scores, score.is_higher_better(), score.is_same_prediction(right, given));
        });
        match failed {
            Some(error) => Err(error),
            None if compared.samples == 0 => Err(EvaluateError::NoSample),
            None => Ok(Self::of(graph, model, &compared, score, &sums)),
        }
    }

    fn of<S: Score>(
        graph: &Graph,
        model: &QuantizedModel,
        compared: &Comparison,
        score: &S,
        sums: &Sums,
    ) -> Self {
        let mean = |sum: f64| sum / compared.samples as f64;
        let (calibrated, plan) = (model.calibrated(), model.plan());
        let finite = |decibels: f64| decibels.is_finite().then_some(decibels);
        let layers =
            compared.layers.iter().zip(&plan.layers).map(|(layer, planned)| LayerEvaluation {
                name: layer.name.clone(),
                arithmetic: layer.arithmetic.to_string(),
                sqnr_db: finite(layer.sqnr_db),
                multiply_adds: layer.multiply_adds,
                weight_bytes: layer.weight_bytes,
                weight_bits: planned.weights.map(WeightFormat::bits),
            });
        let steps = Steps::new(graph, false);
        Self {
            samples: compared.samples,
            score: score.name(),
            is_share: score.is_share(),
            is_higher_better: score.is_higher_better(),
            score_f32: mean(sums.scores[0]),
            score_int8: mean(sums.scores[1]),
            f32_better: sums.better[0],
            int8_better: sums.better[1],
            p_value: exact_sign_test(sums.better[0], sums.better[1]),
            agreement: sums.same.map(|same| mean(same as f64)),
            sqnr_db: finite(compared.outputs_db.iter().copied().fold(f64::INFINITY, f64::min)),
            int8_share: plan.int8_share(),
            bytes_f32: steps.list.iter().map(|step| step.work.parameters.bytes()).sum(),
            bytes_int8: model.to_bytes().len(),
            parameter_bytes: model.file_bytes(),
            calibration: match calibrated.calibration {
                Calibration::MinMax => "minmax",
                Calibration::Percentile(_) => "percentile",
                Calibration::Entropy => "entropy",
                Calibration::MeanSquaredError => "mse",
            },
            calibration_samples: calibrated.samples,
            calibration_set: calibrated.set_hash.clone(),
            layers: layers.collect(),
            advised_f32: advised(model, compared),
            zero_layers: plan
                .layers
                .into_iter()
                .filter_map(|layer| layer.is_zero.then_some(layer.name))
                .collect(),
        }
    }
}

/// Layers that are noisy although their inputs are not.
fn advised(model: &QuantizedModel, compared: &Comparison) -> Vec<String> {
    let of_tensor = |tensor: usize| match tensor.checked_sub(model.inputs.len()) {
        Some(layer) => compared.layers[layer].sqnr_db,
        None => f64::INFINITY,
    };
    let layers = model.layers.iter().zip(&compared.layers);
    let is_cause = layers.filter(|(layer, compared)| {
        let came_in = layer.inputs.iter().map(|&input| of_tensor(input));
        let came_in = came_in.fold(f64::INFINITY, f64::min);
        compared.arithmetic == Arithmetic::Int8
            && compared.sqnr_db < NOISY_DB
            && compared.sqnr_db < came_in - CAUSE_DB
    });
    is_cause.map(|(layer, _)| layer.name.clone()).collect()
}

/// Sums over samples: in f32, then of the model.
#[derive(Debug, Default)]
struct Sums {
    scores: [f64; 2],
    /// Samples whose score is the better one.
    better: [usize; 2],
    same: Option<usize>,
}

impl Sums {
    fn add(&mut self, scores: [f64; 2], is_higher_better: bool, is_same: Option<bool>) {
        let [of_f32, of_int8] = scores;
        let better = [of_f32 > of_int8, of_f32 < of_int8];
        for side in 0..2 {
            self.scores[side] += scores[side];
            self.better[side] +=
                usize::from(better[if is_higher_better { side } else { 1 - side }]);
        }
        if let Some(is_same) = is_same {
            self.same = Some(self.same.unwrap_or_default() + usize::from(is_same));
        }
    }
}

/// The two-sided probability of at most `a`, or at least `b`, heads in `a + b` fair coin flips.
///
/// Source: `McNemar` 1947, Psychometrika 12, with the binomial distribution itself.
fn exact_sign_test(a: usize, b: usize) -> f64 {
    let (n, least) = (a + b, a.min(b));
    // ln of C(n, k)/2ⁿ, from one k to the next.
    let mut term = -(n as f64) * std::f64::consts::LN_2;
    let mut sum = 0.0;
    for k in 0..=least {
        sum += term.exp();
        term += ((n - k) as f64).ln() - ((k + 1) as f64).ln();
    }
    (2.0 * sum).min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_paired_test_is_that_of_fair_coins() {
        assert_eq!(exact_sign_test(0, 0), 1.0);
        assert_eq!(exact_sign_test(3, 3), 1.0);
        // 2·(1 + 5)/2⁵ and 2/2¹⁰.
        assert!((exact_sign_test(1, 4) - 0.375).abs() < 1e-12);
        assert!((exact_sign_test(10, 0) - 2.0 / 1024.0).abs() < 1e-15);
        assert_eq!(exact_sign_test(4, 1), exact_sign_test(1, 4));
        // By rational arithmetic.
        assert!((exact_sign_test(480, 520) - 0.217_448_293_204).abs() < 1e-9);
        assert!(exact_sign_test(0, 5000) < 1e-300);
    }
}
