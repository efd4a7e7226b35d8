//! The steps in f32, image by image: what eight bits are calibrated on and compared with.

use updraft_conv::slices::{self, ConvGeometry, ConvShape, Path, Scratch};

use super::fuse::{Step, Work};
use crate::kernels::Pooling;

/// What the steps work in: every tensor of one image, `[channels, height, width]`.
#[derive(Debug)]
pub(super) struct FloatRun {
    pub(super) tensors: Vec<Vec<f32>>,
    scratch: Scratch,
    path: Path,
}

impl FloatRun {
    pub(super) fn new(input: [usize; 3], steps: &[Step]) -> Self {
        let shapes = std::iter::once(input).chain(steps.iter().map(|step| step.shape));
        let tensors = shapes.map(|shape| vec![0.0; shape.iter().product()]).collect();
        Self { tensors, scratch: Scratch::new(), path: Path::detect() }
    }

    /// Computes all tensors of one image.
    pub(super) fn run(&mut self, steps: &[Step], image: &[f32]) {
        self.tensors[0].copy_from_slice(image);
        for (index, step) in steps.iter().enumerate() {
            let (before, after) = self.tensors.split_at_mut(index + 1);
            let (x, y) = (&before[step.inputs[0]], &mut after[0]);
            match &step.work {
                Work::Convolution { geometry, weights, bias } => {
                    let bias = Some(bias.as_slice());
                    let scratch = &mut self.scratch;
                    slices::forward(self.path, geometry, x, weights, bias, y, scratch, 1);
                }
                Work::Linear { weights, bias } => {
                    let shape = ConvShape::new(1, [x.len(), y.len()], [1, 1], [1, 1]);
                    let geometry = ConvGeometry::try_new(shape).expect("neither side is empty");
                    let bias = Some(bias.as_slice());
                    let scratch = &mut self.scratch;
                    slices::forward(self.path, &geometry, x, weights, bias, y, scratch, 1);
                }
                Work::Add => {
                    let other = &before[step.inputs[1]];
                    for ((y, a), b) in y.iter_mut().zip(x).zip(other) {
                        *y = a + b;
                    }
                }
                Work::Pool { geometry, pooling } => pool(geometry, *pooling, x, y),
            }
            if step.is_rectified {
                y.iter_mut().for_each(|y| *y = y.max(0.0));
            }
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
