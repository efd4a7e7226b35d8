//! Optimizers, chosen by a serializable value.

use burn::module::ParamGroup;
use burn::optim::decay::WeightDecayConfig;
use burn::optim::{AdamConfig, ModuleOptimizer, Optimizer};
use burn::tensor::{Device, Tensor};
use serde::{Deserialize, Serialize};
use updraft_optim::{AdamW, Sgd, SgdState};

use crate::error::TrainError;

/// Which optimizer updates the parameters.
///
/// Gradient clipping is not part of it: burn's own clips each tensor separately,
/// [`StepSettings`](crate::StepSettings) clips the global norm.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum OptimizerConfig {
    /// Adam with decoupled weight decay (Loshchilov and Hutter 2019, arXiv:1711.05101).
    Adamw {
        /// The decoupled weight decay, multiplied by the learning rate.
        #[serde(default = "default_adamw_decay")]
        weight_decay: f32,
        /// The decays of the first and the second moment, each in `[0, 1)`.
        #[serde(default = "default_betas")]
        betas: [f32; 2],
    },
    /// Adam (Kingma and Ba 2015, arXiv:1412.6980).
    Adam {
        /// L2 penalty added to the gradient, before its moments.
        #[serde(default)]
        weight_decay: f32,
    },
    /// Stochastic gradient descent with Nesterov momentum.
    Sgd {
        /// The momentum, in `[0, 1)`.
        #[serde(default = "default_momentum")]
        momentum: f64,
        /// L2 penalty added to the gradient.
        #[serde(default)]
        weight_decay: f32,
        /// The factor of the learning rate of the biases of normalization layers, the parameters
        /// named `beta`. Their weight decay is divided by it, so that the decay of an update stays
        /// the same.
        ///
        /// # Source
        /// Page 2018, "How to train your `ResNet` 8: Bag of tricks"; Jordan 2024, arXiv:2404.00498,
        /// section 3.4, takes 64.
        #[serde(default = "default_bias_factor")]
        norm_bias_factor: f32,
    },
}

fn default_adamw_decay() -> f32 {
    0.01
}

fn default_betas() -> [f32; 2] {
    [0.9, 0.999]
}

fn default_bias_factor() -> f32 {
    1.0
}

fn default_momentum() -> f64 {
    0.9
}

impl OptimizerConfig {
    /// Checks the ranges of the optimizer's numbers.
    ///
    /// # Errors
    /// [`TrainError::Setting`] naming the number that is out of range.
    pub fn validate(&self) -> Result<(), TrainError> {
        let betas = match *self {
            Self::Adamw { betas, .. } => betas,
            Self::Adam { .. } | Self::Sgd { .. } => default_betas(),
        };
        let are_betas = betas.iter().all(|beta| (0.0..1.0).contains(beta));
        let (decay, momentum, factor) = match *self {
            Self::Adamw { weight_decay, .. } | Self::Adam { weight_decay } => {
                (weight_decay, 0.0, 1.0)
            }
            Self::Sgd { momentum, weight_decay, norm_bias_factor } => {
                (weight_decay, momentum, norm_bias_factor)
            }
        };
        let is_decay = decay.is_finite() && decay >= 0.0;
        let is_momentum = (0.0..1.0).contains(&momentum);
        let is_factor = factor.is_finite() && factor > 0.0;
        let shown = format!("{betas:?}");
        TrainError::check(&[
            ("optimizer.betas", &shown, are_betas, "two numbers of at least 0 and below 1"),
            ("optimizer.norm_bias_factor", &factor, is_factor, "a finite number above 0"),
            ("optimizer.weight_decay", &decay, is_decay, "a finite number of at least 0"),
            ("optimizer.momentum", &momentum, is_momentum, "at least 0 and below 1"),
        ])
    }

