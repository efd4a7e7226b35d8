//! Rounding of weights by the results of a layer on calibration samples, and correction of biases.

mod adaround;
mod gptq;
mod moments;
mod refine;

use serde::{Deserialize, Serialize};
use updraft_conv::slices::ConvGeometry;
use updraft_simd::Isa;

use self::moments::Moments;
use self::refine::{Choice, refine};
use super::fuse::{Step, Steps};
use super::layer::Chosen;
use super::observation::Observation;
use super::plan::Reason;
use super::quantization::Quantization;
use crate::kernels::{dequantize, quantize};
use crate::operation::{FloatJob, FloatSpace, Parameters};
use crate::scheme::ActivationScheme;
use crate::weights::{Grid, WeightError, WeightFormat};

/// The most bytes of the tensors of all samples that are needed at a time.
const MOST_BYTES: usize = 256 << 20;

/// One in so many samples measures the noise and does not decide the rounding.
const HELD_OUT: usize = 4;

/// How weights are rounded to codes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Rounding {
    /// To the nearest code.
    #[default]
    Nearest,
    /// Weight by weight: the error of each is compensated by those that follow, by the second
    /// moments of the layer's inputs; then, weight by weight, to the code of the least error while
    /// the others stay, until none changes. For layers whose outputs read at most 2048 numbers;
    /// others are rounded to the nearest code.
    ///
    /// # Source
    /// Frantar et al. 2023, arXiv:2210.17323; the second part Behdin et al. 2023, arXiv:2309.01885.
    Gptq,
    /// Up or down, by gradient descent on the error of the layer's results; then as the second part
    /// of [`Gptq`](Self::Gptq) between these two codes.
    ///
    /// # Source
    /// Nagel et al. 2020, arXiv:2004.10568.
    AdaRound,
}

/// A layer whose weights were rounded by its results.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct RoundedLayer {
    /// The names of its layers, joined by `+`.
    pub name: String,
    /// The format of its weights.
    pub format: WeightFormat,
    /// The method that was used: the one that was asked for, or to the nearest code where that one
    /// does not apply or was worse.
    pub rounding: Rounding,
    /// Signal to noise of its result with weights rounded to the nearest codes, in decibels, on
    /// samples that did not decide the rounding; none without noise.
    pub nearest_db: Option<f64>,
    /// The same with the weights of the model.
    pub rounded_db: Option<f64>,
}

/// The weights of all steps, and the noise of those that were rounded by their results.
#[derive(Debug)]
pub(super) struct Fitted {
    pub(super) weights: Vec<Result<Option<Chosen>, WeightError>>,
    pub(super) layers: Vec<RoundedLayer>,
}

/// A layer's weights in f32 with what its rounding depends on.
struct Problem<'a> {
    geometry: ConvGeometry,
    grid: &'a Grid,
    weights: &'a [f32],
    /// Inputs as the quantized layers before it give them, sample by sample.
    x: &'a [f32],
    samples: usize,
}

/// Rounds the weights of every step in order, each for the outputs of the quantized steps before it.
pub(super) fn fit(
    observation: &Observation,
    by: &Quantization,
    kept: &[Option<Reason>],
    schemes: &[ActivationScheme],
) -> Fitted {
    let steps = &observation.steps;
    let codes_of = by.rounds_activations().then_some(schemes);
    let mut tensors = Tensors::new(steps, &observation.samples, codes_of);
    let mut fitted = Fitted { weights: Vec::new(), layers: Vec::new() };
    for (index, step) in steps.list.iter().enumerate() {
        let parameters = &step.work.parameters;
        let right = tensors.compute(step, parameters, Kind::Float);
        let is_int8 = kept[index].is_none();
        let mut chosen_parameters = None;
        let of_step = if step.has_weights() && is_int8 {
            let input = schemes[step.inputs[0]];
            let (weights, bias) = (&parameters.weights, &parameters.bias);
            Grid::fit(weights, bias, by.format(step, steps.have_schemes()), input).and_then(
                |grid| {
                    let (levels, layer) = tensors.round(step, &grid, by.chosen_rounding());
                    fitted.layers.extend(layer);
                    let real = grid.real(&levels);
                    let mut rounded = Parameters { weights: real, bias: bias.clone() };
                    if by.corrects_bias() {
                        let given = tensors.compute(step, &rounded, Kind::Given);
                        correct(&mut rounded.bias, &right, &given, tensors.samples);
                    }
                    let chosen = Chosen::try_new(&grid, &levels, &rounded.bias, input);
                    chosen_parameters = Some(rounded);
                    chosen.map(Some)
                },
            )
        } else {
            Ok(None)
        };
        let used = chosen_parameters.as_ref().unwrap_or(parameters);
        let given = tensors.compute(step, used, Kind::Given);
        let codes_of = codes_of.filter(|_| is_int8);
        let scheme = codes_of.map(|schemes| schemes[steps.inputs.len() + index]);
        tensors.add(step, right, given, scheme);
        fitted.weights.push(of_step);
    }
    fitted
}

