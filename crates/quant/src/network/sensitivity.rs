//! The effect of each layer's bits, measured one layer at a time.

use serde::Serialize;
use updraft_simd::Isa;

use super::calibration::choose_schemes;
use super::error::QuantizeError;
use super::evaluation::EvaluateError;
use super::float::{FloatRun, compute};
use super::fuse::Step;
use super::observation::Observation;
use super::quantization::Quantization;
use super::samples::{Samples, SamplesExt};
use super::score::Score;
use crate::kernels::{dequantize, quantize};
use crate::operation::{FloatJob, FloatSpace, Parameters};
use crate::scheme::ActivationScheme;
use crate::weights::{Grid, WeightFormat};

/// The effect of quantizing each layer alone, in several formats.
///
/// A layer's weights are rounded, and its inputs and its result as in int8 if they are to have
/// codes; all other layers compute in f32. The outputs of the network are compared with those of
/// f32 by their noise, and by a task's score and loss.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Sensitivity {
    /// Samples of the measurement.
    pub samples: usize,
    /// The name of the score.
    pub score: &'static str,
    /// The mean score in f32.
    pub score_f32: f64,
    /// The mean loss in f32, if the score defines a loss.
    pub loss_f32: Option<f64>,
    /// The layers with weights, in the order in which they run.
    pub layers: Vec<LayerSensitivity>,
    /// Bytes of all parameters in f32.
    pub bytes_f32: usize,
}

/// A layer of a [`Sensitivity`].
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct LayerSensitivity {
    /// The names of its layers, joined by `+`.
    pub name: String,
    /// The number of its weights.
    pub weights: usize,
    /// Bytes of its parameters in f32.
    pub bytes_f32: usize,
    /// One for each format that was measured, in their order.
    pub choices: Vec<ChoiceSensitivity>,
}

/// The effect of one format for one layer.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[non_exhaustive]
pub struct ChoiceSensitivity {
    /// The format.
    pub format: WeightFormat,
    /// Bytes of the layer's parameters in a file.
    pub bytes: usize,
    /// The mean score with this layer quantized alone.
    pub score: f64,
    /// The mean loss, if the score defines one.
    pub loss: Option<f64>,
    /// Noise of the network's outputs as a fraction of their energy.
    pub noise: f64,
    /// The same as signal to noise, in decibels; none without noise.
    pub sqnr_db: Option<f64>,
}

