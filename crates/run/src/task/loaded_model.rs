//! A trained model of any task, for prediction.

use std::collections::HashMap;
use std::fmt;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::{Map, Value};
use updraft_data::{Axis, Blend, DataError, SlidingWindow, WindowProgress};
use updraft_distributed::Collective;
use updraft_trainer::{CaptureReport, Metric, Unit};

use super::predicted_row::PredictedRow;
use super::prediction_table::PredictionColumns;
use crate::error::RunError;

/// A class with its predicted probability.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ClassProbability {
    /// The class's name.
    pub class: String,
    /// Softmax of the logits, in `[0, 1]`; not calibrated.
    pub probability: f32,
}

/// A label with its predicted probability.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LabelProbability {
    /// The label's name.
    pub label: String,
    /// Sigmoid of the logit, in `[0, 1]`; not calibrated.
    pub probability: f32,
    /// Whether it is predicted: the probability is at least the label's threshold.
    pub applies: bool,
}

/// A quantile of a predicted number.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Quantile {
    /// The probability that the true number is below, above 0 and below 1.
    pub level: f64,
    /// The number, in the unit of the prediction.
    pub value: f64,
}

/// A named target with its prediction.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PredictedTarget {
    /// The name of the target.
    pub name: String,
    /// What is predicted.
    #[serde(flatten)]
    pub value: PredictedValue,
}

/// The prediction for a target.
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
        /// The quantiles that the target's loss names, by level; the number is the middle one. Empty
        /// for other losses.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        quantiles: Vec<Quantile>,
    },
    /// Every class, the most probable first.
    Classes(Vec<ClassProbability>),
    /// Every label, in alphabetical order.
    Labels(Vec<LabelProbability>),
}

impl PredictedValue {
    /// The number; `None` for classes and labels.
    #[must_use]
    pub const fn number(&self) -> Option<f64> {
        match self {
            Self::Number { value, .. } => Some(*value),
            Self::Classes(_) | Self::Labels(_) => None,
        }
    }

    /// The quantile of a level; `None` for a level that the target's loss does not name, and for
    /// classes and labels.
    #[must_use]
    pub fn quantile(&self, level: f64) -> Option<f64> {
        match self {
            Self::Number { quantiles, .. } => {
                let quantile = quantiles.iter().find(|quantile| quantile.level == level);
                quantile.map(|quantile| quantile.value)
            }
            Self::Classes(_) | Self::Labels(_) => None,
        }
    }

    /// The most probable class; `None` for numbers and labels.
    #[must_use]
    pub fn class(&self) -> Option<&str> {
        match self {
            Self::Classes(classes) => classes.first().map(|first| first.class.as_str()),
            Self::Number { .. } | Self::Labels(_) => None,
        }
    }

    /// The labels that apply; `None` for numbers and classes.
    #[must_use]
    pub fn labels(&self) -> Option<Vec<&str>> {
        match self {
            Self::Labels(labels) => {
                let applying = labels.iter().filter(|label| label.applies);
                Some(applying.map(|label| label.label.as_str()).collect())
            }
            Self::Number { .. } | Self::Classes(_) => None,
        }
    }

    /// The probability of a class or a label; `None` for a word that the target does not have, and
    /// for numbers.
    #[must_use]
    pub fn probability(&self, word: &str) -> Option<f32> {
        match self {
            Self::Number { .. } => None,
            Self::Classes(classes) => {
                let class = classes.iter().find(|class| class.class == word);
                class.map(|class| class.probability)
            }
            Self::Labels(labels) => {
                let label = labels.iter().find(|label| label.label == word);
                label.map(|label| label.probability)
            }
        }
    }

    /// Whether all its values are finite.
    #[must_use]
    pub fn is_finite(&self) -> bool {
        match self {
            Self::Number { value, quantiles, .. } => {
                value.is_finite() && quantiles.iter().all(|quantile| quantile.value.is_finite())
            }
            Self::Classes(classes) => classes.iter().all(|class| class.probability.is_finite()),
            Self::Labels(labels) => labels.iter().all(|label| label.probability.is_finite()),
        }
    }
}

/// The prediction for a sample.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Outcome {
    /// Every class, the most probable first.
    Classes(Vec<ClassProbability>),
    /// The targets of a row, of any kinds, in the order of their names.
    Targets(Vec<PredictedTarget>),
}

/// The prediction for one sample of a file.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Predicted {
    /// The sample: the file, or the file and its row.
    pub sample: String,
    /// The prediction.
    #[serde(flatten)]
    pub outcome: Outcome,
}

