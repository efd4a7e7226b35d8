//! What eight bits cost on labeled images, as one report: accuracy, agreement, layers, bytes.

use updraft_simd::Isa;

use super::fuse::{Work, steps};
use super::graph::Graph;
use super::model::QuantizedModel;
use super::plan::Arithmetic;
use super::report::{Comparison, greatest};
use crate::observe::Calibration;

/// Below this ratio, in decibels, a layer's noise is a tenth of its signal or more.
const NOISY_DB: f64 = 20.0;

/// How much noisier than what it reads a layer must be, in decibels, to be the cause itself: its
/// noise is then four times what came in.
const CAUSE_DB: f64 = 6.0;

/// A model beside its graph in f32, on labeled images.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Evaluation {
    /// Images of the test set.
    pub images: usize,
    /// The share that f32 classifies rightly.
    pub accuracy_f32: f64,
    /// The share that the model classifies rightly.
    pub accuracy_int8: f64,
    /// Images that f32 alone classifies rightly.
    pub only_f32_right: usize,
    /// Images that the model alone classifies rightly.
    pub only_int8_right: usize,
    /// How likely a difference as large as this one is if both are equally good: `McNemar`'s exact
    /// test, on both sides.
    pub p_value: f64,
    /// The share of images whose greatest answer is the same.
    pub agreement: f64,
    /// Signal to quantization noise of the answers, in decibels; none if there is no noise.
    pub sqnr_db: Option<f64>,
    /// The share of multiply-adds that run in eight bits.
    pub int8_share: f64,
    /// Bytes of the parameters in f32.
    pub bytes_f32: usize,
    /// Bytes of the model's file.
    pub bytes_int8: usize,
    /// How ranges were found: `minmax`, `percentile`, `entropy` or `mse`.
    pub calibration: &'static str,
    /// Images that ranges were found on.
    pub calibration_images: u64,
    /// The caller's hash of them.
    pub calibration_set: String,
    /// The layers in the order in which they run.
    pub layers: Vec<LayerEvaluation>,
    /// Layers that are noisy though what they read is not: the first to keep in f32.
    pub advised_f32: Vec<String>,
    /// Layers that gave nothing but zero for every calibration image.
    pub zero_layers: Vec<String>,
}

/// A layer of an [`Evaluation`].
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct LayerEvaluation {
    /// The names of its layers, joined by `+`.
    pub name: String,
    /// `int8`, or `f32` and the reason.
    pub arithmetic: String,
    /// Signal to quantization noise, in decibels, with all noise of the layers before it; none if
    /// there is no noise.
    pub sqnr_db: Option<f64>,
    /// Multiplications, each with its addition, for one image.
    pub multiply_adds: usize,
    /// Bytes of the weights as they run.
    pub weight_bytes: usize,
}

/// Why images cannot be evaluated on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EvaluateError {
    /// There are none.
    #[error("the test set has no image; accuracy needs one at least")]
    NoImage,
    /// Images and labels differ in number.
    #[error(
        "test batch {batch} has {got} numbers and {labels} labels; an image has {image} numbers"
    )]
    Labels {
        /// The batch, counted from 0.
        batch: usize,
        /// Numbers of the batch.
        got: usize,
        /// Its labels.
        labels: usize,
        /// Numbers of an image.
        image: usize,
    },
    /// A label is no class.
    #[error("a label of test batch {batch} is {label}; the network tells {classes} classes apart")]
    Label {
        /// The batch, counted from 0.
        batch: usize,
        /// The label.
        label: usize,
        /// How many classes there are.
        classes: usize,
    },
}

impl Evaluation {
    /// Runs both over batches of images `[n, channels, height, width]` with their labels.
    ///
    /// Batches are taken one after the other, each let go before the next.
    ///
    /// # Errors
    /// [`EvaluateError`] for no images, or labels that do not fit.
    ///
    /// # Panics
    /// If the model is not of this graph, or the CPU does not have `isa`.
    pub fn try_new<B: AsRef<[f32]>>(
        graph: &Graph,
        model: &QuantizedModel,
        batches: impl IntoIterator<Item = (B, Vec<usize>)>,
        isa: Isa,
    ) -> Result<Self, EvaluateError> {
        let [image, classes] = model.shapes().map(|shape| shape.iter().product::<usize>());
        let labels = std::cell::RefCell::new(std::collections::VecDeque::new());
        let mut failed = None;
        let mut batches = batches.into_iter().enumerate();
        let checked = std::iter::from_fn(|| {
            let (batch, (values, given)) = batches.next()?;
            let got = values.as_ref().len();
            if got != given.len() * image {
                failed = Some(EvaluateError::Labels { batch, got, labels: given.len(), image });
                return None;
            }
            if let Some(&label) = given.iter().find(|&&label| label >= classes) {
                failed = Some(EvaluateError::Label { batch, label, classes });
                return None;
            }
            labels.borrow_mut().extend(given);
            Some(values)
        });
        let mut counts = Counts::default();
        let compared = Comparison::visited(graph, model, checked, isa, |right, given| {
            let label = labels.borrow_mut().pop_front().expect("one label for each image");
            counts.add([right, given].map(|answer| greatest(answer) == label));
        });
        match failed {
            Some(error) => Err(error),
            None if compared.images == 0 => Err(EvaluateError::NoImage),
            None => Ok(Self::of(graph, model, &compared, counts)),
        }
    }