/// Errors of measuring layers.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum SensitivityError {
    /// The settings do not fit the network.
    #[error(transparent)]
    Quantize(#[from] QuantizeError),
    /// The samples or their targets do not fit.
    #[error(transparent)]
    Evaluate(#[from] EvaluateError),
}

impl Sensitivity {
    /// Measures over batches of samples with a target for each; layers that `by` keeps in f32 by
    /// their names are left out.
    ///
    /// # Errors
    /// [`SensitivityError`] for settings that do not fit the network, no samples, or targets that do
    /// not fit.
    ///
    /// # Panics
    /// If `formats` is empty.
    pub fn try_new<B: Samples, S: Score>(
        observation: &Observation,
        by: &Quantization,
        formats: &[WeightFormat],
        batches: impl IntoIterator<Item = (B, Vec<S::Target>)>,
        score: &S,
    ) -> Result<Self, SensitivityError> {
        assert!(!formats.is_empty(), "a format at least");
        let steps = &observation.steps;
        let kept = by.kept(steps)?;
        let free = vec![None; kept.len()];
        let (schemes, _) = choose_schemes(steps, &free, &observation.observers)?;
        let mut candidates = Vec::new();
        for (index, step) in steps.list.iter().enumerate() {
            if !step.has_weights() || by.is_kept(step) {
                continue;
            }
            let input = schemes[step.inputs[0]];
            let Parameters { weights, bias } = step.work.parameters.as_ref();
            for &format in formats {
                let grid = Grid::fit(weights, bias, format, input)
                    .map_err(|cause| QuantizeError::Weights { layer: step.name.clone(), cause })?;
                let weights = grid.real(&grid.nearest(weights));
                let parameters = Parameters { weights, bias: bias.clone() };
                let (sums, bytes) = (Sums::default(), format.bytes(bias.len(), grid.each));
                candidates.push(Candidate { index, format, parameters, bytes, sums });
            }
        }
        let mut run = Run::new(observation, schemes, by.rounds_activations());
        let outputs: Vec<_> = steps.outputs.iter().map(|output| output.port.clone()).collect();
        let mut of_f32 = Sums::default();
        for (batch, (samples, targets)) in batches.into_iter().enumerate() {
            if samples.count(&steps.inputs) != Some(targets.len()) {
                let got = (0..samples.inputs()).map(|input| samples.input(input).len()).collect();
                let sample = steps.inputs.iter().map(super::graph::Port::numbers).collect();
                let targets = targets.len();
                return Err(EvaluateError::Targets { batch, targets, got, sample }.into());
            }
            if let Some(cause) =
                targets.iter().find_map(|target| score.check(target, &outputs).err())
            {
                return Err(EvaluateError::Target { batch, cause }.into());
            }
            for (sample, target) in targets.iter().enumerate() {
                run.float
                    .run(steps, |input| samples.one(input, steps.inputs[input].numbers(), sample));
                let right = run.outputs(&run.float);
                of_f32.add(&right, &right, score, target);
                for candidate in &mut candidates {
                    run.run_one(candidate);
                    let right = run.outputs(&run.float);
                    candidate.sums.add(&right, &run.outputs(&run.other), score, target);
                }
            }
        }
        if of_f32.samples == 0 {
            return Err(EvaluateError::NoSample.into());
        }
        let mean = |sum: f64| sum / of_f32.samples as f64;
        let layers = candidates.chunk_by(|a, b| a.index == b.index).map(|candidates| {
            let Step { name, work, .. } = &steps.list[candidates[0].index];
            let choices = candidates.iter().map(|candidate| {
                let Candidate { format, bytes, sums, .. } = candidate;
                let noise = sums.noise();
                let decibels = -10.0 * noise.log10();
                ChoiceSensitivity {
                    format: *format,
                    bytes: *bytes,
                    score: mean(sums.score),
                    loss: sums.loss.map(mean),
                    noise,
                    sqnr_db: decibels.is_finite().then_some(decibels),
                }
            });
            LayerSensitivity {
                name: name.clone(),
                weights: work.parameters.weights.len(),
                bytes_f32: work.parameters.bytes(),
                choices: choices.collect(),
            }
        });
        Ok(Self {
            samples: of_f32.samples,
            score: score.name(),
            score_f32: mean(of_f32.score),
            loss_f32: of_f32.loss.map(mean),
            layers: layers.collect(),
            bytes_f32: observation.bytes_f32(),
        })
    }

    /// The layers and formats by their noise, the most first, for each layer in the format that is
    /// `choice` of those that were measured.
    ///
    /// # Panics
    /// If fewer were measured.
    #[must_use]
    pub fn ranking(&self, choice: usize) -> Vec<&LayerSensitivity> {
        let mut layers: Vec<&LayerSensitivity> = self.layers.iter().collect();
        layers.sort_by(|a, b| b.choices[choice].noise.total_cmp(&a.choices[choice].noise));
        layers
    }
}

/// A layer in a format.
struct Candidate {
    index: usize,
    format: WeightFormat,
    /// Its weights as rounded.
    parameters: Parameters,
    bytes: usize,
    sums: Sums,
}

/// Sums over samples.
#[derive(Default)]
struct Sums {
    samples: usize,
    score: f64,
    loss: Option<f64>,
    /// Of each output.
    signal: Vec<f64>,
    difference: Vec<f64>,
}

impl Sums {
    fn add<S: Score>(&mut self, right: &[&[f32]], given: &[&[f32]], by: &S, target: &S::Target) {
        self.samples += 1;
        self.score += by.score(given, target);
        if let Some(loss) = by.loss(given, target) {
            self.loss = Some(self.loss.unwrap_or_default() + loss);
        }
        self.signal.resize(right.len(), 0.0);
        self.difference.resize(right.len(), 0.0);
        for (output, (right, given)) in right.iter().zip(given).enumerate() {
            for (&right, &given) in right.iter().zip(*given) {
                self.signal[output] += f64::from(right).powi(2);
                self.difference[output] += (f64::from(right) - f64::from(given)).powi(2);
            }
        }
    }

    /// The noise of the outputs as a fraction of their energy, summed over outputs.
    fn noise(&self) -> f64 {
        let outputs = self.difference.iter().zip(&self.signal);
        outputs
            .map(|(&difference, &signal)| if difference == 0.0 { 0.0 } else { difference / signal })
            .sum()
    }
}

/// The network in f32, and the same from one quantized layer on.
struct Run<'a> {
    observation: &'a Observation,
    schemes: Vec<ActivationScheme>,
    /// Whether inputs and results of a layer are rounded to codes.
    rounds_activations: bool,
    float: FloatRun,
    other: FloatRun,
    space: FloatSpace,
    codes: Vec<u8>,
    inputs: Vec<Vec<f32>>,
}

