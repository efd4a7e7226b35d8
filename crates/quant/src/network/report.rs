//! The cost of int8: each layer compared with f32.

use updraft_simd::Isa;

use super::float::FloatRun;
use super::fuse::{Output, Steps};
use super::graph::Graph;
use super::model::{Moment, Numbers, QuantizedModel};
use super::plan::Arithmetic;
use super::samples::{Samples, SamplesExt};
use super::workspace::Workspace;

/// A layer compared with f32, with all errors of the layers before it.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct LayerComparison {
    /// The names of its layers, joined by `+`.
    pub name: String,
    /// Signal to quantization noise: `10·log₁₀(Σ f32² / Σ (f32 − int8)²)`, in decibels;
    /// infinite without noise. If only functions that are constant outside of a range read a tensor,
    /// both are first cut to that range.
    pub sqnr_db: f64,
    /// The arithmetic of the layer.
    pub arithmetic: Arithmetic,
    /// Multiplications, each with its addition, for one sample.
    pub multiply_adds: usize,
    /// Bytes of the packed weights.
    pub weight_bytes: usize,
}

/// A comparison of a model with its graph in f32, over some samples.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Comparison {
    /// Samples compared.
    pub samples: usize,
    /// The layers in the order in which they run.
    pub layers: Vec<LayerComparison>,
    /// Signal to quantization noise of each output, in decibels; infinite without noise.
    pub outputs_db: Vec<f64>,
}

impl Comparison {
    /// Runs both over batches of samples.
    ///
    /// # Panics
    /// If the model is not of this graph, or a batch is not a whole number of samples, the same for
    /// every input.
    #[must_use]
    pub fn new<B: Samples>(
        graph: &Graph,
        model: &QuantizedModel,
        batches: impl IntoIterator<Item = B>,
        isa: Isa,
    ) -> Self {
        Self::visited(graph, model, batches, isa, |_, _| {})
    }

    /// The same, and passes the outputs of each sample, in f32 and in int8, to a closure.
    pub(super) fn visited<B: Samples>(
        graph: &Graph,
        model: &QuantizedModel,
        batches: impl IntoIterator<Item = B>,
        isa: Isa,
        mut visit: impl FnMut(&[&[f32]], &[&[f32]]),
    ) -> Self {
        let steps = Steps::new(graph, model.joins_sums);
        assert!(steps.shapes().eq(&model.shapes), "the model is of another graph");
        let mut float = FloatRun::new(&steps);
        let mut workspace = Workspace::new();
        let mut real = Vec::new();
        let mut int8: Vec<Vec<f32>> =
            model.outputs().map(|port| vec![0.0; port.numbers()]).collect();
        let mut ratios = vec![Ratio::default(); model.shapes.len()];
        let ranges = steps.live_ranges();
        let mut samples = 0;
        for batch in batches {
            let count = batch.count(&steps.inputs).expect("whole samples of every input");
            for sample in 0..count {
                let x = |input: usize| batch.one(input, steps.inputs[input].numbers(), sample);
                float.run(&steps, x);
                let x: Vec<&[f32]> = (0..steps.inputs.len()).map(x).collect();
                let mut y: Vec<&mut [f32]> = int8.iter_mut().map(Vec::as_mut_slice).collect();
                model.run_visited(isa, &x, &mut y, 0..1, &mut workspace, 1, |tensor, moment| {
                    let Moment::Computed(numbers) = moment else { return };
                    let given = match numbers {
                        Numbers::Real(given) => given,
                        Numbers::Codes(codes) => {
                            real.resize(codes.len(), 0.0);
                            model.real(isa, tensor, codes, &mut real);
                            &real
                        }
                    };
                    ratios[tensor].add(&float.tensors[tensor], given, ranges[tensor]);
                });
                samples += 1;
                let of_output = |output: &Output| &float.tensors[output.tensor][..];
                let right: Vec<&[f32]> = steps.outputs.iter().map(of_output).collect();
                visit(&right, &int8.iter().map(Vec::as_slice).collect::<Vec<_>>());
            }
        }
        let of_layers = ratios[model.inputs.len()..].iter();
        let layers = model.layers.iter().zip(of_layers).map(|(layer, ratio)| LayerComparison {
            name: layer.name.clone(),
            sqnr_db: ratio.decibels(),
            arithmetic: layer.arithmetic(),
            multiply_adds: layer.multiply_adds,
            weight_bytes: layer.weight_bytes(),
        });
        let outputs = model.outputs.iter().map(|output| ratios[output.tensor].decibels());
        Self { samples, layers: layers.collect(), outputs_db: outputs.collect() }
    }
}

/// Energy of a signal, and of its noise.
#[derive(Debug, Clone, Copy, Default)]
struct Ratio {
    signal: f64,
    noise: f64,
}

impl Ratio {
    fn add(&mut self, right: &[f32], given: &[f32], [low, high]: [f32; 2]) {
        for (right, given) in right.iter().zip(given) {
            let (right, given) = (right.clamp(low, high), given.clamp(low, high));
            self.signal += f64::from(right).powi(2);
            self.noise += (f64::from(right) - f64::from(given)).powi(2);
        }
    }

    fn decibels(&self) -> f64 {
        if self.noise == 0.0 {
            // Also if the signal is zero.
            return f64::INFINITY;
        }
        10.0 * (self.signal / self.noise).log10()
    }
}
