//! Structured pruning: the channels of a trained network that a narrower one keeps.
//!
//! A channel is ranked by what its removal changes in the sums that read it: the standard deviation
//! of its output times the norm of the weights that multiply it. The deviation follows from the
//! batch norm before, whose output is taken as normally distributed with mean β and deviation |γ|,
//! so that no data is needed. The mean of a removed channel is a constant, and moves into the norm
//! or the bias behind the sums.
//!
//! Sources: removal of whole filters by the norm of weights, Li et al. 2017, arXiv:1608.08710; the
//! moments of rectified channels from batch norms, and constants that replace them, Nagel et al.
//! 2019, arXiv:1906.04721, section 4.2.

use burn::module::{Param, RunningState};
use burn::tensor::{Device, FloatDType, Tensor, TensorData};
use updraft_conv::{Activation, BatchNorm, Conv2d, activate};

use crate::quantized::{ConvBlock, QuantizedLinear};

/// The number of channels that are left of a layer: at least one.
///
/// `ratio`, at least 0 and below 1, is the fraction that is removed, rounded down to channels.
pub(crate) fn remaining(channels: usize, ratio: f64) -> usize {
    (channels - (channels as f64 * ratio).floor() as usize).max(1)
}

/// The mean and the standard deviation of each channel.
#[derive(Debug, Clone)]
pub(crate) struct Moments {
    pub(crate) means: Vec<f32>,
    pub(crate) deviations: Vec<f32>,
}

impl Moments {
    /// Those of an activation behind a batch norm.
    fn behind(norm: &BatchNorm, activation: Activation) -> Self {
        // The trapezoidal rule over six deviations to each side; its error at the bend of a
        // rectifier is below a hundred thousandth of a deviation.
        const POINTS: usize = 1025;
        const REACH: f64 = 6.0;
        let (gamma, beta) = (numbers(&norm.gamma), numbers(&norm.beta));
        let places = (0..POINTS).map(|at| REACH * (2.0 * at as f64 / (POINTS - 1) as f64 - 1.0));
        let places: Vec<f64> = places.collect();
        let density: Vec<f64> = places.iter().map(|place| (-place * place / 2.0).exp()).collect();
        let total: f64 = density.iter().sum();
        let inputs = places.iter().flat_map(|&place| {
            let of = move |(gamma, beta): (&f32, &f32)| (f64::from(*gamma) * place) as f32 + beta;
            gamma.iter().zip(&beta).map(of)
        });
        let shape = [POINTS, gamma.len()];
        let inputs = TensorData::new(inputs.collect::<Vec<f32>>(), shape);
        let inputs = Tensor::<2>::from_data(inputs, &Device::default());
        let outputs = activate(inputs, activation).into_data();
        let outputs: Vec<f64> = outputs.iter::<f64>().collect();
        let mean_of = |channel: usize, power: i32| -> f64 {
            let each = outputs.iter().skip(channel).step_by(gamma.len()).zip(&density);
            each.map(|(output, density)| output.powi(power) * density).sum::<f64>() / total
        };
        let (means, deviations) = (0..gamma.len())
            .map(|channel| {
                let mean = mean_of(channel, 1);
                let variance = (mean_of(channel, 2) - mean * mean).max(0.0);
                (mean as f32, variance.sqrt() as f32)
            })
            .unzip();
        Self { means, deviations }
    }

    /// Those of channels that are multiplied by factors.
    pub(crate) fn scaled(mut self, factors: &[f32]) -> Self {
        for ((mean, deviation), factor) in
            self.means.iter_mut().zip(&mut self.deviations).zip(factors)
        {
            (*mean, *deviation) = (*mean * factor, *deviation * factor);
        }
        self
    }
}

/// The channels of a layer that stay, and the constants that replace the others.
#[derive(Debug, Clone)]
pub(crate) struct Selection {
    /// In ascending order.
    kept: Vec<usize>,
    /// Channels with their means.
    removed: Vec<(usize, f32)>,
}

impl Selection {
    /// Every one of some channels.
    pub(crate) fn all(channels: usize) -> Self {
        Self { kept: (0..channels).collect(), removed: Vec::new() }
    }

    /// The `count` channels of largest deviation times `norms`, the norms of the weights that read
    /// them; of equal ones the first.
    pub(crate) fn of_largest(count: usize, moments: &Moments, norms: &[f32]) -> Self {
        let importance = |channel: &usize| moments.deviations[*channel] * norms[*channel];
        let mut order: Vec<usize> = (0..norms.len()).collect();
        order.sort_by(|a, b| importance(b).total_cmp(&importance(a)));
        let mut removed = order.split_off(count);
        order.sort_unstable();
        removed.sort_unstable();
        let removed = removed.into_iter().map(|channel| (channel, moments.means[channel]));
        Self { kept: order, removed: removed.collect() }
    }

    /// The same channels, replaced by these means.
    pub(crate) fn with_means(&self, means: &[f32]) -> Self {
        let removed = self.removed.iter().map(|&(channel, _)| (channel, means[channel]));
        Self { kept: self.kept.clone(), removed: removed.collect() }
    }
}

