//! An exponential moving average of a model's parameters.

use std::collections::HashSet;

use burn::module::{Module, ModuleMapper, Param, ParamId};
use burn::optim::GradientsParams;
use burn::tensor::{Bool, Tensor};
use serde::{Deserialize, Serialize};

use crate::buffers::{for_all, learned, tensors};
use crate::error::TrainError;

/// The decay of a moving average of the parameters.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EmaConfig {
    /// The weight of the old average at each update after the warm-up, in `[0, 1)`.
    pub decay: f64,
}

impl EmaConfig {
    /// Checks the range of the decay.
    ///
    /// # Errors
    /// [`TrainError::Setting`] naming it.
    pub fn validate(&self) -> Result<(), TrainError> {
        if (0.0..1.0).contains(&self.decay) {
            return Ok(());
        }
        Err(TrainError::setting("ema.decay", self.decay.to_string(), "at least 0 and below 1"))
    }

    /// The decay at update `t`, counted from 1: `min(decay, (1 + t)/(10 + t))`.
    ///
    /// Without the warm-up an average starts from the untrained weights and lags an epoch behind.
    ///
    /// # Source
    /// `TensorFlow`'s `ExponentialMovingAverage` with `num_updates`.
    #[must_use]
    pub fn decay_at(&self, update: u64) -> f64 {
        let update = update as f64;
        self.decay.min((1.0 + update) / (10.0 + update))
    }
}

/// A moving average of a model's learned parameters: `a ← a + (1 − decay)·(p − a)`.
///
/// Everything that is not learned, such as the running statistics of batch norms, is copied from
/// the live model, bit for bit: a running mean is already an average. The averaged model shares
/// nothing with the live one and is on the device without autodiff.
#[derive(Debug)]
pub struct Ema<M> {
    config: EmaConfig,
    average: M,
    updates: u64,
    learned: HashSet<ParamId>,
}

impl<M: Module> Ema<M> {
    /// An average that starts at the model's parameters; `model` is on an autodiff device.
    #[must_use]
    pub fn new(config: EmaConfig, model: &M) -> Self {
        Self::resume(config, model, model.valid(), 0)
    }

    /// An average that was saved after this many updates.
    #[must_use]
    pub fn resume(config: EmaConfig, model: &M, average: M, updates: u64) -> Self {
        Self { config, average, updates, learned: learned(model) }
    }

    /// Updates the average with the model's parameters.
    pub fn update(&mut self, model: &M) {
        self.updates += 1;
        let mut blend = Blend {
            learned: &self.learned,
            average: tensors(&self.average),
            pull: 1.0 - self.config.decay_at(self.updates),
        };
        // Starting from the live model copies everything that is not learned.
        self.average = model.valid().map(&mut blend);
    }

    /// Updates the average if `is_applied`, `[1]`, is true, and leaves it as it is otherwise, to the
    /// bit, which the device decides. `pull`, `[1]`, is the next of [`pulls`](Self::pulls) that was
    /// not applied. [`count`](Self::count) follows when the host knows how many were.
    pub(crate) fn update_if(&mut self, is_applied: &Tensor<1, Bool>, pull: &Tensor<1>, model: &M) {
        let mut blend =
            BlendIf { learned: &self.learned, average: tensors(&self.average), is_applied, pull };
        self.average = model.valid().map(&mut blend);
    }

    /// The weights `1 − decay` of the live model in the next updates.
    pub(crate) fn pulls(&self, updates: usize) -> Vec<f64> {
        let next = (self.updates + 1..).take(updates);
        next.map(|update| 1.0 - self.config.decay_at(update)).collect()
    }

    /// Adds updates that [`update_if`](Self::update_if) has made.
    pub(crate) fn count(&mut self, updates: u64) {
        self.updates += updates;
    }

    /// The averaged model, on the device without autodiff.
    #[must_use]
    pub fn average(&self) -> &M {
        &self.average
    }

    /// The number of updates so far.
    #[must_use]
    pub fn updates(&self) -> u64 {
        self.updates
    }
}

struct Blend<'a> {
    learned: &'a HashSet<ParamId>,
    average: GradientsParams,
    pull: f64,
}

impl ModuleMapper for Blend<'_> {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        if !self.learned.contains(&param.id) {
            return param;
        }
        match self.average.remove::<D>(param.id) {
            Some(average) => {
                let (id, live, mapper) = param.consume();
                let moved = average.clone() + (live - average).mul_scalar(self.pull);
                Param::from_mapped_value(id, moved, mapper)
            }
            None => param,
        }
    }
}

