//! The lookahead optimizer: slow weights that are averaged with the trained ones at intervals.

use burn::module::{Module, ModuleMapper, Param};
use burn::optim::GradientsParams;
use burn::tensor::Tensor;
use serde::{Deserialize, Serialize};

use crate::buffers::tensors;
use crate::error::TrainError;
use crate::run::Run;

/// The lookahead optimizer around another one.
///
/// Every `every` updates, with `t` updates made of `T`, slow weights `s` and the model `p` become
/// the same: `s ← p ← s + (1 − d(t))·(p − s)` with `d(t) = decay·(t/T)^power`. After update `T` the
/// model is set to the slow weights; a run that stops earlier keeps its own. The running statistics
/// of batch norms, and frozen parameters, are averaged like all weights.
///
/// # Source
/// Zhang et al. 2019, arXiv:1907.08610, algorithm 1, whose `α` is `1 − decay` with `power` 0;
/// Jordan 2024, arXiv:2404.00498, section 3.4, for the decay that grows with the cube.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Lookahead {
    /// Updates between two synchronizations with the slow weights, at least 1.
    #[serde(default = "default_every")]
    pub every: u64,
    /// The weight of the slow weights after the last update, in `[0, 1)`.
    #[serde(default = "default_decay")]
    pub decay: f64,
    /// The power of `t/T` with which that weight grows to `decay`: 0 is a constant weight.
    #[serde(default)]
    pub power: f64,
}

/// The number of the paper's experiments with images (arXiv:1907.08610, section 5.1).
fn default_every() -> u64 {
    5
}

/// The share of the paper's experiments with CIFAR-10 is 0.2 to 0.5 (appendix C).
fn default_decay() -> f64 {
    0.5
}

impl Lookahead {
    /// Checks the ranges of its numbers.
    ///
    /// # Errors
    /// [`TrainError::Setting`] naming the number that is out of range.
    pub fn validate(&self) -> Result<(), TrainError> {
        let Self { every, decay, power } = *self;
        let is_power = power.is_finite() && power >= 0.0;
        TrainError::check(&[
            ("lookahead.every", &every, every > 0, "at least 1"),
            ("lookahead.decay", &decay, (0.0..1.0).contains(&decay), "at least 0 and below 1"),
            ("lookahead.power", &power, is_power, "a finite number of at least 0"),
        ])
    }

    /// The share of the slow weights after `step` of `steps` updates.
    #[must_use]
    pub fn share(&self, step: u64, steps: u64) -> f64 {
        self.decay * (step as f64 / steps.max(1) as f64).min(1.0).powf(self.power)
    }

    /// The model after update `step` of `steps`, counted from 1, and the slow weights; `model` is
    /// on an autodiff device, the slow weights on the one without.
    pub(crate) fn update<M: Module>(&self, model: M, slow: M, (step, steps): (u64, u64)) -> (M, M) {
        if step.is_multiple_of(self.every) {
            let model = blended(model, &slow, self.share(step, steps));
            let slow = model.valid();
            (model, slow)
        } else if step == steps {
            (blended(model, &slow, 1.0), slow)
        } else {
            (model, slow)
        }
    }
}

impl<M: Module> Run<M> {
    /// Keeps the slow weights of a checkpoint, or those of the model as it is, if they are used.
    pub(crate) fn keep_slow_weights(&mut self, are_used: bool) {
        let kept = self.slow.take().filter(|_| are_used);
        self.slow = kept.or_else(|| are_used.then(|| Box::new(self.model.valid())));
    }

    /// Synchronizes the model with the slow weights if it is time, after an update.
    pub(crate) fn look_ahead(&mut self, lookahead: &Lookahead, steps: u64) {
        let at = (self.state.step, steps);
        if !at.0.is_multiple_of(lookahead.every) && at.0 != steps {
            return;
        }
        if let Some(slow) = self.slow.take() {
            let (model, slow) = lookahead.update(self.model.clone(), *slow, at);
            self.model = model;
            self.slow = Some(Box::new(slow));
        }
    }
}

/// The model with `share` of each number taken from the slow weights.
fn blended<M: Module>(model: M, slow: &M, share: f64) -> M {
    // A pending update of running statistics would overwrite the blended ones.
    drop(model.valid());
    model.map(&mut Blend { slow: tensors(slow), share })
}

struct Blend {
    slow: GradientsParams,
    share: f64,
}