impl ConvBlock {
    /// The moments of the block's output.
    pub(crate) fn output_moments(&self) -> Moments {
        Moments::behind(&self.norm, self.activation)
    }

    /// The Euclidean norm of the weights that read each channel, for a block without groups.
    pub(crate) fn input_norms(&self) -> Vec<f32> {
        norms_along(&numbers(&self.conv.weight), &self.conv.weight.lazy_shape(), 1)
    }

    /// The number of channels that the block writes.
    pub(crate) fn width(&self) -> usize {
        self.conv.weight.lazy_shape()[0]
    }

    /// Takes the parameters of a wider block without groups; if channels of its input are removed,
    /// it is a block of 1 × 1.
    pub(crate) fn take(&mut self, from: &Self, inputs: &Selection, outputs: &Selection) {
        let weights = numbers(&from.conv.weight);
        let shape = from.conv.weight.lazy_shape();
        let constants = constants_of(&weights, &shape, &inputs.removed);
        let weights = along(&weights, &shape, 0, &outputs.kept);
        let shape = [outputs.kept.len(), shape[1], shape[2], shape[3]];
        set(&mut self.conv.weight, along(&weights, &shape, 1, &inputs.kept));
        take_norm_without(&mut self.norm, &from.norm, outputs, &constants);
    }

    /// Takes the parameters of a wider depthwise block.
    pub(crate) fn take_depthwise(&mut self, from: &Self, channels: &Selection) {
        let weights = numbers(&from.conv.weight);
        let shape = from.conv.weight.lazy_shape();
        set(&mut self.conv.weight, along(&weights, &shape, 0, &channels.kept));
        take_norm(&mut self.norm, &from.norm, channels);
    }
}

impl QuantizedLinear {
    /// The Euclidean norm of the weights that read each feature.
    pub(crate) fn input_norms(&self) -> Vec<f32> {
        norms_along(&numbers(&self.linear.weight), &self.linear.weight.lazy_shape(), 0)
    }

    /// Takes the parameters of a layer of more inputs.
    pub(crate) fn take(&mut self, from: &Self, inputs: &Selection) {
        let weights = numbers(&from.linear.weight);
        let shape = from.linear.weight.lazy_shape();
        set(&mut self.linear.weight, along(&weights, &shape, 0, &inputs.kept));
        let (Some(to), Some(bias)) = (&mut self.linear.bias, &from.linear.bias) else { return };
        let constant = |output: usize| {
            let each = inputs.removed.iter();
            each.map(|&(input, mean)| weights[input * shape[1] + output] * mean).sum::<f32>()
        };
        let bias = numbers(bias).into_iter().enumerate();
        set(to, bias.map(|(output, bias)| bias + constant(output)).collect());
    }
}

/// Takes the parameters of a wider convolution of 1 × 1 with a bias.
pub(crate) fn take_pointwise(
    to: &mut Conv2d,
    from: &Conv2d,
    inputs: &Selection,
    outputs: &Selection,
) {
    let weights = numbers(&from.weight);
    let shape = from.weight.lazy_shape();
    let constants = constants_of(&weights, &shape, &inputs.removed);
    let weights = along(&weights, &shape, 0, &outputs.kept);
    let shape = [outputs.kept.len(), shape[1], shape[2], shape[3]];
    set(&mut to.weight, along(&weights, &shape, 1, &inputs.kept));
    if let (Some(to), Some(bias)) = (&mut to.bias, &from.bias) {
        let bias = numbers(bias);
        let sums = outputs.kept.iter().map(|&output| bias[output] + constants[output]);
        set(to, sums.collect());
    }
}

/// Takes the parameters of some channels of a norm.
pub(crate) fn take_norm(to: &mut BatchNorm, from: &BatchNorm, channels: &Selection) {
    take_norm_without(to, from, channels, &vec![0.0; from.gamma.lazy_shape()[0]]);
}

/// The same for a norm whose inputs lost constants.
fn take_norm_without(to: &mut BatchNorm, from: &BatchNorm, channels: &Selection, lost: &[f32]) {
    let kept = &channels.kept;
    let chosen = |values: &[f32]| kept.iter().map(|&at| values[at]).collect::<Vec<f32>>();
    set(&mut to.gamma, chosen(&numbers(&from.gamma)));
    set(&mut to.beta, chosen(&numbers(&from.beta)));
    let mean = host(from.running_mean.value_sync()).into_iter().zip(lost);
    let mean: Vec<f32> = mean.map(|(mean, lost)| mean - lost).collect();
    update(&to.running_mean, chosen(&mean));
    update(&to.running_var, chosen(&host(from.running_var.value_sync())));
}

/// What removed inputs with these means add to each output of a convolution of 1 × 1.
fn constants_of(weights: &[f32], shape: &[usize], removed: &[(usize, f32)]) -> Vec<f32> {
    let each = weights.chunks_exact(shape[1] * shape[2] * shape[3]);
    each.map(|weights| removed.iter().map(|&(input, mean)| weights[input] * mean).sum()).collect()
}