/// Adds the mean difference of each channel to its bias.
fn correct(bias: &mut [f32], right: &[f32], given: &[f32], samples: usize) {
    let pixels = right.len() / samples / bias.len();
    let mut sums = vec![0.0_f64; bias.len()];
    let channels = right.chunks_exact(pixels).zip(given.chunks_exact(pixels));
    for (index, (right, given)) in channels.enumerate() {
        let differences = right.iter().zip(given).map(|(a, b)| f64::from(*a) - f64::from(*b));
        sums[index % bias.len()] += differences.sum::<f64>();
    }
    for (bias, sum) in bias.iter_mut().zip(sums) {
        *bias += (sum / (samples * pixels) as f64) as f32;
    }
}

/// Which tensors a step reads.
#[derive(Clone, Copy)]
enum Kind {
    /// Those in f32.
    Float,
    /// Those of the quantized steps, in real units.
    Given,
}

/// The tensors of all samples that later steps read, in f32 and quantized.
struct Tensors {
    samples: usize,
    /// Inputs of the network.
    inputs: usize,
    /// `[samples][numbers]`; empty before and after they are needed.
    float: Vec<Vec<f32>>,
    given: Vec<Vec<f32>>,
    /// The step after which a tensor is not read any more.
    last_reader: Vec<usize>,
    space: FloatSpace,
    done: usize,
}

impl Tensors {
    /// Inputs are rounded to the codes of their schemes, if tensors have codes.
    fn new(steps: &Steps, inputs: &[Vec<f32>], schemes: Option<&[ActivationScheme]>) -> Self {
        let lens: Vec<usize> = steps.shapes().map(|shape| shape.iter().product()).collect();
        let last_reader = (0..lens.len()).map(|tensor| {
            let reader = steps.list.iter().rposition(|step| step.inputs.contains(&tensor));
            reader.unwrap_or(tensor.saturating_sub(steps.inputs.len()))
        });
        let last_reader: Vec<usize> = last_reader.collect();
        let first = steps.inputs.len();
        let live = |step: usize| -> usize {
            let is_live = |&tensor: &usize| tensor <= first + step && last_reader[tensor] >= step;
            (0..lens.len()).filter(is_live).map(|tensor| lens[tensor]).sum()
        };
        let most = (0..steps.list.len()).map(live).max().unwrap_or(1).max(1);
        let there = inputs[0].len() / lens[0];
        // Two copies, and two that a step computes.
        let samples = there.min(MOST_BYTES / (4 * size_of::<f32>() * most)).max(1);
        let taken = |(input, len): (&Vec<f32>, &usize)| input[..samples * len].to_vec();
        let float: Vec<Vec<f32>> = inputs.iter().zip(&lens).map(taken).collect();
        let given = match schemes {
            Some(schemes) => {
                float.iter().zip(schemes).map(|(x, &scheme)| rounded(x, scheme)).collect()
            }
            None => float.clone(),
        };
        let space = FloatSpace::new();
        let mut tensors =
            Self { samples, inputs: first, float, given, last_reader, space, done: 0 };
        tensors.float.resize_with(lens.len(), Vec::new);
        tensors.given.resize_with(lens.len(), Vec::new);
        tensors
    }

    /// The results of a step for all samples, before they are clipped.
    fn compute(&mut self, step: &Step, parameters: &Parameters, kind: Kind) -> Vec<f32> {
        let from = match kind {
            Kind::Float => &self.float,
            Kind::Given => &self.given,
        };
        let (shapes, space) = (&step.shapes, &mut self.space);
        let len = shapes.y.iter().product::<usize>();
        let mut results = vec![0.0; self.samples * len];
        for (sample, y) in results.chunks_exact_mut(len).enumerate() {
            let of_sample = |&input: &usize| {
                let each = from[input].len() / self.samples;
                &from[input][sample * each..][..each]
            };
            let x: Vec<&[f32]> = step.inputs.iter().map(of_sample).collect();
            step.work.operation.run_f32(FloatJob { parameters, shapes, x: &x, y, space });
        }
        results
    }

