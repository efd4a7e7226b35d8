//! A trained model that predicts, whatever its task.

use std::fmt;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use serde::Serialize;
use updraft_data::{Axis, Blend, WindowProgress};
use updraft_trainer::{Metric, Unit};

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

/// How a whole image or volume is predicted into a file, by windows that a network sees.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct FilePrediction {
    /// The image: TIFF, `BigTIFF`, OME-TIFF or PNG.
    pub input: PathBuf,
    /// The OME-TIFF to write.
    pub output: PathBuf,
    /// The sides of a window; those of the run's patches by default.
    pub window: Option<Vec<usize>>,
    /// How much of a window the next one covers again, as
    /// [`SlidingWindow::overlap`](updraft_data::SlidingWindow::overlap).
    pub overlap: Vec<f64>,
    /// Windows that the network sees at once.
    pub batch: usize,
    /// How windows are averaged where they overlap.
    pub blend: Blend,
    /// Axes along which windows are also seen mirrored.
    pub mirror: Vec<Axis>,
    /// Whether the output of every class is written, not the class.
    pub keeps_channels: bool,
    /// Files for the connected components of a mask.
    pub components: Option<ComponentFiles>,
    /// The true image or mask, to compare the prediction with.
    pub truth: Option<PathBuf>,
}

/// Files for the connected components of a mask.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ComponentFiles {
    /// An OME-TIFF of the component of every position.
    pub labels: PathBuf,
    /// A CSV table with a row for each component.
    pub table: PathBuf,
}

impl FilePrediction {
    /// A prediction of a file into another one: a quarter overlapping, one window at a time,
    /// Gaussian weights, classes of masks.
    #[must_use]
    pub fn new(input: impl Into<PathBuf>, output: impl Into<PathBuf>) -> Self {
        Self {
            input: input.into(),
            output: output.into(),
            window: None,
            overlap: vec![0.25],
            batch: 1,
            blend: Blend::Gaussian { sigma: vec![0.125] },
            mirror: Vec::new(),
            keeps_channels: false,
            components: None,
            truth: None,
        }
    }
}

/// A prediction that was written to a file.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct WrittenPrediction {
    /// Rows and columns, or slices, rows and columns.
    pub sides: Vec<usize>,
    /// Channels of the file.
    pub channels: usize,
    /// Points in time.
    pub frames: usize,
    /// Slices of a volume, or rows of a picture, that an earlier run had written.
    pub resumed_planes: usize,
    /// How many components a mask has.
    pub components: Option<usize>,
    /// Metrics beside the true image or mask.
    pub metrics: Vec<Metric>,
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

    /// Predicts a whole image or volume into a file; `progress` is called after each batch of
    /// windows and may stop the prediction, which the next call goes on with.
    ///
    /// # Errors
    /// [`RunError::Unusable`] for a task that predicts no images; [`RunError::Input`] for an image
    /// of another kind than the run's, and [`RunError::Data`].
    fn predict_file(
        &self,
        request: &FilePrediction,
        progress: &mut dyn FnMut(WindowProgress) -> ControlFlow<()>,
    ) -> Result<WrittenPrediction, RunError> {
        let _ = (request, progress);
        let reason = "the run's task predicts no images: leave out --out".to_owned();
        Err(RunError::Unusable { reason })
    }
}