/// The Euclidean norm of the numbers at each place of an axis.
fn norms_along(values: &[f32], shape: &[usize], axis: usize) -> Vec<f32> {
    let inner: usize = shape[axis + 1..].iter().product();
    let mut squares = vec![0.0_f64; shape[axis]];
    for (at, &value) in values.iter().enumerate() {
        squares[at / inner % shape[axis]] += f64::from(value).powi(2);
    }
    squares.into_iter().map(|sum| sum.sqrt() as f32).collect()
}

/// The numbers at some places of an axis.
fn along(values: &[f32], shape: &[usize], axis: usize, kept: &[usize]) -> Vec<f32> {
    let inner: usize = shape[axis + 1..].iter().product();
    let outer = values.chunks_exact(inner * shape[axis]);
    let chosen = outer
        .flat_map(|chunk| kept.iter().flat_map(move |&at| &chunk[at * inner..(at + 1) * inner]));
    chosen.copied().collect()
}

fn numbers<const D: usize>(param: &Param<Tensor<D>>) -> Vec<f32> {
    host(param.val())
}

fn host<const D: usize>(values: Tensor<D>) -> Vec<f32> {
    values.cast(FloatDType::F32).into_data().iter::<f32>().collect()
}

/// Replaces the numbers of a parameter; it stays one that is trained if it was.
fn set<const D: usize>(param: &mut Param<Tensor<D>>, values: Vec<f32>) {
    let is_trained = param.is_require_grad();
    let replaced = param.clone().map(|old| {
        let data = TensorData::new(values, old.dims());
        Tensor::<D>::from_data(data, (&old.device(), old.dtype()))
    });
    *param = replaced.set_require_grad(is_trained);
}

fn update(state: &RunningState<Tensor<1>>, values: Vec<f32>) {
    let old = state.value_sync();
    let data = TensorData::new(values, old.dims());
    state.update(Tensor::<1>::from_data(data, (&old.device(), old.dtype())));
}

#[cfg(test)]
mod tests {
    use burn::nn::BatchNormConfig;

    use super::*;

    #[test]
    fn moments_of_rectified_channels_are_those_in_closed_form() {
        let mut norm = BatchNorm::new(&BatchNormConfig::new(4), &Device::flex());
        let (gamma, beta) = ([1.0_f32, 0.5, 2.0, 0.0], [0.0_f32, 1.0, -1.0, 0.7]);
        set(&mut norm.gamma, gamma.to_vec());
        set(&mut norm.beta, beta.to_vec());
        let found = Moments::behind(&norm, Activation::Relu);
        for channel in 0..4 {
            let (gamma, beta) = (f64::from(gamma[channel]), f64::from(beta[channel]));
            let (mean, square) = match gamma {
                0.0 => (beta.max(0.0), beta.max(0.0).powi(2)),
                _ => {
                    let ratio = beta / gamma;
                    let density = (-ratio * ratio / 2.0).exp() / std::f64::consts::TAU.sqrt();
                    let below = libm::erfc(-ratio / std::f64::consts::SQRT_2) / 2.0;
                    let square = (beta * beta + gamma * gamma) * below + beta * gamma * density;
                    (beta * below + gamma * density, square)
                }
            };
            let deviation = (square - mean * mean).max(0.0).sqrt();
            assert!((f64::from(found.means[channel]) - mean).abs() < 1e-4, "{found:?} {mean}");
            assert!((f64::from(found.deviations[channel]) - deviation).abs() < 1e-3, "{found:?}");
        }
    }

    #[test]
    fn the_largest_channels_stay_in_their_order() {
        let moments = Moments { means: vec![1.0, 2.0, 3.0, 4.0], deviations: vec![1.0; 4] };
        let chosen = Selection::of_largest(2, &moments, &[0.5, 3.0, 0.1, 2.0]);
        assert_eq!(chosen.kept, [1, 3]);
        assert_eq!(chosen.removed, [(0, 1.0), (2, 3.0)]);
        let equal = Selection::of_largest(1, &moments, &[1.0; 4]);
        assert_eq!(equal.kept, [0]);
    }

    #[test]
    fn a_ratio_below_one_leaves_a_channel() {
        assert_eq!(remaining(16, 0.0), 16);
        assert_eq!(remaining(16, 0.5), 8);
        assert_eq!(remaining(10, 0.33), 7);
        assert_eq!(remaining(1 << 20, 1.0 - f64::EPSILON / 2.0), 1);
    }

    #[test]
    fn numbers_are_chosen_along_any_axis() {
        let values: Vec<f32> = (0..12).map(|value| value as f32).collect();
        assert_eq!(
            along(&values, &[2, 3, 2], 1, &[0, 2]),
            [0.0, 1.0, 4.0, 5.0, 6.0, 7.0, 10.0, 11.0]
        );
        assert_eq!(along(&values, &[3, 4], 0, &[1]), [4.0, 5.0, 6.0, 7.0]);
        assert_eq!(norms_along(&[3.0, 1.0, 4.0, 0.0], &[2, 2], 1), [5.0, 1.0]);
    }
}