impl<'a> Run<'a> {
    fn new(
        observation: &'a Observation,
        schemes: Vec<ActivationScheme>,
        rounds_activations: bool,
    ) -> Self {
        let (float, other) = (FloatRun::new(&observation.steps), FloatRun::new(&observation.steps));
        let (space, codes, inputs) = (FloatSpace::new(), Vec::new(), Vec::new());
        Self { observation, schemes, rounds_activations, float, other, space, codes, inputs }
    }

    fn outputs<'b>(&self, run: &'b FloatRun) -> Vec<&'b [f32]> {
        let outputs = self.observation.steps.outputs.iter();
        outputs.map(|output| &run.tensors[output.tensor][..]).collect()
    }

    /// Computes a layer with rounded weights, and with rounded inputs and a rounded result if these
    /// have codes, and all layers that depend on it in f32.
    fn run_one(&mut self, candidate: &Candidate) {
        let steps = &self.observation.steps;
        let first = steps.inputs.len();
        let step = &steps.list[candidate.index];
        let isa = Isa::detect().dot();
        let rounds_activations = self.rounds_activations;
        let mut round = |x: &mut [f32], scheme: ActivationScheme| {
            if !rounds_activations {
                return;
            }
            self.codes.resize(x.len().max(self.codes.len()), 0);
            let codes = &mut self.codes[..x.len()];
            quantize(isa, scheme, x, codes);
            dequantize(isa, scheme, codes, x);
        };
        self.inputs.resize_with(step.inputs.len().max(self.inputs.len()), Vec::new);
        for (copy, &input) in self.inputs.iter_mut().zip(&step.inputs) {
            copy.clone_from(&self.float.tensors[input]);
            round(copy, self.schemes[input]);
        }
        let tensor = first + candidate.index;
        let x: Vec<&[f32]> = self.inputs[..step.inputs.len()].iter().map(Vec::as_slice).collect();
        let y = &mut self.other.tensors[tensor];
        let (parameters, shapes, space) = (&candidate.parameters, &step.shapes, &mut self.space);
        let job = FloatJob { parameters, shapes, x: &x, y, space };
        compute(step.work.operation.as_ref(), step.clip, job);
        // Sums of a linear layer that is an output are converted to f32 directly.
        let is_read = steps.list.iter().any(|step| step.inputs.contains(&tensor));
        if is_read || !step.clip.is_identity() || !step.work.operation.is_product() {
            round(y, self.schemes[tensor]);
        }
        // Layers that do not depend on it have the results of f32.
        let mut is_changed = vec![false; self.float.tensors.len()];
        is_changed[tensor] = true;
        for (index, step) in steps.list.iter().enumerate().skip(candidate.index + 1) {
            is_changed[first + index] = step.inputs.iter().any(|&input| is_changed[input]);
        }
        for (at, is_changed) in is_changed.iter().enumerate() {
            if !is_changed {
                self.other.tensors[at].clone_from(&self.float.tensors[at]);
            }
        }
        for index in candidate.index + 1..steps.list.len() {
            if is_changed[first + index] {
                self.other.run_step(steps, index);
            }
        }
    }
}
