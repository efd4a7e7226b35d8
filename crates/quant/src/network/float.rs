//! The steps in f32, image by image: what eight bits are calibrated on and compared with.

use updraft_conv::slices::{self, ConvGeometry, ConvShape, Scratch};
use updraft_simd::Isa;

use super::fuse::{Step, Work, steps};
use super::graph::Graph;
use super::model::QuantizedModel;
use crate::kernels::{Pooling, means};
use crate::scheme::ActivationScheme;

/// What the steps work in: every tensor of one image, `[channels, height, width]`.
#[derive(Debug)]
pub(super) struct FloatRun {
    pub(super) tensors: Vec<Vec<f32>>,
    scratch: Scratch,
    isa: Isa,
}

impl FloatRun {
    pub(super) fn new(input: [usize; 3], steps: &[Step]) -> Self {
        let shapes = std::iter::once(input).chain(steps.iter().map(|step| step.shape));
        let tensors = shapes.map(|shape| vec![0.0; shape.iter().product()]).collect();
        Self { tensors, scratch: Scratch::new(), isa: Isa::detect() }
    }

    /// Computes all tensors of one image.
    pub(super) fn run(&mut self, steps: &[Step], image: &[f32]) {
        self.tensors[0].copy_from_slice(image);
        for (index, step) in steps.iter().enumerate() {
            let (before, after) = self.tensors.split_at_mut(index + 1);
            let inputs: Vec<&[f32]> =
                step.inputs.iter().map(|&input| before[input].as_slice()).collect();
            run_step(self.isa, step, &inputs, &mut after[0], &mut self.scratch);
        }
    }
}

impl Graph {
    /// Computes the answers `[n, channels, height, width]` of images `[n, channels, height, width]`
    /// in f32, with batch norms folded: what eight bits are compared with, and nothing fast.
    ///
    /// # Panics
    /// If there is no whole number of images.
    #[must_use]
    pub fn forward(&self, images: &[f32]) -> Vec<f32> {
        let steps = steps(self, false);
        let input = self.shape(self.input());
        let each = input.iter().product();
        assert!(images.len().is_multiple_of(each), "whole images");
        let mut run = FloatRun::new(input, &steps);
        let mut answers = Vec::new();
        for image in images.chunks_exact(each) {
            run.run(&steps, image);
            answers.extend_from_slice(&run.tensors[steps.len()]);
        }
        answers
    }
}

/// What layers in f32 work in beside the codes: some tensors `[n, channels, height, width]`.
#[derive(Debug, Clone, Default)]
pub(super) struct FloatSpace {
    tensors: Vec<Vec<f32>>,
    sums: Vec<i32>,
    scratch: Scratch,
}

impl FloatSpace {
    pub(super) const fn new() -> Self {
        Self { tensors: Vec::new(), sums: Vec::new(), scratch: Scratch::new() }
    }

    pub(super) fn bytes(&self) -> usize {
        let tensors: usize =
            self.tensors.iter().map(|tensor| size_of::<f32>() * tensor.capacity()).sum();
        tensors + size_of::<i32>() * self.sums.capacity() + self.scratch.bytes()
    }

    /// Computes a tensor that is the mean of images whose codes are there.
    pub(super) fn mean(
        &mut self,
        isa: Isa,
        model: &QuantizedModel,
        tensor: usize,
        (scheme, codes): (ActivationScheme, &[u8]),
    ) {
        let [channels, ..] = model.shapes[tensor];
        self.tensors.resize_with(model.shapes.len().max(self.tensors.len()), Vec::new);
        self.sums.resize(channels, 0);
        let input = model.layers[tensor - 1].inputs[0];
        let each: usize = model.shapes[input].iter().product();
        let y = &mut self.tensors[tensor];
        y.resize(codes.len() / each * channels, 0.0);
        for (codes, y) in codes.chunks_exact(each).zip(y.chunks_exact_mut(channels)) {
            means(isa, scheme, codes, &mut self.sums, y);
        }
        if model.layers[tensor - 1].is_rectified {
            y.iter_mut().for_each(|y| *y = y.max(0.0));
        }
    }

    /// What the layer that gives a tensor computed last.
    pub(super) fn tensor(&self, tensor: usize) -> &[f32] {
        &self.tensors[tensor]
    }

