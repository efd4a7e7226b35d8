//! Rounding to the codes of a quantization with a learnt step.

use std::sync::atomic::{AtomicBool, Ordering};

use burn::module::{Initializer, Module, Param, RunningState};
use burn::tensor::{Device, FloatDType, Tensor};
use serde::{Deserialize, Serialize};
use updraft_conv::fake_quantize;

/// Codes of an activation above the lowest one: eight bits.
const ACTIVATION_LEVELS: usize = 255;

/// The step before the first batch was seen, for networks that are evaluated untrained.
const UNSET_STEP: f32 = 1.0 / 16.0;

/// The least step: channels of zeros have no range.
const LEAST_STEP: f32 = 1e-8;

/// The bits of weights in quantization-aware training; activations have eight.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WeightBits {
    /// Codes from −127 to 127.
    Int8,
    /// Codes from −7 to 7.
    ///
    /// The first convolution and the classifier keep eight bits, as is usual: they are few weights,
    /// and read the image or are the answer.
    Int4,
}

impl WeightBits {
    /// The greatest code.
    const fn greatest(self) -> usize {
        match self {
            Self::Int8 => 127,
            Self::Int4 => 7,
        }
    }
}

/// Rounds numbers to the codes of a quantization and back.
///
/// A step is `initial·exp(p)` with a learnt `p`, so that it stays positive, and an update changes
/// it by a factor, whatever its size; `p` starts at 0, so that weight decay pulls towards the
/// initial step. The initial step and the lowest code are those of the first training batch: of
/// its range, and for weights of `2·mean|w|/√Q` if that is less, where `Q` is the greatest code.
///
/// # Source
/// The gradients and the initial steps of weights: Esser et al. 2020, arXiv:1902.08153. The
/// logarithm of a step as the parameter: Jain et al. 2019, arXiv:1903.08066, section 3.
#[derive(Module, Debug)]
pub(crate) struct FakeQuantizer {
    /// `ln(step/initial_step)`.
    log_factor: Param<Tensor<1>>,
    initial_step: RunningState<Tensor<1>>,
    lowest: RunningState<Tensor<1>>,
    /// 1 after the first batch.
    is_set: RunningState<Tensor<1>>,
    levels: usize,
    /// Whether `is_set` was read as 1, so that it is not read from the device again.
    #[module(skip)]
    was_set: WasSet,
}

/// A flag that a copy takes over but does not share: a trial on a copy of the network sets the state
/// of the copy only.
#[derive(Debug, Default)]
struct WasSet(AtomicBool);

impl Clone for WasSet {
    fn clone(&self) -> Self {
        Self(AtomicBool::new(self.0.load(Ordering::Relaxed)))
    }
}

impl FakeQuantizer {
    fn new(steps: usize, levels: usize, lowest: f32, device: &Device) -> Self {
        let state =
            |value: f32, count: usize| RunningState::new(Tensor::full([count], value, device));
        Self {
            log_factor: Initializer::Zeros.init([steps], device),
            initial_step: state(UNSET_STEP, steps),
            lowest: state(lowest, 1),
            is_set: state(0.0, 1),
            levels,
            was_set: WasSet::default(),
        }
    }

    /// For weights whose first axis is that of `channels` outputs.
    pub(crate) fn of_weights(channels: usize, bits: WeightBits, device: &Device) -> Self {
        let greatest = bits.greatest();
        Self::new(channels, 2 * greatest, -(greatest as f32), device)
    }

    /// For a tensor of activations.
    pub(crate) fn of_activations(device: &Device) -> Self {
        Self::new(1, ACTIVATION_LEVELS, -128.0, device)
    }

    /// Rounds activations.
    pub(crate) fn activations<const D: usize>(&self, x: Tensor<D>) -> Tensor<D> {
        self.round(x, |x| self.set_by_range(x))
    }

    /// Rounds weights.
    pub(crate) fn weights<const D: usize>(&self, weights: Tensor<D>) -> Tensor<D> {
        self.round(weights, |weights| self.set_by_channels(weights))
    }

    fn round<const D: usize>(&self, x: Tensor<D>, set: impl FnOnce(Tensor<D>)) -> Tensor<D> {
        let device = x.device();
        if device.is_autodiff() && !self.is_set() {
            set(x.clone().detach());
            self.is_set.update(Tensor::ones([1], &device));
        }
        let state = |state: &RunningState<Tensor<1>>| state.value_sync().to_device(&device);
        let steps = state(&self.initial_step) * self.log_factor.val().exp();
        // Several ranks average their states: then it is no longer whole.
        let lowest = state(&self.lowest).round();
        fake_quantize(x, steps, lowest, self.levels as u32)
    }

    fn is_set(&self) -> bool {
        if self.was_set.0.load(Ordering::Relaxed) {
            return true;
        }
        let is_set = self.is_set.value_sync().into_data().iter::<f32>().next() == Some(1.0);
        if is_set {
            self.was_set.0.store(true, Ordering::Relaxed);
        }
        is_set
    }