    /// Levels of a step's weights, and what the method changed.
    fn round(
        &mut self,
        step: &Step,
        grid: &Grid,
        rounding: Rounding,
    ) -> (Vec<i32>, Option<RoundedLayer>) {
        let weights = &step.work.parameters.weights;
        let near = grid.nearest(weights);
        let geometry = step.work.operation.geometry(&step.shapes);
        let Some(geometry) = geometry.filter(|_| rounding != Rounding::Nearest) else {
            return (near, None);
        };
        // The last samples measure; with too few, all do both.
        let held_out = self.samples / HELD_OUT;
        let samples = self.samples - held_out;
        let x = &self.given[step.inputs[0]];
        let len = x.len() / self.samples;
        let problem = Problem { geometry, grid, weights, x: &x[..samples * len], samples };
        let found = match rounding {
            Rounding::Nearest => None,
            Rounding::Gptq => {
                let moments = Moments::of(&problem);
                moments.map(|moments| {
                    refine(&problem, &moments, gptq::round(&problem, &moments), Choice::Any)
                })
            }
            Rounding::AdaRound => {
                let levels = adaround::round(&problem);
                Some(match Moments::of(&problem) {
                    Some(moments) => refine(&problem, &moments, levels, Choice::Around),
                    None => levels,
                })
            }
        };
        let right = self.compute(step, &step.work.parameters, Kind::Given);
        let cut = samples * (right.len() / self.samples);
        // On the samples that decide, and on the others.
        let mut decibels = |levels: &[i32]| {
            let bias = step.work.parameters.bias.clone();
            let rounded = Parameters { weights: grid.real(levels), bias };
            let given = self.compute(step, &rounded, Kind::Given);
            let first = if held_out == 0 { 0 } else { cut };
            (decibels(&right[..cut], &given[..cut]), decibels(&right[first..], &given[first..]))
        };
        let (nearest_seen, nearest_db) = decibels(&near);
        let found = found.map(|levels| (decibels(&levels), levels));
        let (rounded_db, rounding, levels) = match found {
            Some(((seen, db), levels)) if seen > nearest_seen => (db, rounding, levels),
            _ => (nearest_db, Rounding::Nearest, near),
        };
        let finite = |decibels: f64| decibels.is_finite().then_some(decibels);
        let layer = RoundedLayer {
            name: step.name.clone(),
            format: grid.format,
            rounding,
            nearest_db: finite(nearest_db),
            rounded_db: finite(rounded_db),
        };
        (levels, Some(layer))
    }

    /// Stores the results of the next step, and drops tensors that no later step reads.
    fn add(
        &mut self,
        step: &Step,
        mut right: Vec<f32>,
        mut given: Vec<f32>,
        scheme: Option<ActivationScheme>,
    ) {
        step.clip.apply(&mut right);
        step.clip.apply(&mut given);
        let given = match scheme {
            Some(scheme) => rounded(&given, scheme),
            None => given,
        };
        let tensor = self.inputs + self.done;
        (self.float[tensor], self.given[tensor]) = (right, given);
        for read in 0..=tensor {
            if self.last_reader[read] <= self.done {
                (self.float[read], self.given[read]) = (Vec::new(), Vec::new());
            }
        }
        self.done += 1;
    }
}

/// Numbers rounded to the codes of a scheme.
fn rounded(x: &[f32], scheme: ActivationScheme) -> Vec<f32> {
    let isa = Isa::detect().dot();
    let (mut codes, mut real) = (vec![0; x.len()], vec![0.0; x.len()]);
    quantize(isa, scheme, x, &mut codes);
    dequantize(isa, scheme, &codes, &mut real);
    real
}

/// Signal to noise, infinite without noise.
fn decibels(right: &[f32], given: &[f32]) -> f64 {
    let (mut signal, mut noise) = (0.0, 0.0);
    for (&right, &given) in right.iter().zip(given) {
        signal += f64::from(right).powi(2);
        noise += (f64::from(right) - f64::from(given)).powi(2);
    }
    if noise == 0.0 { f64::INFINITY } else { 10.0 * (signal / noise).log10() }
}