    /// Computes a tensor; `real` turns the codes of one that it reads into numbers.
    pub(super) fn run(
        &mut self,
        model: &QuantizedModel,
        step: &Step,
        tensor: usize,
        images: usize,
        real: impl Fn(usize, &mut [f32]),
    ) {
        let each = |tensor: usize| model.shapes[tensor].iter().product::<usize>();
        self.tensors.resize_with(model.shapes.len().max(self.tensors.len()), Vec::new);
        for &input in &step.inputs {
            let is_here = input > 0 && model.layers[input - 1].is_float();
            if !is_here {
                self.tensors[input].resize(images * each(input), 0.0);
                real(input, &mut self.tensors[input]);
            }
        }
        let mut y = std::mem::take(&mut self.tensors[tensor]);
        y.resize(images * each(tensor), 0.0);
        for (image, y) in y.chunks_exact_mut(each(tensor)).enumerate() {
            let of_image = |&input: &usize| {
                let len = each(input);
                &self.tensors[input][image * len..][..len]
            };
            let inputs: Vec<&[f32]> = step.inputs.iter().map(of_image).collect();
            run_step(Isa::detect(), step, &inputs, y, &mut self.scratch);
        }
        self.tensors[tensor] = y;
    }
}

/// Computes one step of one image, from what it reads in order.
pub(super) fn run_step(
    isa: Isa,
    step: &Step,
    inputs: &[&[f32]],
    y: &mut [f32],
    scratch: &mut Scratch,
) {
    let x = inputs[0];
    match &step.work {
        Work::Convolution { geometry, weights, bias, addend } => {
            slices::forward(isa, geometry, x, weights, Some(bias), y, scratch, 1);
            if let Some(factor) = addend {
                y.iter_mut().zip(inputs[1]).for_each(|(y, x)| *y += factor * x);
            }
        }
        Work::Linear { weights, bias } => {
            let shape = ConvShape::new(1, [x.len(), y.len()], [1, 1], [1, 1]);
            let geometry = ConvGeometry::try_new(shape).expect("neither side is empty");
            slices::forward(isa, &geometry, x, weights, Some(bias), y, scratch, 1);
        }
        Work::Add { factors: [of_a, of_b] } => {
            for ((y, a), b) in y.iter_mut().zip(x).zip(inputs[1]) {
                *y = of_a * a + of_b * b;
            }
        }
        Work::Multiply => {
            let pixels = y.len() / inputs[1].len();
            let factors = inputs[1].iter();
            for ((y, x), factor) in y.chunks_mut(pixels).zip(x.chunks(pixels)).zip(factors) {
                y.iter_mut().zip(x).for_each(|(y, x)| *y = x * factor);
            }
        }
        Work::Function(function) => {
            let mut values = Vec::new();
            y.iter_mut().zip(x).for_each(|(y, &x)| *y = function.of_within(x, &mut values));
        }
        Work::Concatenate => {
            let all = inputs.iter().copied().flatten();
            y.iter_mut().zip(all).for_each(|(y, x)| *y = *x);
        }
        Work::Softmax => softmax(step.shape[0], x, y),
        Work::Pool { geometry, pooling } => pool(geometry, *pooling, x, y),
    }
    if step.is_rectified {
        y.iter_mut().for_each(|y| *y = y.max(0.0));
    }
}

/// Over the channels of each pixel; the greatest is taken away first, so that nothing overflows.
fn softmax(channels: usize, x: &[f32], y: &mut [f32]) {
    let pixels = x.len() / channels;
    for pixel in 0..pixels {
        let of = |channel: usize| channel * pixels + pixel;
        let most = (0..channels).fold(f32::NEG_INFINITY, |most, c| most.max(x[of(c)]));
        let sum: f64 = (0..channels).map(|c| f64::from(x[of(c)] - most).exp()).sum();
        for channel in 0..channels {
            y[of(channel)] = (f64::from(x[of(channel)] - most).exp() / sum) as f32;
        }
    }
}

fn pool(geometry: &ConvGeometry, pooling: Pooling, x: &[f32], y: &mut [f32]) {
    let ConvShape { input, kernel, stride, padding, dilation, .. } = *geometry.shape();
    let [rows, columns] = geometry.output();
    let inside = |axis: usize, window: usize, entry: usize| {
        let place = window * stride[axis] + entry * dilation[axis];
        place.checked_sub(padding[axis]).filter(|&place| place < input[axis])
    };
    let planes = x.chunks_exact(input[0] * input[1]).zip(y.chunks_exact_mut(rows * columns));
    for (x, y) in planes {
        for (index, y) in y.iter_mut().enumerate() {
            let (window_row, window_column) = (index / columns, index % columns);
            let (mut most, mut sum, mut count) = (f32::NEG_INFINITY, 0.0, 0);
            for row in (0..kernel[0]).filter_map(|entry| inside(0, window_row, entry)) {
                for column in (0..kernel[1]).filter_map(|entry| inside(1, window_column, entry)) {
                    let value = x[row * input[1] + column];
                    most = most.max(value);
                    sum += value;
                    count += 1;
                }
            }
            *y = match pooling {
                Pooling::Maximum => most,
                Pooling::MeanOfImage => sum / count.max(1) as f32,
                Pooling::MeanWithPadding => sum / (kernel[0] * kernel[1]) as f32,
            };
        }
    }
}
