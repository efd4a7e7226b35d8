//! The shallow dual-pathway network in evaluation, in f64 by its definition.

use crate::formula;
use crate::network::{Network, trained_values};
use crate::problem::widened;

/// The weights of the colors in the brightness: ITU-R BT.709-6, table 3.
const LUMA: [f64; 3] = [0.2126, 0.7152, 0.0722];

/// The norms' ε, of burn's and PyTorch's layers.
const EPSILON: f64 = 1e-5;

/// Feature maps of one image, `[channels, side, side]`.
struct Maps {
    channels: usize,
    side: usize,
    values: Vec<f64>,
}

/// The logits of images, `[images, 3, side, side]`, for the weights of [`Network::in_evaluation`].
pub(crate) fn logits(network: &Network, images: &[f32]) -> Vec<f64> {
    let each = 3 * network.side * network.side;
    images.chunks_exact(each).flat_map(|image| of_image(network, widened(image))).collect()
}

fn of_image(network: &Network, rgb: Vec<f64>) -> Vec<f64> {
    let Network { channels, stem_stride, classes, side } = *network;
    let rgb = Maps { channels: 3, side, values: rgb };
    let stem = |name: &str, x: &Maps| rectified(conv_norm(name, x, channels, [3, stem_stride]));
    let mut color = stem("color_stem", &rgb);
    let mut brightness = stem("brightness_stem", &brightness_of(&rgb));
    let mut stream: Option<Maps> = None;
    for (stage, width) in [channels, 2 * channels].into_iter().enumerate() {
        let at = |part: &str| format!("stages.{stage}.{part}");
        let stride = stage + 1;
        color = residual(&at("color.0"), &color, width, stride);
        brightness = residual(&at("brightness.0"), &brightness, width, stride);
        let carried = stream
            .map(|stream| conv_norm(&at("carry.project"), &rectified(stream), width, [3, stride]));
        let mixed = conv_norm(&at("gate.mix"), &joined(&color, &brightness), width, [1, 1]);
        let nonlinear = conv_norm(&at("gate.project"), &rectified(mixed), width, [1, 1]);
        let pathways = [&color, &brightness];
        stream = Some(integrated(&at("gate"), pathways, carried.as_ref(), nonlinear));
    }
    let [color, brightness] = [&color, &brightness].map(pooled);
    let stream = stream.as_ref().map(pooled);
    let width = color.channels;
    let mixed = linear("gate.mix", &joined(&color, &brightness), width);
    let nonlinear = linear("gate.project", &rectified(normalized("gate.norm", mixed)), width);
    let features = integrated("gate", [&color, &brightness], stream.as_ref(), nonlinear);
    let hidden = rectified(linear("classifier.hidden", &features, width / 2));
    linear("classifier.output", &hidden, classes).values
}

fn brightness_of(rgb: &Maps) -> Maps {
    let pixels = rgb.side * rgb.side;
    let luminance = |pixel: usize| -> f64 {
        LUMA.iter().enumerate().map(|(color, luma)| luma * rgb.values[color * pixels + pixel]).sum()
    };
    Maps { channels: 1, side: rgb.side, values: (0..pixels).map(luminance).collect() }
}

/// `relu(norm(conv(relu(norm(conv(x))))) + shortcut(x))`.
fn residual(path: &str, x: &Maps, width: usize, stride: usize) -> Maps {
    let hidden = rectified(conv_norm(&format!("{path}.first"), x, width, [3, stride]));
    let mut y = conv_norm(&format!("{path}.second"), &hidden, width, [3, 1]);
    let is_same = stride == 1 && x.channels == width;
    let projected =
        (!is_same).then(|| conv_norm(&format!("{path}.shortcut"), x, width, [1, stride]));
    let shortcut = projected.as_ref().unwrap_or(x);
    y.values.iter_mut().zip(&shortcut.values).for_each(|(y, x)| *y += x);
    rectified(y)
}

/// `α·color + β·brightness (+ γ·stream) + nonlinear`; the weights are the softmax of a blend's
/// logits.
fn integrated(
    gate: &str,
    pathways: [&Maps; 2],
    stream: Option<&Maps>,
    mut nonlinear: Maps,
) -> Maps {
    let streams: Vec<&Maps> = pathways.into_iter().chain(stream).collect();
    let weights = softmax(&trained(&format!("{gate}.blend.logits"), streams.len()));
    for (maps, weight) in streams.into_iter().zip(weights) {
        nonlinear.values.iter_mut().zip(&maps.values).for_each(|(y, x)| *y += weight * x);
    }
    nonlinear
}

