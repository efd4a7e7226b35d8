//! How many updates are read together, and why it may be one.

use std::fmt;

use burn::module::{Module, ModuleVisitor, Param};
use burn::optim::{GradientsParams, ModuleOptimizer};
use burn::tensor::{FloatDType, Tensor};
use serde::Serialize;
use updraft_optim::{DeviceControl, controlled};

use crate::buffers::tensors;
use crate::decisions::are_needed;
use crate::device_read::read;
use crate::epoch::Watch;
use crate::events::Event;
use crate::ranks::Ranks;
use crate::run::Run;
use crate::settings::RunSettings;

/// Why the device is read after each update, although
/// [`RunSettings::read_every`](crate::RunSettings::read_every) is more than 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum ReadEachReason {
    /// Several ranks exchange the numbers of each update.
    SeveralRanks,
    /// With clipping, a loss scale or skipped updates the device has to decide about an update, and
    /// the optimizer makes it in any case: burn's own optimizers do, those of `updraft-optim` do
    /// not.
    Optimizer,
}

impl fmt::Display for ReadEachReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::SeveralRanks => "several ranks exchange the numbers of each update",
            Self::Optimizer => {
                "with clipping, a loss scale or skipped updates, this optimizer needs the numbers \
                 of an update before it is made; use adamw or sgd"
            }
        })
    }
}

/// When the numbers of updates are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ReadInterval {
    /// The number of updates that are read together.
    pub(crate) updates: u64,
    /// Whether the device decides about each of them.
    pub(crate) decides: bool,
}

impl<M: Module> Run<M> {
    /// When the numbers of this run's updates are read; reports why that is after each of them
    /// although the settings ask for more.
    ///
    /// Reads the device if it would have to decide about updates.
    pub(crate) fn read_interval(
        &self,
        settings: &RunSettings,
        ranks: &Ranks,
        watch: Watch<'_, M>,
    ) -> ReadInterval {
        let each = ReadInterval { updates: 1, decides: false };
        if settings.read_every == 1 {
            return each;
        }
        let decides = are_needed(settings);
        let reason = if !ranks.is_alone() {
            Some(ReadEachReason::SeveralRanks)
        } else if decides && !follows_control(&self.optimizer.0, &self.model) {
            Some(ReadEachReason::Optimizer)
        } else {
            None
        };
        match reason {
            Some(reason) => {
                watch(&Event::ReadEach { reason }, &self.model);
                each
            }
            None => ReadInterval { updates: settings.read_every, decides },
        }
    }
}

/// Whether an optimizer makes no update if the device decides so, tried on a copy of both. burn
/// hides which optimizers it is made of.
fn follows_control<M: Module>(optimizer: &ModuleOptimizer, model: &M) -> bool {
    let mut ones = Ones { gradients: GradientsParams::new(), number: None };
    model.visit(&mut ones);
    let Ones { gradients, number: Some(number) } = ones else { return true };
    let is_applied = number.zeros_like();
    let control = DeviceControl { factor: number.clone(), is_applied, applied: number };
    let mut copy = optimizer.clone();
    let moved = controlled(&control, || copy.step(1.0, model.clone(), gradients));
    let mut changes = Changes { before: tensors(model), found: Vec::new() };
    moved.visit(&mut changes);
    read(changes.found).into_iter().flatten().all(|changed| changed == 0.0)
}

/// A gradient of ones for each parameter that is trained.
struct Ones {
    gradients: GradientsParams,
    /// 1 on the device, `[1]`.
    number: Option<Tensor<1>>,
}

impl ModuleVisitor for Ones {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let value = param.base();
        if value.is_require_grad() {
            let value = value.without_autodiff();
            let one = || Tensor::<1>::ones([1], &value.device()).cast(FloatDType::F32);
            self.number.get_or_insert_with(one);
            self.gradients.register(param.id, value.ones_like());
        }
    }
}

/// Whether each tensor differs from the one before, as 1 or 0.
struct Changes {
    before: GradientsParams,
    found: Vec<Tensor<1>>,
}

impl ModuleVisitor for Changes {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let Some(before) = self.before.remove::<D>(param.id) else { return };
        let (before, after) = (before.without_autodiff(), param.base().without_autodiff());
        let is_changed = before.not_equal(after).any();
        self.found.push(is_changed.float().cast(FloatDType::F32));
    }
}

#[cfg(test)]
mod tests {
    use burn::nn::LinearConfig;
    use burn::optim::{AdamConfig, SgdConfig};
    use burn::tensor::Device;
    use updraft_testing::alone;

    use super::*;
    use crate::OptimizerConfig;

    #[test]
    fn our_optimizers_follow_the_device_and_those_of_burn_do_not() {
        let _alone = alone();
        let device = Device::flex().autodiff();
        let model = LinearConfig::new(2, 3).init(&device);
        let numbers = || -> Vec<f32> { model.weight.val().into_data().iter().collect() };
        let before = numbers();
        let adamw = OptimizerConfig::Adamw { weight_decay: 0.01, betas: [0.9, 0.999] };
        let sgd = |norm_bias_factor| OptimizerConfig::Sgd {
            momentum: 0.9,
            weight_decay: 0.01,
            norm_bias_factor,
        };
        for optimizer in [adamw, sgd(1.0), sgd(64.0)] {
            assert!(follows_control(&optimizer.init(), &model), "{optimizer:?}");
        }
        for optimizer in [AdamConfig::new().init(), SgdConfig::new().init()] {
            assert!(!follows_control(&optimizer, &model));
        }
        // One group of two is enough.
        let biases = burn::module::ParamGroup::from_regex("bias").expect("a pattern");
        let mixed = adamw.init().with_group(biases, SgdConfig::new().build(), None);
        assert!(!follows_control(&mixed, &model));
        assert_eq!(numbers(), before, "only copies are updated");
    }
}