    /// The optimizer with these settings and no state.
    #[must_use]
    pub fn init(&self) -> ModuleOptimizer {
        match *self {
            Self::Adamw { weight_decay, betas } => {
                AdamW::new().with_weight_decay(weight_decay).with_betas(betas).into()
            }
            // 1e-8 is the epsilon of the paper; burn's default is 1e-5.
            Self::Adam { weight_decay } => {
                let penalty = (weight_decay > 0.0).then(|| WeightDecayConfig::new(weight_decay));
                AdamConfig::new().with_weight_decay(penalty).with_epsilon(1e-8).init()
            }
            Self::Sgd { momentum, weight_decay, norm_bias_factor: factor } => {
                let all = sgd(momentum, weight_decay);
                if factor == 1.0 {
                    return all.into();
                }
                let shifts = ScaledRate { sgd: sgd(momentum, weight_decay / factor), factor };
                ModuleOptimizer::from(all).with_group(norm_biases(), shifts, None)
            }
        }
    }
}

/// The parameters that burn's and our normalizations name `beta`.
fn norm_biases() -> ParamGroup {
    ParamGroup::from_regex(r"(^|\.)beta$").expect("a valid pattern")
}

fn sgd(momentum: f64, weight_decay: f32) -> Sgd {
    Sgd::new().with_momentum(momentum as f32).with_nesterov(true).with_weight_decay(weight_decay)
}

/// Gradient descent with a multiple of the learning rate.
#[derive(Clone)]
struct ScaledRate {
    sgd: Sgd,
    factor: f32,
}

impl Optimizer for ScaledRate {
    type State<const D: usize> = SgdState<D>;

    fn step<const D: usize>(
        &self,
        learning_rate: f64,
        parameter: Tensor<D>,
        gradient: Tensor<D>,
        state: Option<SgdState<D>>,
    ) -> (Tensor<D>, Option<SgdState<D>>) {
        self.sgd.step(learning_rate * f64::from(self.factor), parameter, gradient, state)
    }

    fn to_device<const D: usize>(state: SgdState<D>, device: &Device) -> SgdState<D> {
        <Sgd as Optimizer>::to_device(state, device)
    }
}

#[cfg(test)]
mod tests {
    use burn::module::{Module, Param};
    use burn::nn::{BatchNorm, BatchNormConfig, Linear, LinearConfig};
    use burn::optim::GradientsParams;
    use updraft_testing::{Numbers, assert_close, autodiff_devices, tolerance};

    use super::*;

    /// A linear layer, then a normalization.
    #[derive(Module, Debug)]
    struct Net {
        linear: Linear,
        norm: BatchNorm,
    }

    #[test]
    fn shifts_of_normalizations_move_faster_and_decay_alike() {
        // The gradients of two steps, the rate, the momentum, the decay and the factor.
        let (gradients, rate, momentum, decay, factor) = ([0.5, -0.25], 0.1, 0.8, 0.01, 64.0_f64);
        let by_hand = |start: f64, rate: f64, decay: f64| {
            let (mut value, mut velocity) = (start, 0.0);
            for gradient in gradients {
                let gradient = gradient + decay * value;
                velocity = momentum * velocity + gradient;
                value -= rate * (gradient + momentum * velocity);
            }
            value
        };
        let config = OptimizerConfig::Sgd {
            momentum,
            weight_decay: decay as f32,
            norm_bias_factor: factor as f32,
        };
        for device in autodiff_devices() {
            let ones = |values: Param<Tensor<1>>| {
                values.map(|v| (v.mul_scalar(0.0) + 1.0).detach().require_grad())
            };
            let norm: BatchNorm = BatchNormConfig::new(1).init(&device);
            let norm = BatchNorm { beta: ones(norm.beta), ..norm };
            let linear = LinearConfig::new(1, 1).init(&device);
            let bias = linear.bias.map(ones);
            let mut net = Net { linear: Linear { bias, ..linear }, norm };
            let mut optimizer = config.init();
            let bias = |net: &Net| net.linear.bias.clone().expect("a bias");
            for gradient in gradients {
                let mut all = GradientsParams::new();
                let gradient =
                    Tensor::<1>::from_floats([gradient], &device.clone().without_autodiff());
                all.register(bias(&net).id, gradient.clone());
                all.register(net.norm.beta.id, gradient.clone());
                all.register(net.norm.gamma.id, gradient);
                net = optimizer.step(rate, net, all);
            }
            let slow = by_hand(1.0, rate, decay);
            let fast = by_hand(1.0, rate * factor, decay / factor);
            assert_close(&bias(&net).val().numbers(), &[slow], tolerance::F32);
            assert_close(&net.norm.gamma.val().numbers(), &[slow], tolerance::F32);
            assert_close(&net.norm.beta.val().numbers(), &[fast], tolerance::F32);
        }
    }

