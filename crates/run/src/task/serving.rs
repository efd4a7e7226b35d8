//! A trained model that predicts, whatever its task.

use std::fmt;
use std::path::Path;

use serde::Serialize;
use updraft_trainer::Unit;

use crate::error::RunError;

/// A class with the probability that the model gives it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ClassProbability {
    /// The class's name.
    pub class: String,
    /// Softmax of the logits, in `[0, 1]`; not calibrated.
    pub probability: f32,
}

/// A predicted number.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Quantity {
    /// The name of the target.
    pub name: String,
    /// The number.
    pub value: f64,
    /// Its unit: that of the target in the training data.
    pub unit: Unit,
}

/// A label with the probability that the model gives it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LabelProbability {
    /// The label's name.
    pub label: String,
    /// Sigmoid of the logit, in `[0, 1]`; not calibrated.
    pub probability: f32,
    /// Whether it is predicted: the probability is at least the label's threshold.
    pub applies: bool,
}

/// A target of several with what is predicted for it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PredictedTarget {
    /// The name of the target.
    pub name: String,
    /// What is predicted.
    #[serde(flatten)]
    pub value: PredictedValue,
}

/// What is predicted for one target of several.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum PredictedValue {
    /// A number.
    Number {
        /// The number.
        value: f64,
        /// Its unit: that of the target in the training data.
        unit: Unit,
    },
    /// Every class, the most probable first.
    Classes(Vec<ClassProbability>),
    /// Every label, in alphabetical order.
    Labels(Vec<LabelProbability>),
}

impl PredictedValue {
    /// Whether every number of it is finite.
    #[must_use]
    pub fn is_finite(&self) -> bool {
        match self {
            Self::Number { value, .. } => value.is_finite(),
            Self::Classes(classes) => classes.iter().all(|class| class.probability.is_finite()),
            Self::Labels(labels) => labels.iter().all(|label| label.probability.is_finite()),
        }
    }
}

/// What a model predicts for a sample.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Outcome {
    /// Every class, the most probable first.
    Classes(Vec<ClassProbability>),
    /// Numbers, in the order of the model's outputs.
    Quantities(Vec<Quantity>),
    /// Targets of several kinds, in the order of their names.
    Targets(Vec<PredictedTarget>),
}

/// The prediction for one sample of a file.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Predicted {
    /// The sample: the file, or the file and its row.
    pub sample: String,
    /// What the model predicts for it.
    #[serde(flatten)]
    pub outcome: Outcome,
}

/// A trained model of a task, loaded and ready to predict; [`TrainedModel`](crate::TrainedModel) is
/// the type that users of models see.
pub trait Serving: fmt::Debug + Send {
    /// The class names, in the order of the model's outputs; none for a task without classes.
    fn classes(&self) -> &[String];

    /// Predicts every sample of a file, of the formats that the task reads.
    ///
    /// # Errors
    /// [`RunError::Io`], [`RunError::Input`], [`RunError::Data`] or [`RunError::Table`] for a file
    /// that cannot be read.
    fn predict(&self, path: &Path) -> Result<Vec<Predicted>, RunError>;
}