    fn of(graph: &Graph, model: &QuantizedModel, compared: &Comparison, counts: Counts) -> Self {
        let share = |count: usize| count as f64 / compared.images as f64;
        let (calibrated, plan) = (model.calibrated(), model.plan());
        let finite = |decibels: f64| decibels.is_finite().then_some(decibels);
        let layers = compared.layers.iter().map(|layer| LayerEvaluation {
            name: layer.name.clone(),
            arithmetic: layer.arithmetic.to_string(),
            sqnr_db: finite(layer.sqnr_db),
            multiply_adds: layer.multiply_adds,
            weight_bytes: layer.weight_bytes,
        });
        Self {
            images: compared.images,
            accuracy_f32: share(counts.both_right + counts.only_f32_right),
            accuracy_int8: share(counts.both_right + counts.only_int8_right),
            only_f32_right: counts.only_f32_right,
            only_int8_right: counts.only_int8_right,
            p_value: exact_mcnemar(counts.only_f32_right, counts.only_int8_right),
            agreement: compared.agreement,
            sqnr_db: compared.layers.last().and_then(|layer| finite(layer.sqnr_db)),
            int8_share: plan.int8_share(),
            bytes_f32: size_of::<f32>() * parameters(graph),
            bytes_int8: model.to_bytes().len(),
            calibration: match calibrated.calibration {
                Calibration::MinMax => "minmax",
                Calibration::Percentile(_) => "percentile",
                Calibration::Entropy => "entropy",
                Calibration::MeanSquaredError => "mse",
            },
            calibration_images: calibrated.images,
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

/// Weights and biases of the steps, with batch norms folded.
fn parameters(graph: &Graph) -> usize {
    let of_step = |work: &Work| match work {
        Work::Convolution { weights, bias, .. } | Work::Linear { weights, bias } => {
            weights.len() + bias.len()
        }
        _ => 0,
    };
    steps(graph, false).iter().map(|step| of_step(&step.work)).sum()
}

/// Layers that are noisy though what they read is not.
fn advised(model: &QuantizedModel, compared: &Comparison) -> Vec<String> {
    let of_tensor = |tensor: usize| match tensor.checked_sub(1) {
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

/// Who classified how many images rightly.
#[derive(Debug, Clone, Copy, Default)]
struct Counts {
    both_right: usize,
    only_f32_right: usize,
    only_int8_right: usize,
}

impl Counts {
    fn add(&mut self, are_right: [bool; 2]) {
        match are_right {
            [true, true] => self.both_right += 1,
            [true, false] => self.only_f32_right += 1,
            [false, true] => self.only_int8_right += 1,
            [false, false] => {}
        }
    }
}

/// The chance that of `a + b` fair coins so few, or so many, fall on one side.
///
/// Source: `McNemar` 1947, Psychometrika 12, with the binomial distribution itself.
fn exact_mcnemar(a: usize, b: usize) -> f64 {
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
        assert_eq!(exact_mcnemar(0, 0), 1.0);
        assert_eq!(exact_mcnemar(3, 3), 1.0);
        // 2·(1 + 5)/2⁵ and 2/2¹⁰.
        assert!((exact_mcnemar(1, 4) - 0.375).abs() < 1e-12);
        assert!((exact_mcnemar(10, 0) - 2.0 / 1024.0).abs() < 1e-15);
        assert_eq!(exact_mcnemar(4, 1), exact_mcnemar(1, 4));
        // By rational arithmetic.
        assert!((exact_mcnemar(480, 520) - 0.217_448_293_204).abs() < 1e-9);
        assert!(exact_mcnemar(0, 5000) < 1e-300);
    }
}