    #[test]
    fn a_factor_that_stops_or_reverses_shifts_is_refused() {
        for norm_bias_factor in [0.0, -1.0, f32::NAN, f32::INFINITY] {
            let sgd = OptimizerConfig::Sgd { momentum: 0.9, weight_decay: 0.0, norm_bias_factor };
            let message = sgd.validate().expect_err("refused").to_string();
            assert!(message.contains("optimizer.norm_bias_factor"), "{message}");
        }
    }

    #[derive(Module, Debug)]
    struct Weight {
        value: Param<Tensor<1>>,
    }

    #[test]
    fn weight_decay_of_adam_is_in_the_gradient_and_that_of_adamw_beside_it() {
        let _alone = updraft_testing::alone();
        // The weight is 2 and its gradient −1. The first step of Adam is the learning rate, 0.1,
        // against the sign of the gradient: 0.75 · 2 − 1 with the penalty.
        for (optimizer, expected) in [
            (OptimizerConfig::Adam { weight_decay: 0.0 }, 2.1),
            (OptimizerConfig::Adam { weight_decay: 0.75 }, 1.9),
            (OptimizerConfig::Adamw { weight_decay: 0.0, betas: [0.9, 0.999] }, 2.1),
            (
                OptimizerConfig::Adamw { weight_decay: 0.75, betas: [0.9, 0.999] },
                2.0 * (1.0 - 0.075) + 0.1,
            ),
        ] {
            let device = Device::flex().autodiff();
            let model = Weight { value: Param::from_tensor(Tensor::from_floats([2.0], &device)) };
            let loss = model.value.val().neg();
            let gradients = GradientsParams::from_grads(loss.backward(), &model);
            let model = optimizer.init().step(0.1, model, gradients);
            let value = model.value.val().into_data().iter::<f64>().next().expect("one");
            assert!((value - expected).abs() < 1e-6, "{optimizer:?}: {value}, not {expected}");
        }
    }

    #[test]
    fn betas_decide_how_much_of_earlier_gradients_an_update_keeps() {
        let _alone = updraft_testing::alone();
        // Gradients 1, then −1. Without memory both steps have the length of the rate.
        for (betas, expected) in [
            ([0.0, 0.0], [1.9, 2.0]),
            // Moments 0.5 and −0.25, corrected by 1 − 0.5 and 1 − 0.25.
            ([0.5, 0.0], [1.9, 1.9 + 0.1 / 3.0]),
        ] {
            let device = Device::flex().autodiff();
            let mut model =
                Weight { value: Param::from_tensor(Tensor::from_floats([2.0], &device)) };
            let mut optimizer = OptimizerConfig::Adamw { weight_decay: 0.0, betas }.init();
            for (sign, expected) in [1.0, -1.0].into_iter().zip(expected) {
                let loss = model.value.val().mul_scalar(sign);
                let gradients = GradientsParams::from_grads(loss.backward(), &model);
                model = optimizer.step(0.1, model, gradients);
                let value = model.value.val().into_data().iter::<f64>().next().expect("one");
                assert!((value - expected).abs() < 1e-6, "{betas:?}: {value}, not {expected}");
            }
        }
        for betas in [[1.0, 0.9], [0.9, -0.1], [f32::NAN, 0.9]] {
            let error = OptimizerConfig::Adamw { weight_decay: 0.0, betas }.validate();
            let message = error.expect_err("out of range").to_string();
            assert!(message.contains("optimizer.betas"), "{message}");
        }
    }

    #[test]
    fn a_negative_weight_decay_is_refused_by_name() {
        let message = OptimizerConfig::Adamw { weight_decay: -1.0, betas: [0.9, 0.999] }
            .validate()
            .expect_err("negative")
            .to_string();
        assert!(message.contains("optimizer.weight_decay"), "{message}");
    }
}