struct BlendIf<'a> {
    learned: &'a HashSet<ParamId>,
    average: GradientsParams,
    is_applied: &'a Tensor<1, Bool>,
    pull: &'a Tensor<1>,
}

impl ModuleMapper for BlendIf<'_> {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let Some(average) = self.average.remove::<D>(param.id) else { return param };
        let is_learned = self.learned.contains(&param.id);
        let (id, live, mapper) = param.consume();
        let is_applied = for_all(self.is_applied, live.dims());
        let moved = if is_learned {
            let pull = self.pull.clone().cast(live.dtype()).reshape([1; D]);
            average.clone() + (live - average.clone()) * pull
        } else {
            live
        };
        Param::from_mapped_value(id, average.mask_where(is_applied, moved), mapper)
    }
}

#[cfg(test)]
mod tests {
    use burn::nn::{BatchNorm, BatchNormConfig};
    use burn::tensor::Device;
    use updraft_testing::{alone, assert_close, autodiff_devices, tolerance};

    use super::*;

    /// The model with its scale set to a value.
    fn scaled(norm: BatchNorm, scale: f64) -> BatchNorm {
        let gamma = norm
            .gamma
            .clone()
            .map(|gamma| gamma.mul_scalar(0.0).add_scalar(scale).detach().require_grad());
        BatchNorm { gamma, ..norm }
    }

    #[test]
    fn the_average_follows_the_closed_form_while_the_decay_warms_up() {
        for device in autodiff_devices() {
            let mut norm: BatchNorm = BatchNormConfig::new(1).init(&device);
            let config = EmaConfig { decay: 0.5 };
            let mut ema = Ema::new(config, &norm);
            let mut expected = 1.0_f64;
            for update in 1..=20_u64 {
                norm = scaled(norm, update as f64);
                ema.update(&norm);
                let decay = f64::min(0.5, (1.0 + update as f64) / (10.0 + update as f64));
                expected = decay * expected + (1.0 - decay) * update as f64;
                assert_close(&ema.average().gamma.val(), &[expected], tolerance::F32);
            }
            assert_eq!(config.decay_at(1), 2.0 / 11.0);
            assert_eq!(config.decay_at(1000), 0.5);
        }
    }

    #[test]
    fn updates_that_the_device_decides_are_those_of_the_host() {
        let _alone = alone();
        let plain = Device::flex();
        let device = plain.clone().autodiff();
        let mut norm: BatchNorm = BatchNormConfig::new(1).init(&device);
        let [mut by_host, mut by_device] =
            [(); 2].map(|()| Ema::new(EmaConfig { decay: 0.5 }, &norm));
        let pulls = by_device.pulls(20);
        let mut applied = 0;
        for update in 1..=20_u32 {
            norm = scaled(norm, f64::from(update) * 0.37);
            norm.forward(Tensor::<2>::from_floats([[1.0], [f64::from(update)]], &device));
            let is_applied = update % 3 != 0;
            let flag = Tensor::from_data([is_applied], &plain);
            let pull = Tensor::from_floats([pulls[applied]], &plain);
            by_device.update_if(&flag, &pull, &norm);
            if is_applied {
                by_host.update(&norm);
                applied += 1;
            }
            let [host, on_device] = [&by_host, &by_device].map(|ema| {
                let average = ema.average();
                let [gamma, mean] = [average.gamma.val(), average.running_mean.value()];
                [gamma.into_data(), mean.into_data()]
            });
            assert!(host == on_device, "update {update}");
        }
        by_device.count(applied as u64);
        assert_eq!(by_device.updates(), by_host.updates());
    }

    #[test]
    fn statistics_are_the_live_ones_bit_for_bit_and_neither_model_moves_the_other() {
        for device in autodiff_devices() {
            let norm: BatchNorm = BatchNormConfig::new(1).init(&device);
            let mut ema = Ema::new(EmaConfig { decay: 0.9 }, &norm);
            let input = Tensor::<2>::from_floats([[1.0], [5.0]], &device);
            for _ in 0..3 {
                norm.forward(input.clone());
                ema.update(&norm);
                let live = norm.valid();
                let pairs = [
                    (&live.running_mean, &ema.average().running_mean),
                    (&live.running_var, &ema.average().running_var),
                ];
                for (live, averaged) in pairs {
                    assert!(live.value().into_data() == averaged.value().into_data());
                }
            }
            let before = ema.average().running_mean.value().into_data();
            norm.forward(input);
            assert!(norm.valid().running_mean.value().into_data() != before);
            assert!(ema.average().running_mean.value().into_data() == before);
        }
    }
}
