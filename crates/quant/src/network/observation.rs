//! A graph in f32 with the observed range of every tensor, from which models are made.

use super::calibration::{choose_schemes, observe};
use super::error::QuantizeError;
use super::fuse::{Step, Steps};
use super::graph::Graph;
use super::layer::{Chosen, Form, QuantizedLayer};
use super::model::QuantizedModel;
use super::quantization::Quantization;
use super::rounding::{self, RoundedLayer};
use super::samples::Samples;
use crate::observe::Observer;
use crate::operation::PackError;
use crate::scheme::ActivationScheme;
use crate::weights::{Grid, QuantizedWeights, WeightError, WeightFormat};

/// A graph with the observed range of every tensor, and some of the samples: models with different
/// bits are made from it without another pass over the calibration set.
///
/// # Example
/// ```
/// use updraft_quant::{Calibration, Graph, Observation, Quantization, WeightFormat};
///
/// let mut graph = Graph::new();
/// let x = graph.input("x", &[3])?;
/// graph.linear("answer", x, &[1.0, 0.5, -1.0, 0.25, 0.0, 1.0], &[0.0, 0.5])?;
/// let set = [0.5, -1.0, 0.25, 1.0, 0.75, -0.5];
/// let by = Quantization::new(Calibration::MinMax);
/// let observation = Observation::try_new(&graph, [&set], &by)?;
/// let int8 = observation.try_quantize(&by)?;
/// let int4 = observation.try_quantize(&by.weights(WeightFormat::try_new(4)?))?;
/// assert!(int4.file_bytes() < int8.file_bytes());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct Observation {
    pub(super) steps: Steps,
    pub(super) observers: Vec<Observer>,
    /// Some of the samples, input by input; empty if the settings need none.
    pub(super) samples: Vec<Vec<f32>>,
    by: Quantization,
}

impl Observation {
    /// Runs the graph in f32 over batches of samples and observes every tensor.
    ///
    /// Memory does not depend on the number of samples.
    ///
    /// # Errors
    /// [`QuantizeError`] for a graph without layers, and data that is missing, incomplete or not
    /// finite.
    pub fn try_new<B: Samples>(
        graph: &Graph,
        batches: impl IntoIterator<Item = B>,
        by: &Quantization,
    ) -> Result<Self, QuantizeError> {
        let steps = Steps::new(graph, by.joins_sums());
        if steps.list.is_empty() {
            return Err(QuantizeError::NoLayer);
        }
        by.kept(&steps)?;
        let (observers, samples) = observe(&steps, batches, by)?;
        Ok(Self { steps, observers, samples, by: by.clone() })
    }

