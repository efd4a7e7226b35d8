//! A trained model with the data to quantize it to eight bits.

use updraft_quant::slices::Isa;
use updraft_quant::{Evaluation, Graph, QuantizedModel, Score};
use updraft_trainer::StreamError;

use crate::error::RunError;
use crate::folder::RunFolder;

/// Batches of inputs, sample by sample, each of [`Quantizable::input_shape`].
pub type InputBatches<'a> = Box<dyn Iterator<Item = Result<Vec<f32>, StreamError>> + 'a>;

/// Batches of inputs with what a task knows of each sample, and the number of samples.
pub type ScoredBatches<'a, T> =
    (Box<dyn Iterator<Item = Result<(Vec<f32>, Vec<T>), StreamError>> + 'a>, usize);

/// A trained model in f32 with the data to quantize it and to test the result.
pub trait Quantizable {
    /// The shape of one input, channels first.
    fn input_shape(&self) -> Vec<usize>;

    /// The network as a graph of layers.
    ///
    /// # Errors
    /// [`RunError::Model`] names the operation that a graph does not have.
    fn capture(&self) -> Result<Graph, RunError>;

    /// The outputs of the model in f32, sample by sample.
    ///
    /// # Shapes
    /// - `inputs`: samples of [`input_shape`](Self::input_shape), one after the other
    /// - returns: the numbers of all outputs, sample by sample
    fn outputs(&self, inputs: &[f32]) -> Vec<f32>;

    /// Multiplies one channel of each block by a factor and divides the weights that read it, so
    /// that the model computes the same with outlier channels.
    ///
    /// # Errors
    /// [`RunError::Model`] for a network without such blocks.
    fn plant_outliers(&mut self, factor: f32) -> Result<(), RunError>;

    /// Some inputs of the test data, one after the other.
    ///
    /// # Errors
    /// [`RunError::Data`] or [`RunError::Stream`] for data that cannot be opened.
    fn first_inputs(&self) -> Result<Vec<f32>, RunError>;

    /// Scores the model beside its graph on the test data by the task's own score; see
    /// [`evaluated`].
    ///
    /// # Errors
    /// [`RunError::Data`] or [`RunError::Stream`] for data that cannot be opened or delivered.
    fn evaluate(
        &self,
        graph: &Graph,
        model: &QuantizedModel,
        isa: Isa,
        watch: &mut dyn FnMut(u64, u64) -> bool,
    ) -> Result<Option<Evaluation>, RunError>;

    /// Chooses `count` training samples, at most all, to calibrate ranges with; the same for the
    /// same run.
    ///
    /// # Errors
    /// [`RunError::Data`] for a choice in the run's folder that is damaged.
    fn calibration(
        &self,
        folder: &RunFolder,
        count: usize,
    ) -> Result<Box<dyn CalibrationSamples + '_>, RunError>;
}

/// Scores a model beside its graph on batches with targets: what [`Quantizable::evaluate`] does with
/// a score of the task's.
///
/// `watch` is called before each batch with the samples that were seen and those there are; where
/// it returns `false`, nothing is returned.
///
/// # Errors
/// [`RunError::Stream`] for data that cannot be delivered, [`RunError::Model`] for targets that do
/// not fit the model.
pub fn evaluated<S: Score>(
    graph: &Graph,
    model: &QuantizedModel,
    (mut batches, samples): ScoredBatches<'_, S::Target>,
    score: &S,
    isa: Isa,
    watch: &mut dyn FnMut(u64, u64) -> bool,
) -> Result<Option<Evaluation>, RunError> {
    let (mut seen, mut failed, mut was_stopped) = (0, None, false);
    let watched = std::iter::from_fn(|| {
        was_stopped = !watch(seen, samples as u64);
        match batches.next().filter(|_| !was_stopped)? {
            Ok((inputs, targets)) => {
                seen += targets.len() as u64;
                Some((inputs, targets))
            }
            Err(cause) => {
                failed = Some(RunError::Stream { split: "test", cause });
                None
            }
        }
    });
    let evaluation = Evaluation::try_new(graph, model, watched, score, isa);
    match failed {
        Some(error) => Err(error),
        None if was_stopped => Ok(None),
        None => evaluation.map(Some).map_err(RunError::model),
    }
}

/// The training samples that ranges are calibrated with.
pub trait CalibrationSamples {
    /// A SHA-256 that identifies the samples.
    fn fingerprint(&self) -> String;

    /// The batches of the samples, and the number of samples.
    ///
    /// # Errors
    /// [`RunError::Data`] for data that cannot be opened.
    fn batches(&self) -> Result<(InputBatches<'_>, usize), RunError>;

    /// Writes the choice into the run's folder, where [`Quantizable::calibration`] finds it.
    ///
    /// # Errors
    /// [`RunError::Data`] where it cannot be written.
    fn write(&self, folder: &RunFolder) -> Result<(), RunError>;
}
