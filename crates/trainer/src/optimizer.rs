//! burn's optimizers, chosen by a serializable value.

use burn::optim::decay::WeightDecayConfig;
use burn::optim::momentum::MomentumConfig;
use burn::optim::{AdamConfig, AdamWConfig, ModuleOptimizer, SgdConfig};
use serde::{Deserialize, Serialize};

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
    },
}

fn default_adamw_decay() -> f32 {
    0.01
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
        let (decay, momentum) = match *self {
            Self::Adamw { weight_decay } | Self::Adam { weight_decay } => (weight_decay, 0.0),
            Self::Sgd { momentum, weight_decay } => (weight_decay, momentum),
        };
        let is_decay = decay.is_finite() && decay >= 0.0;
        let is_momentum = (0.0..1.0).contains(&momentum);
        TrainError::check(&[
            ("optimizer.weight_decay", &decay, is_decay, "a finite number of at least 0"),
            ("optimizer.momentum", &momentum, is_momentum, "at least 0 and below 1"),
        ])
    }

    /// burn's optimizer with these settings and no state.
    #[must_use]
    pub fn init(&self) -> ModuleOptimizer {
        match *self {
            // 1e-8 is the epsilon of the Adam paper (arXiv:1412.6980); burn's default is 1e-5.
            Self::Adamw { weight_decay } => {
                AdamWConfig::new().with_weight_decay(weight_decay).with_epsilon(1e-8).init()
            }
            Self::Adam { weight_decay } => {
                let penalty = (weight_decay > 0.0).then(|| WeightDecayConfig::new(weight_decay));
                AdamConfig::new().with_weight_decay(penalty).with_epsilon(1e-8).init()
            }
            Self::Sgd { momentum, weight_decay } => {
                let mut config = SgdConfig::new();
                if momentum > 0.0 {
                    config = config.with_momentum(Some(
                        MomentumConfig::new()
                            .with_momentum(momentum)
                            .with_dampening(0.0)
                            .with_nesterov(true),
                    ));
                }
                if weight_decay > 0.0 {
                    config = config.with_weight_decay(Some(WeightDecayConfig::new(weight_decay)));
                }
                config.init()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use burn::module::{Module, Param};
    use burn::optim::GradientsParams;
    use burn::tensor::{Device, Tensor};

    use super::*;

    #[derive(Module, Debug)]
    struct Weight {
        value: Param<Tensor<1>>,
    }

    #[test]
    fn weight_decay_of_adam_is_in_the_gradient_and_that_of_adamw_beside_it() {
        // The weight is 2 and its gradient −1. The first step of Adam is the learning rate, 0.1,
        // against the sign of the gradient: 0.75 · 2 − 1 with the penalty.
        for (optimizer, expected) in [
            (OptimizerConfig::Adam { weight_decay: 0.0 }, 2.1),
            (OptimizerConfig::Adam { weight_decay: 0.75 }, 1.9),
            (OptimizerConfig::Adamw { weight_decay: 0.0 }, 2.1),
            (OptimizerConfig::Adamw { weight_decay: 0.75 }, 2.0 * (1.0 - 0.075) + 0.1),
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
    fn a_negative_weight_decay_is_refused_by_name() {
        let message = OptimizerConfig::Adamw { weight_decay: -1.0 }
            .validate()
            .expect_err("negative")
            .to_string();
        assert!(message.contains("optimizer.weight_decay"), "{message}");
    }
}