fn softmax(logits: &[f64]) -> Vec<f64> {
    let sum: f64 = logits.iter().map(|logit| logit.exp()).sum();
    logits.iter().map(|logit| logit.exp() / sum).collect()
}

fn trained(path: &str, count: usize) -> Vec<f64> {
    widened(&trained_values(path, count).expect("a part of a norm or a blend"))
}

fn conv_norm(path: &str, x: &Maps, outputs: usize, [kernel, stride]: [usize; 2]) -> Maps {
    let convolved = convolved(&format!("{path}.conv"), x, outputs, kernel, stride);
    normalized(&format!("{path}.norm"), convolved)
}

/// A convolution without bias, padded by half the kernel.
fn convolved(path: &str, x: &Maps, outputs: usize, kernel: usize, stride: usize) -> Maps {
    let (padding, side) = (kernel / 2, x.side.div_ceil(stride));
    let wide = x.side + 2 * padding;
    let mut padded = vec![0.0; x.channels * wide * wide];
    for (index, line) in x.values.chunks_exact(x.side).enumerate() {
        let (channel, row) = (index / x.side, index % x.side);
        let start = (channel * wide + row + padding) * wide + padding;
        padded[start..start + x.side].copy_from_slice(line);
    }
    let fan_in = x.channels * kernel * kernel;
    let scale = formula::weight_scale(fan_in);
    let weights = formula::tensor(&format!("{path}.weight"), fan_in * outputs, scale);
    let mut values = vec![0.0; outputs * side * side];
    for (y, weights) in values.chunks_exact_mut(side * side).zip(weights.chunks_exact(fan_in)) {
        for (tap, &weight) in weights.iter().enumerate() {
            let (weight, channel) = (f64::from(weight), tap / (kernel * kernel));
            let [down, right] = [tap / kernel % kernel, tap % kernel];
            for (row, y) in y.chunks_exact_mut(side).enumerate() {
                let start = (channel * wide + row * stride + down) * wide + right;
                let line = padded[start..].iter().step_by(stride);
                y.iter_mut().zip(line).for_each(|(y, x)| *y += weight * x);
            }
        }
    }
    Maps { channels: outputs, side, values }
}

/// A product with weights `[inputs, outputs]`; biases are zero.
fn linear(path: &str, x: &Maps, outputs: usize) -> Maps {
    let scale = formula::weight_scale(x.channels);
    let weights = formula::tensor(&format!("{path}.weight"), x.channels * outputs, scale);
    let mut values = vec![0.0; outputs];
    for (x, weights) in x.values.iter().zip(weights.chunks_exact(outputs)) {
        values.iter_mut().zip(weights).for_each(|(y, &weight)| *y += f64::from(weight) * x);
    }
    Maps { channels: outputs, side: 1, values }
}

/// `(x − mean)/√(variance + ε)·γ + β` for each channel.
fn normalized(path: &str, mut x: Maps) -> Maps {
    let [gamma, beta, mean, variance] = ["gamma", "beta", "running_mean", "running_var"]
        .map(|part| trained(&format!("{path}.{part}"), x.channels));
    for (channel, plane) in x.values.chunks_exact_mut(x.side * x.side).enumerate() {
        let factor = gamma[channel] / (variance[channel] + EPSILON).sqrt();
        for value in plane {
            *value = (*value - mean[channel]) * factor + beta[channel];
        }
    }
    x
}

fn rectified(mut x: Maps) -> Maps {
    x.values.iter_mut().for_each(|value| *value = value.max(0.0));
    x
}

fn joined(a: &Maps, b: &Maps) -> Maps {
    let values = [&a.values[..], &b.values].concat();
    Maps { channels: a.channels + b.channels, side: a.side, values }
}

/// The mean of each map.
fn pooled(x: &Maps) -> Maps {
    let pixels = x.side * x.side;
    let mean = |plane: &[f64]| plane.iter().sum::<f64>() / pixels as f64;
    let values = x.values.chunks_exact(pixels).map(mean).collect();
    Maps { channels: x.channels, side: 1, values }
}
