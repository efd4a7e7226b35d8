//! Deep networks in f64 by their definition.

use super::layers::{Convolution, Parameters, Shortcut, answers};
use super::{ANSWERS, Int8Deep};
use crate::problem::widened;

impl Int8Deep {
    /// The answers for images.
    pub(super) fn in_f64(&self, images: &[f32]) -> Vec<f64> {
        let blocks = self.network.blocks(self.is_small);
        let mut y = Vec::new();
        for image in images.chunks_exact(3 * self.side * self.side) {
            let (mut x, mut side) = (widened(image), self.side);
            let mut features = 3;
            for block in &blocks {
                let mut path = (x.clone(), side);
                for convolution in &block.path {
                    path = convolved(&path.0, path.1, convolution);
                }
                let addend = match &block.shortcut {
                    Shortcut::None => None,
                    Shortcut::Input => Some(x),
                    Shortcut::Convolution(shortcut) => Some(convolved(&x, side, shortcut).0),
                };
                (x, side) = path;
                if let Some(addend) = addend {
                    x.iter_mut().zip(addend).for_each(|(x, addend)| *x += addend);
                }
                if block.is_rectified {
                    x.iter_mut().for_each(|x| *x = x.max(0.0));
                }
                features = block.outputs();
            }
            let area = (side * side) as f64;
            let means: Vec<f64> =
                x.chunks_exact(side * side).map(|x| x.iter().sum::<f64>() / area).collect();
            let Parameters { weights, bias } = answers(features);
            for answer in 0..ANSWERS {
                let weights = &weights[answer * features..][..features];
                let products = weights.iter().zip(&means).map(|(&w, mean)| f64::from(w) * mean);
                y.push(f64::from(bias[answer]) + products.sum::<f64>());
            }
        }
        y
    }
}

/// A convolution of `[channels, side, side]`, and the sides of the result.
fn convolved(x: &[f64], side: usize, convolution: &Convolution) -> (Vec<f64>, usize) {
    let Convolution { channels: [inputs, outputs], kernel, stride, groups, .. } = *convolution;
    let Parameters { weights, bias } = convolution.parameters();
    let out = convolution.output_side(side);
    let [each_in, each_out] = [inputs / groups, outputs / groups];
    let mut y = Vec::with_capacity(outputs * out * out);
    for index in 0..outputs * out * out {
        let (output, row, column) = (index / out / out, index / out % out, index % out);
        let mut sum = f64::from(bias[output]);
        for tap in 0..each_in * kernel * kernel {
            let (input, entry) = (tap / kernel / kernel, tap % (kernel * kernel));
            let from_row = (row * stride + entry / kernel).wrapping_sub(kernel / 2);
            let from_column = (column * stride + entry % kernel).wrapping_sub(kernel / 2);
            if from_row < side && from_column < side {
                let channel = output / each_out * each_in + input;
                let weight = weights[output * each_in * kernel * kernel + tap];
                sum += f64::from(weight) * x[(channel * side + from_row) * side + from_column];
            }
        }
        y.push(if convolution.is_rectified { sum.max(0.0) } else { sum });
    }
    (y, out)
}
