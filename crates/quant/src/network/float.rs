//! The steps in f32, sample by sample, for calibration and comparison.

use super::fuse::{Step, Steps};
use super::graph::Graph;
use super::samples::{Samples, SamplesExt};
use crate::clip::Clip;
use crate::kernels::{Isa, dequantize, quantize};
use crate::operation::{FloatJob, FloatSpace, Operation};
use crate::scheme::ActivationScheme;

/// The work space of the steps: every tensor of one sample, channels first.
#[derive(Debug)]
pub(super) struct FloatRun {
    pub(super) tensors: Vec<Vec<f32>>,
    space: FloatSpace,
    codes: RoundSpace,
}

impl FloatRun {
    pub(super) fn new(steps: &Steps) -> Self {
        let tensors = steps.shapes().map(|shape| vec![0.0; shape.iter().product()]).collect();
        Self { tensors, space: FloatSpace::new(), codes: RoundSpace::default() }
    }

    /// Computes all tensors of one sample; `x` returns the inputs of the network.
    pub(super) fn run<'a>(&mut self, steps: &Steps, x: impl Fn(usize) -> &'a [f32]) {
        for (index, tensor) in self.tensors[..steps.inputs.len()].iter_mut().enumerate() {
            tensor.copy_from_slice(x(index));
            self.codes.round(steps.input_schemes[index], tensor);
        }
        for index in 0..steps.list.len() {
            self.run_step(steps, index);
        }
    }

    /// Computes one step from the tensors before it.
    pub(super) fn run_step(&mut self, steps: &Steps, index: usize) {
        let (before, after) = self.tensors.split_at_mut(steps.inputs.len() + index);
        let Step { work, shapes, clip, inputs, scheme, .. } = &steps.list[index];
        let x: Vec<&[f32]> = inputs.iter().map(|&input| before[input].as_slice()).collect();
        let (y, space) = (&mut after[0][..], &mut self.space);
        let job = FloatJob { parameters: &work.parameters, shapes, x: &x, y, space };
        compute(work.operation.as_ref(), *clip, job);
        self.codes.round(*scheme, &mut after[0]);
    }
}

/// The work space for rounding tensors whose scheme was set.
#[derive(Debug, Default)]
struct RoundSpace(Vec<u8>);

impl RoundSpace {
    /// Rounds numbers to the codes of a scheme.
    fn round(&mut self, scheme: Option<ActivationScheme>, numbers: &mut [f32]) {
        let Some(scheme) = scheme else { return };
        self.0.resize(numbers.len(), 0);
        quantize(Isa::detect(), scheme, numbers, &mut self.0);
        dequantize(Isa::detect(), scheme, &self.0, numbers);
    }
}

impl Graph {
    /// Computes the outputs in f32, with folded batch norms, for comparison with int8; it is not
    /// optimized. One vector for each output, `[n, channels, …]`.
    ///
    /// # Panics
    /// If the inputs are not the same whole number of samples.
    #[must_use]
    pub fn forward<S: Samples + ?Sized>(&self, samples: &S) -> Vec<Vec<f32>> {
        let steps = Steps::new(self, false);
        let mut run = FloatRun::new(&steps);
        let mut outputs = vec![Vec::new(); steps.outputs.len()];
        let count = samples.count(&steps.inputs).expect("whole samples of every input");
        for sample in 0..count {
            run.run(&steps, |input| samples.one(input, steps.inputs[input].numbers(), sample));
            for (numbers, output) in outputs.iter_mut().zip(&steps.outputs) {
                numbers.extend_from_slice(&run.tensors[output.tensor]);
            }
        }
        outputs
    }
}

/// Computes one operation of one sample, and clips its result.
pub(super) fn compute(operation: &dyn Operation, clip: Clip, job: FloatJob<'_>) {
    let FloatJob { parameters, shapes, x, y, space } = job;
    operation.run_f32(FloatJob { parameters, shapes, x, y: &mut *y, space });
    clip.apply(y);
}
