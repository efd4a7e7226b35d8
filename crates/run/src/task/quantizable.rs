//! A trained model with the data to quantize it to int8.

use updraft_quant::slices::Isa;
use updraft_quant::{
    Evaluation, Graph, Observation, Quantization, QuantizedModel, Score, Sensitivity, WeightFormat,
};
use updraft_trainer::StreamError;

use crate::error::RunError;
use crate::folder::RunFolder;

/// Batches of inputs, sample by sample, each of [`Quantizable::input_shape`].
pub type InputBatches<'a> = Box<dyn Iterator<Item = Result<Vec<f32>, StreamError>> + 'a>;

/// Batches of inputs with targets, and the number of samples.
pub type ScoredBatches<'a, T> =
    (Box<dyn Iterator<Item = Result<(Vec<f32>, Vec<T>), StreamError>> + 'a>, usize);

/// A trained model in f32 with the data to quantize it and to test the result.
pub trait Quantizable {
    /// The shape of one input, channels first.
    fn input_shape(&self) -> Vec<usize>;

    /// The network as a graph of layers.
    ///
    /// # Errors
    /// [`RunError::Model`] with the operation that graphs do not support.
    fn capture(&self) -> Result<Graph, RunError>;

    /// The outputs of the model in f32, sample by sample.
    ///
    /// # Shapes
    /// - `inputs`: samples of [`input_shape`](Self::input_shape), one after the other
    /// - returns: the numbers of all outputs, sample by sample
    fn outputs(&self, inputs: &[f32]) -> Vec<f32>;

    /// Adds outlier channels without changing the outputs: multiplies one channel of each block by
    /// a factor and divides the weights that read it.
    ///
    /// # Errors
    /// [`RunError::Model`] for a network without such blocks.
    fn plant_outliers(&mut self, factor: f32) -> Result<(), RunError>;

    /// Some inputs of the test data, concatenated.
    ///
    /// # Errors
    /// [`RunError::Data`] or [`RunError::Stream`] for data that cannot be opened.
    fn first_inputs(&self) -> Result<Vec<f32>, RunError>;

    /// Evaluates the model and its graph on the test data with the task's own score; see
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

    /// Chooses `count` training samples, at most all, for calibration; always the same for a run.
    ///
    /// # Errors
    /// [`RunError::Data`] for a choice in the run's folder that is damaged.
    fn calibration(
        &self,
        folder: &RunFolder,
        count: usize,
    ) -> Result<Box<dyn CalibrationSamples + '_>, RunError>;
}

/// Evaluates a model and its graph on batches with targets, for [`Quantizable::evaluate`].
///
/// `watch` is called before each batch with the number of samples so far and in total; returns
/// `None` if it returns `false`.
///
/// # Errors
/// [`RunError::Stream`] for data that cannot be delivered, [`RunError::Model`] for targets that do
/// not match the model.
pub fn evaluated<S: Score>(
    graph: &Graph,
    model: &QuantizedModel,
    batches: ScoredBatches<'_, S::Target>,
    score: &S,
    isa: Isa,
    watch: &mut dyn FnMut(u64, u64) -> bool,
) -> Result<Option<Evaluation>, RunError> {
    watched(batches, watch, |batches| {
        Evaluation::try_new(graph, model, batches, score, isa).map_err(RunError::model)
    })
}

/// Measures each layer alone on batches with targets, for [`CalibrationSamples::sensitivity`].
///
/// `watch` is called as by [`evaluated`].
///
/// # Errors
/// [`RunError::Stream`] for data that cannot be delivered, [`RunError::Model`] for settings or
/// targets that do not match the network.
pub fn measured<S: Score>(
    observation: &Observation,
    (by, formats): (&Quantization, &[WeightFormat]),
    batches: ScoredBatches<'_, S::Target>,
    score: &S,
    watch: &mut dyn FnMut(u64, u64) -> bool,
) -> Result<Option<Sensitivity>, RunError> {
    watched(batches, watch, |batches| {
        Sensitivity::try_new(observation, by, formats, batches, score).map_err(RunError::model)
    })
}

/// The reason why a task other than the classification of images plants no outliers.
pub(super) const NO_OUTLIERS: &str = "outlier channels are planted only in networks of \
                                      depthwise-separable convolutions, which classify images";

/// The numbers of all outputs of a network, sample by sample, as [`Quantizable::outputs`] returns
/// them; `outputs` has those of all samples for each output.
#[must_use]
pub fn by_sample(mut outputs: Vec<Vec<f32>>, samples: usize) -> Vec<f32> {
    if outputs.len() == 1 {
        return outputs.remove(0);
    }
    let mut all = Vec::with_capacity(outputs.iter().map(Vec::len).sum());
    for sample in 0..samples {
        for output in &outputs {
            let each = output.len() / samples;
            all.extend_from_slice(&output[sample * each..][..each]);
        }
    }
    all
}

/// Passes batches to a closure until `watch` returns `false`; `None` if it did.
fn watched<T, R>(
    (mut batches, samples): ScoredBatches<'_, T>,
    watch: &mut dyn FnMut(u64, u64) -> bool,
    compute: impl FnOnce(&mut dyn Iterator<Item = (Vec<f32>, Vec<T>)>) -> Result<R, RunError>,
) -> Result<Option<R>, RunError> {
    let (mut seen, mut failed, mut was_stopped) = (0, None, false);
    let mut watched = std::iter::from_fn(|| {
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
    let computed = compute(&mut watched);
    match failed {
        Some(error) => Err(error),
        None if was_stopped => Ok(None),
        None => computed.map(Some),
    }
}

/// The inputs of the first batch with samples, for [`Quantizable::first_inputs`]; none if no batch
/// has any.
pub(super) fn first_inputs<T>((batches, _): ScoredBatches<'_, T>) -> Result<Vec<f32>, RunError> {
    for batch in batches {
        let (inputs, _) = batch.map_err(|cause| RunError::Stream { split: "test", cause })?;
        if !inputs.is_empty() {
            return Ok(inputs);
        }
    }
    Ok(Vec::new())
}

/// The training samples for calibration.
pub trait CalibrationSamples {
    /// A SHA-256 that identifies the samples.
    fn fingerprint(&self) -> String;

    /// The batches of the samples, and the number of samples.
    ///
    /// # Errors
    /// [`RunError::Data`] for data that cannot be opened.
    fn batches(&self) -> Result<(InputBatches<'_>, usize), RunError>;

    /// Evaluates the model and its graph on the samples, as [`Quantizable::evaluate`] does on the
    /// test data.
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

    /// Measures each layer alone on the samples, in several formats, by the task's own score; see
    /// [`measured`].
    ///
    /// # Errors
    /// As [`evaluate`](Self::evaluate), and [`RunError::Model`] for settings that do not fit.
    fn sensitivity(
        &self,
        observation: &Observation,
        settings: (&Quantization, &[WeightFormat]),
        watch: &mut dyn FnMut(u64, u64) -> bool,
    ) -> Result<Option<Sensitivity>, RunError>;

    /// The choice as a file of the run's folder, where [`Quantizable::calibration`] finds it: its name
    /// and its content. `None` if nothing has to be stored.
    fn file(&self) -> Option<(&'static str, Vec<u8>)>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_outputs_of_a_sample_are_together() {
        let outputs = || vec![vec![1.0, 2.0, 3.0], vec![10.0, 11.0, 20.0, 21.0, 30.0, 31.0]];
        let expected = [1.0, 10.0, 11.0, 2.0, 20.0, 21.0, 3.0, 30.0, 31.0];
        assert_eq!(by_sample(outputs(), 3), expected);
        assert_eq!(by_sample(outputs()[1..].to_vec(), 3), outputs()[1]);
        assert_eq!(by_sample(vec![Vec::new(), Vec::new()], 0), [0.0_f32; 0]);
    }
}
