//! A trained model with the data to quantize it to eight bits.

use updraft_quant::Graph;
use updraft_trainer::StreamError;

use crate::error::RunError;
use crate::folder::RunFolder;

/// Batches of inputs and classes: the inputs sample by sample, each of
/// [`Quantizable::input_shape`], and the index of each sample's class.
pub type LabeledBatches<'a> =
    Box<dyn Iterator<Item = Result<(Vec<f32>, Vec<usize>), StreamError>> + 'a>;

/// A trained classifier in f32 with the data to quantize it and to test the result.
pub trait Quantizable {
    /// The shape of one input: channels, height, width.
    fn input_shape(&self) -> [usize; 3];

    /// The network as a graph of layers.
    ///
    /// # Errors
    /// [`RunError::Model`] names the operation that a graph does not have.
    fn capture(&self) -> Result<Graph, RunError>;

    /// The outputs of the model in f32, sample by sample.
    ///
    /// # Shapes
    /// - `inputs`: samples of [`input_shape`](Self::input_shape), one after the other
    /// - returns: `[samples, classes]`
    fn outputs(&self, inputs: &[f32]) -> Vec<f32>;

    /// Multiplies one channel of each block by a factor and divides the weights that read it, so
    /// that the model computes the same with outlier channels.
    ///
    /// # Errors
    /// [`RunError::Model`] for a network without such blocks.
    fn plant_outliers(&mut self, factor: f32) -> Result<(), RunError>;

    /// The batches of the test samples, and the number of samples.
    ///
    /// # Errors
    /// [`RunError::Data`] for data that cannot be opened.
    fn test(&self) -> Result<(LabeledBatches<'_>, usize), RunError>;

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

/// The training samples that ranges are calibrated with.
pub trait CalibrationSamples {
    /// A SHA-256 that identifies the samples.
    fn fingerprint(&self) -> String;

    /// The batches of the samples, and the number of samples.
    ///
    /// # Errors
    /// [`RunError::Data`] for data that cannot be opened.
    fn batches(&self) -> Result<(LabeledBatches<'_>, usize), RunError>;

    /// Writes the choice into the run's folder, where [`Quantizable::calibration`] finds it.
    ///
    /// # Errors
    /// [`RunError::Data`] where it cannot be written.
    fn write(&self, folder: &RunFolder) -> Result<(), RunError>;
}