impl ModuleMapper for Blend {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let Some(slow) = self.slow.remove::<D>(param.id) else { return param };
        let (id, live, mapper) = param.consume();
        let (is_trained, is_autodiff) = (live.is_require_grad(), live.device().is_autodiff());
        let live = live.without_autodiff();
        let moved = slow.clone() + (live - slow).mul_scalar(1.0 - self.share);
        let moved = if is_autodiff { Tensor::from_inner(moved) } else { moved };
        Param::from_mapped_value(id, moved.set_require_grad(is_trained), mapper)
    }
}

#[cfg(test)]
mod tests {
    use burn::nn::{BatchNorm, BatchNormConfig};
    use burn::tensor::Device;
    use updraft_testing::{Numbers, assert_close, autodiff_devices, tolerance};

    use super::*;

    /// The norm with one more in its scale, as an update would make it.
    fn moved(norm: BatchNorm) -> BatchNorm {
        let gamma = norm.gamma.clone().map(|gamma| gamma.add_scalar(1.0).detach().require_grad());
        BatchNorm { gamma, ..norm }
    }

    fn norm(device: &Device) -> BatchNorm {
        BatchNormConfig::new(1).init(device)
    }

    #[test]
    fn the_share_grows_with_the_power_of_the_progress() {
        let record = Lookahead { every: 5, decay: 0.95_f64.powi(5), power: 3.0 };
        for (step, expected) in [(0, 0.0), (50, 0.125), (100, 1.0), (200, 1.0)] {
            let share = record.share(step, 100);
            assert!((share - 0.95_f64.powi(5) * expected).abs() < 1e-12, "{step}: {share}");
        }
        let constant = Lookahead { every: 5, decay: 0.5, power: 0.0 };
        assert_eq!([0, 3, 10].map(|step| constant.share(step, 10)), [0.5; 3]);
    }

    #[test]
    fn model_and_slow_weights_follow_the_formula_and_end_at_the_slow_ones() {
        let lookahead = Lookahead { every: 2, decay: 0.8, power: 1.0 };
        for device in autodiff_devices() {
            let mut model = norm(&device);
            let mut slow = model.valid();
            let (mut by_hand, mut slow_by_hand) = (1.0, 1.0);
            for step in 1..=5 {
                model = moved(model);
                (model, slow) = lookahead.update(model, slow, (step, 5));
                by_hand += 1.0;
                if step % 2 == 0 {
                    let share = 0.8 * step as f64 / 5.0;
                    by_hand = slow_by_hand + (1.0 - share) * (by_hand - slow_by_hand);
                    slow_by_hand = by_hand;
                } else if step == 5 {
                    by_hand = slow_by_hand;
                }
                assert_close(&model.gamma.val().numbers(), &[by_hand], tolerance::F32);
                assert_close(&slow.gamma.val().numbers(), &[slow_by_hand], tolerance::F32);
                assert!(
                    model.gamma.is_require_grad() && !model.running_mean.value().is_require_grad()
                );
            }
        }
    }

    #[test]
    fn running_statistics_are_blended_like_weights() {
        let lookahead = Lookahead { every: 1, decay: 0.75, power: 0.0 };
        for device in autodiff_devices() {
            let model = norm(&device);
            let slow = model.valid();
            model.forward(Tensor::<2>::from_floats([[10.0], [30.0]], &device));
            let live = model.valid().running_mean.value().numbers()[0];
            assert!(live > 1.0);
            let (model, slow) = lookahead.update(model, slow, (1, 9));
            for mean in [model.running_mean.value_sync(), slow.running_mean.value()] {
                assert_close(&mean.numbers(), &[0.25 * live], tolerance::F32);
            }
        }
    }

    #[test]
    fn numbers_out_of_range_are_refused_by_name() {
        let good = Lookahead { every: 5, decay: 0.5, power: 3.0 };
        for (every, decay, power) in [(5, 0.5, 3.0), (1, 0.0, 0.0)] {
            assert!(Lookahead { every, decay, power }.validate().is_ok(), "{every}");
        }
        let read: Lookahead = serde_json::from_str("{}").expect("all numbers have defaults");
        assert_eq!(read, Lookahead { every: 5, decay: 0.5, power: 0.0 });
        for (bad, name) in [
            (Lookahead { every: 0, ..good }, "`lookahead.every`"),
            (Lookahead { decay: 1.0, ..good }, "`lookahead.decay`"),
            (Lookahead { decay: -0.5, ..good }, "`lookahead.decay`"),
            (Lookahead { power: -1.0, ..good }, "`lookahead.power`"),
            (Lookahead { power: f64::INFINITY, ..good }, "`lookahead.power`"),
        ] {
            let message = bad.validate().expect_err(name).to_string();
            assert!(message.starts_with(name), "{message}");
        }
    }
}
