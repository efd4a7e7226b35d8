//! Convolution of volumes by its definition, one product after the other, in f64.

use crate::kernels::geometry::{Conv3dGeometry, Conv3dShape};

/// The result.
pub fn forward_3d(
    geometry: &Conv3dGeometry,
    x: &[f64],
    w: &[f64],
    bias: Option<&[f64]>,
) -> Vec<f64> {
    let channels = geometry.shape().channels[1];
    let voxels = geometry.output().iter().product::<usize>();
    let mut y: Vec<f64> = (0..geometry.output_len())
        .map(|index| bias.map_or(0.0, |bias| bias[index / voxels % channels]))
        .collect();
    products(geometry, |output, input, weight| y[output] += x[input] * w[weight]);
    y
}

/// The input's gradient for the loss `Σ y·dy`.
pub fn input_gradient_3d(geometry: &Conv3dGeometry, dy: &[f64], w: &[f64]) -> Vec<f64> {
    let mut dx = vec![0.0; geometry.input_len()];
    products(geometry, |output, input, weight| dx[input] += dy[output] * w[weight]);
    dx
}

/// The weights' gradient for the loss `Σ y·dy`.
pub fn weight_gradient_3d(geometry: &Conv3dGeometry, x: &[f64], dy: &[f64]) -> Vec<f64> {
    let mut dw = vec![0.0; geometry.weight_len()];
    products(geometry, |output, input, weight| dw[weight] += dy[output] * x[input]);
    dw
}

/// Every position of a grid, with its flat index.
fn places([depth, height, width]: [usize; 3]) -> impl Iterator<Item = (usize, [usize; 3])> {
    (0..depth * height * width)
        .map(move |at| (at, [at / width / height, at / width % height, at % width]))
}

/// Visits every product of the convolution by the flat indices of its output, input and weight.
fn products(geometry: &Conv3dGeometry, mut visit: impl FnMut(usize, usize, usize)) {
    let Conv3dShape { batch, channels, groups, input, kernel, stride, padding, dilation } =
        *geometry.shape();
    let output = geometry.output();
    let [inputs, outputs] = channels.map(|channels| channels / groups);
    let [voxels, results, taps] =
        [input, output, kernel].map(|sides| sides.iter().product::<usize>());
    for plane in 0..batch * channels[1] {
        let (sample, o) = (plane / channels[1], plane % channels[1]);
        for (result, to) in places(output) {
            for (tap, k) in places(kernel) {
                let met = [0, 1, 2].map(|axis| {
                    (to[axis] * stride[axis] + k[axis] * dilation[axis])
                        .checked_sub(padding[axis])
                        .filter(|&at| at < input[axis])
                });
                let [Some(z), Some(y), Some(x)] = met else { continue };
                let from = (z * input[1] + y) * input[2] + x;
                for i in 0..inputs {
                    let channel = sample * channels[0] + o / outputs * inputs + i;
                    let weight = (o * inputs + i) * taps + tap;
                    visit(plane * results + result, channel * voxels + from, weight);
                }
            }
        }
    }
}