    /// The step and the lowest code whose codes cover the numbers and zero.
    fn set_by_range<const D: usize>(&self, x: Tensor<D>) {
        let device = x.device();
        let x = x.cast(FloatDType::F32);
        let both = Tensor::cat(vec![x.clone().min().clamp_max(0.0), x.max().clamp_min(0.0)], 0);
        let both: Vec<f32> = both.into_data().iter::<f32>().collect();
        let step = (both[1] - both[0]) / self.levels as f32;
        let is_usable = step.is_finite() && step > LEAST_STEP;
        let step = if is_usable { step } else { UNSET_STEP };
        let lowest = if is_usable { (both[0] / step).round() } else { 0.0 };
        self.initial_step.update(Tensor::full([1], step, &device));
        self.lowest.update(Tensor::full([1], lowest, &device));
    }

    fn set_by_channels<const D: usize>(&self, weights: Tensor<D>) {
        let channels = weights.dims()[0];
        let each = weights.dims().iter().product::<usize>() / channels;
        let sizes = weights.cast(FloatDType::F32).reshape([channels, each]).abs();
        let greatest = self.levels as f64 / 2.0;
        let of_mean = sizes.clone().mean_dim(1).mul_scalar(2.0 / greatest.sqrt());
        let of_range = sizes.max_dim(1).div_scalar(greatest);
        let steps = of_mean.min_pair(of_range).clamp_min(LEAST_STEP);
        self.initial_step.update(steps.reshape([channels]));
    }
}

#[cfg(test)]
mod tests {
    use updraft_testing::{Numbers, autodiff_devices};

    use super::*;

    #[test]
    fn the_first_batch_decides_codes_that_cover_it_and_a_later_one_does_not() {
        for device in autodiff_devices() {
            let quantizer = FakeQuantizer::of_activations(&device);
            let x = Tensor::<2>::from_floats([[-0.5, 0.0, 2.05, 1.0]], &device);
            let step = 2.55 / 255.0;
            let rounded = quantizer.activations(x.clone()).numbers();
            for (given, right) in rounded.iter().zip(x.numbers()) {
                assert!((given - right).abs() <= step / 2.0 + 1e-6, "{given} {right}");
            }
            assert_eq!(quantizer.lowest.value().numbers(), [-50.0]);
            // Codes end where the first batch did.
            let clipped = quantizer.activations(x * 10.0).numbers();
            assert!((clipped[0] + 0.5).abs() < 1e-3 && (clipped[2] - 2.05).abs() < 1e-3);
            // So they do without a graph.
            let plain = quantizer.valid();
            let far = Tensor::<2>::full([1, 1], 100.0, &device.clone().inner());
            assert!((plain.activations(far).numbers()[0] - 2.05).abs() < 1e-3);
        }
    }

    #[test]
    fn a_trial_on_a_copy_leaves_the_first_batch_to_the_network() {
        for device in autodiff_devices() {
            let quantizer = FakeQuantizer::of_activations(&device);
            let copy = quantizer.valid().train();
            // The second pass finds that the state is set.
            for _ in 0..2 {
                drop(copy.activations(Tensor::<2>::full([1, 1], 510.0, &device)));
            }
            assert_eq!(copy.initial_step.value_sync().numbers(), [2.0]);
            drop(quantizer.activations(Tensor::<2>::full([1, 1], 2.55, &device)));
            assert!((quantizer.initial_step.value_sync().numbers()[0] - 0.01).abs() < 1e-6);
        }
    }

    #[test]
    fn steps_of_weights_are_those_of_the_paper_unless_the_range_is_narrower() {
        for device in autodiff_devices() {
            let quantizer = FakeQuantizer::of_weights(3, WeightBits::Int4, &device);
            // An outlier, which is clipped; numbers of one size; zeros.
            let weights = [[0.1, -0.1, 0.1, 9.0], [0.7, -0.7, 0.7, 0.7], [0.0; 4]];
            let rounded = quantizer.weights(Tensor::<2>::from_floats(weights, &device));
            let steps = quantizer.initial_step.value().numbers();
            let of_mean = 2.0 * (9.3 / 4.0) / 7.0_f64.sqrt();
            assert!((steps[0] - of_mean.min(9.0 / 7.0)).abs() < 1e-5, "{steps:?}");
            assert!((steps[1] - 0.1).abs() < 1e-6, "{steps:?}");
            let rounded = rounded.numbers();
            assert_eq!(rounded[8..], [0.0; 4]);
            assert!((rounded[4] - 0.7).abs() < 1e-6);
        }
    }

    #[test]
    fn the_logarithm_of_a_step_has_the_gradient_of_the_step_times_it() {
        for device in autodiff_devices() {
            let quantizer = FakeQuantizer::of_weights(2, WeightBits::Int4, &device);
            let weights = [[0.33, -0.2, 0.05, 0.7], [0.1, 0.1, 0.1, 0.1]];
            let weights = Tensor::<2>::from_floats(weights, &device);
            let gradients = quantizer.weights(weights.clone()).sum().backward();
            let step = 0.1;
            let rest: f64 =
                weights.numbers()[..4].iter().map(|w| (w / step).round() - w / step).sum();
            // The factor of its gradient: four weights, greatest code 7.
            let right = rest * step / (4.0_f64 * 7.0).sqrt();
            let given = quantizer.log_factor.grad(&gradients).expect("learnt").numbers()[0];
            assert!((given - right).abs() < 1e-5, "{given} {right}");
        }
    }
}