    /// Packs the layers of a model. The calibration method, separate sums and the hash of the
    /// calibration set are those of the observation, everything else that of `by`.
    ///
    /// # Errors
    /// [`QuantizeError`] for a layer that does not exist or has no weights, data that was only zeros,
    /// and settings that need samples if those of the observation did not.
    ///
    /// A graph that rounds its own tensors, as one that was trained so, gets the plan
    /// [`only_int8`](QuantizedModel::only_int8).
    pub fn try_quantize(&self, by: &Quantization) -> Result<QuantizedModel, QuantizeError> {
        let Self { steps, observers, .. } = self;
        let kept = by.kept(steps)?;
        let (schemes, is_zero) = choose_schemes(steps, &kept, observers)?;
        let has_schemes = steps.have_schemes();
        if has_schemes && !by.rounds_activations() {
            return Err(QuantizeError::HasSchemes);
        }
        let (first, mut rounded) = (steps.inputs.len(), Vec::new());
        let mut weights: Vec<_> = if by.needs_samples() {
            if self.samples.is_empty() {
                return Err(QuantizeError::SamplesNotKept);
            }
            let fitted = rounding::fit(self, by, &kept, &schemes);
            rounded = fitted.layers;
            fitted.weights
        } else {
            let nearest = |(step, kept): (&Step, &Option<_>)| match kept {
                Some(_) => Ok(None),
                None => nearest(step, by.format(step, has_schemes), schemes[step.inputs[0]]),
            };
            steps.list.iter().zip(&kept).map(nearest).collect()
        };
        let packed = |(index, step): (usize, &Step)| {
            let x: Vec<_> = step.inputs.iter().map(|&input| schemes[input]).collect();
            let of_step = std::mem::replace(&mut weights[index], Ok(None));
            let form = Form::try_new(step, kept[index], of_step, &x, schemes[first + index]);
            let form = form.map_err(|error| {
                let layer = step.name.clone();
                match error {
                    PackError::Weights(cause) => QuantizeError::Weights { layer, cause },
                    PackError::Factor(cause) => {
                        QuantizeError::Observed { layer, cause: cause.into() }
                    }
                }
            })?;
            let form = match by.rounds_activations() {
                true => form,
                false => form.with_float_activations(),
            };
            Ok(QuantizedLayer {
                name: step.name.clone(),
                operation: step.work.operation.clone(),
                form,
                inputs: step.inputs.clone(),
                shapes: step.shapes.clone(),
                multiply_adds: step.multiply_adds(),
                clip: step.clip,
                is_zero: is_zero[index],
            })
        };
        let layers = steps.list.iter().enumerate().map(packed).collect::<Result<Vec<_>, _>>()?;
        let samples = observers[0].count() / steps.inputs[0].numbers() as u64;
        let (joins_sums, calibrated) = (self.by.joins_sums(), self.by.calibrated(samples));
        let Steps { inputs, outputs, .. } = steps.clone();
        let mut model =
            QuantizedModel::new(inputs, outputs, layers, schemes, joins_sums, calibrated);
        model.rounded = rounded;
        // A network that was trained on codes is to return what its codes are.
        Ok(if has_schemes { model.only_int8() } else { model })
    }

    /// The names of the layers with weights, each with the number of its weights.
    pub fn weighted_layers(&self) -> impl Iterator<Item = (&str, usize)> {
        let weighted = self.steps.list.iter().filter(|step| step.has_weights());
        weighted.map(|step| (step.name.as_str(), step.work.parameters.weights.len()))
    }

    /// Bytes of all parameters in f32.
    #[must_use]
    pub fn bytes_f32(&self) -> usize {
        self.steps.list.iter().map(|step| step.work.parameters.bytes()).sum()
    }
}

/// The weights of a step, rounded to the nearest codes of a format; none if it has no weights.
pub(super) fn nearest(
    step: &Step,
    format: WeightFormat,
    input: ActivationScheme,
) -> Result<Option<Chosen>, WeightError> {
    if !step.has_weights() {
        return Ok(None);
    }
    let parameters = &step.work.parameters;
    let (weights, bias) = (&parameters.weights, &parameters.bias);
    let grid = Grid::fit(weights, bias, format, input)?;
    Chosen::try_new(&grid, &grid.nearest(weights), bias, input).map(Some)
}

impl Chosen {
    /// The levels of a grid and biases in real units.
    pub(super) fn try_new(
        grid: &Grid,
        levels: &[i32],
        bias: &[f32],
        input: ActivationScheme,
    ) -> Result<Self, WeightError> {
        let weights = QuantizedWeights::on_grid(grid, levels, bias, input)?;
        let coding = (grid.format.bits() < 8).then(|| grid.into());
        Ok(Self { weights, coding })
    }
}

impl QuantizedModel {
    /// The layers whose weights were rounded by another method than to the nearest code, with the
    /// noise of both; none for a model that was read from a file.
    #[must_use]
    pub fn rounded_layers(&self) -> &[RoundedLayer] {
        &self.rounded
    }

    /// Bytes of all parameters in a file: codes, scales and biases of integer weights, and f32.
    #[must_use]
    pub fn file_bytes(&self) -> usize {
        self.layers.iter().map(QuantizedLayer::file_bytes).sum()
    }
}