/// The settings of predicting a whole image or volume into a file, with sliding windows.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct FilePrediction {
    /// The image: TIFF, `BigTIFF`, OME-TIFF or PNG.
    pub input: PathBuf,
    /// The OME-TIFF to write.
    pub output: PathBuf,
    /// The sides of a window; those of the run's patches by default.
    pub window: Option<Vec<usize>>,
    /// The overlap of windows, as [`SlidingWindow::overlap`](updraft_data::SlidingWindow::overlap).
    pub overlap: Vec<f64>,
    /// The batch size of the network.
    pub batch: usize,
    /// The weights of overlapping windows.
    pub blend: Blend,
    /// Axes for test-time augmentation by mirroring.
    pub mirror: Vec<Axis>,
    /// Whether to write the output of every class instead of the class.
    pub keeps_channels: bool,
    /// Files for the connected components of a mask.
    pub components: Option<ComponentFiles>,
    /// The true image or mask, for comparison.
    pub truth: Option<PathBuf>,
    /// Another prediction of the same image, for the mean and the largest difference.
    pub compare_with: Option<PathBuf>,
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
    /// Predicts a file into another one: overlap 0.25, batch size 1, Gaussian weights, classes of
    /// masks.
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
            compare_with: None,
        }
    }

    /// The sliding window: sides of `patch` by default, each a multiple of `stride`.
    ///
    /// # Errors
    /// [`RunError::Unusable`] naming the option that is out of range.
    pub(in crate::task) fn sliding(
        &self,
        patch: &[usize],
        stride: usize,
    ) -> Result<SlidingWindow, RunError> {
        let window = self.window.as_deref().unwrap_or(patch);
        let sliding = SlidingWindow::new(window)
            .with_overlap(&self.overlap)
            .with_batch(self.batch)
            .with_blend(self.blend.clone())
            .with_mirror(&self.mirror)
            .with_multiple_of(&[stride]);
        match sliding.validate(patch.len()) {
            Ok(()) => Ok(sliding),
            Err(DataError::Setting { name, value, expected }) => {
                let reason = format!("`--{name}` is {value}; it must be {expected}");
                Err(RunError::Unusable { reason })
            }
            Err(other) => Err(other.into()),
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
    /// Slices of a volume, or rows of a picture, that an earlier run wrote.
    pub resumed_planes: usize,
    /// The number of components of a mask.
    pub components: Option<usize>,
    /// Metrics, if the true image or mask is given.
    pub metrics: Vec<Metric>,
}

/// The samples of one file in blocks, in the order of the file.
///
/// The file is opened by the first call. The division depends on the file only, and the predictions
/// of a block only on its samples, so that several readers of the same file can predict different
/// blocks. Nothing is to be called after an error.
pub trait SampleBlocks {
    /// Reads the next block without predicting it; false at the end of the file.
    ///
    /// # Errors
    /// As [`LoadedModel::predict`], for what cannot be read.
    fn skip(&mut self) -> Result<bool, RunError>;

    /// The predictions of the next block; `None` at the end of the file.
    ///
    /// # Errors
    /// As [`LoadedModel::predict`].
    fn predict(&mut self) -> Result<Option<Vec<Predicted>>, RunError>;
}

/// A trained model of a task, loaded and ready to predict; [`TrainedModel`](crate::TrainedModel) is
/// the public type.
pub trait LoadedModel: fmt::Debug + Send {
    /// The path of the layer that owns each parameter, by the parameter's identifier, for a trace;
    /// without it the layers have the name of what they compute.
    fn layer_names(&self) -> HashMap<u64, String> {
        HashMap::new()
    }

    /// Records the forward pass at its next call and replays it then, with the same results.
    ///
    /// # Errors
    /// The reason why it cannot be, without a full stop; the default.
    fn capture(&mut self) -> Result<(), &'static str> {
        Err("its predictions are no calls of one forward pass")
    }

    /// How captured forward passes were computed; `None` if none is captured.
    fn capture_report(&self) -> Option<CaptureReport> {
        None
    }

    /// The class names, in the order of the model's outputs; empty for a task without classes.
    fn classes(&self) -> &[String];

    /// Predicts every sample of a file, of the formats that the task reads.
    ///
    /// # Errors
    /// [`RunError::Io`], [`RunError::Input`], [`RunError::Data`] or [`RunError::Table`] for a file
    /// that cannot be read.
    fn predict(&self, path: &Path) -> Result<Vec<Predicted>, RunError>;

    /// The same with a call for each sample, in the order of the file, until one breaks; a task whose
    /// files have many samples predicts them while it reads.
    ///
    /// # Errors
    /// As [`predict`](Self::predict); samples before the error have been passed on.
    fn predict_each(
        &self,
        path: &Path,
        each: &mut dyn FnMut(Predicted) -> ControlFlow<()>,
    ) -> Result<(), RunError> {
        let mut all = self.predict(path)?.into_iter();
        let _ = all.try_for_each(each);
        Ok(())
    }

    /// The samples of a file in blocks that can be predicted one by one; `None` for a task whose
    /// files are one sample each.
    fn blocks<'a>(&'a self, path: &Path) -> Option<Box<dyn SampleBlocks + 'a>> {
        let _ = path;
        None
    }

    /// Predicts a whole image or volume into a file, which rank 0 writes; `None` on other ranks.
    /// `progress` is called after each batch of
    /// windows and may stop the prediction, which the next call resumes.
    ///
    /// # Errors
    /// [`RunError::Unusable`] for a task that does not predict images; [`RunError::Input`] for an
    /// image of another kind than the run's, and [`RunError::Data`].
    fn predict_file(
        &self,
        request: &FilePrediction,
        ranks: &mut dyn Collective,
        progress: &mut dyn FnMut(WindowProgress) -> ControlFlow<()>,
    ) -> Result<Option<WrittenPrediction>, RunError> {
        let _ = (request, ranks, progress);
        Err(RunError::predicts_no_images())
    }

    /// The columns of a table of the model's predictions, for tasks whose samples are rows.
    ///
    /// # Errors
    /// [`RunError::Unusable`] for a task that does not predict rows, the default, and for targets
    /// with columns of the same name.
    fn prediction_columns(&self) -> Result<PredictionColumns, RunError> {
        Err(RunError::predicts_no_rows())
    }

    /// Predicts rows that are in memory: objects with the value of each column.
    ///
    /// # Errors
    /// [`RunError::Unusable`] for a task that does not predict rows, the default, and with the row
    /// and column for a value that is missing or cannot be read; [`RunError::Table`] likewise.
    fn predict_rows(&self, rows: &[Map<String, Value>]) -> Result<Vec<PredictedRow>, RunError> {
        let _ = rows;
        Err(RunError::predicts_no_rows())
    }
}
