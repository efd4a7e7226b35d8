//! How many updates are read together, and why it may be one.

use std::fmt;

use burn::module::{Module, ModuleMapper, ModuleVisitor, Param};
use burn::optim::{GradientsParams, ModuleOptimizer, OptimizerRecord};
use burn::tensor::{FloatDType, Tensor};
use serde::Serialize;
use updraft_optim::{DeviceControl, controlled};

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

/// Whether an optimizer makes no update if the device decides so, tried on a model of the same
/// structure whose trained parameters are a number each: the copy takes no memory, and a parameter
/// that is not finite changes nothing. burn hides which optimizers it is made of.
fn follows_control<M: Module>(optimizer: &ModuleOptimizer, model: &M) -> bool {
    let mut ones = Ones { gradients: GradientsParams::new(), number: None };
    let small = model.clone().map(&mut ones);
    let Ones { gradients, number: Some(number) } = ones else { return true };
    let is_applied = number.zeros_like();
    let control = DeviceControl { factor: number.clone(), is_applied, applied: number };
    // Without its state, which has the shapes of the model.
    let mut copy = optimizer.clone().load_record(OptimizerRecord::default());
    let moved = controlled(&control, || copy.step(1.0, small, gradients));
    let mut changes = Changes(Vec::new());
    moved.visit(&mut changes);
    read(changes.0).into_iter().flatten().all(|changed| changed == 0.0)
}

/// Replaces each parameter that is trained by the number 1, with a gradient of 1.
struct Ones {
    gradients: GradientsParams,
    /// 1 on the device, `[1]`.
    number: Option<Tensor<1>>,
}

impl ModuleMapper for Ones {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let (id, value, mapper) = param.consume();
        if !value.is_require_grad() {
            return Param::from_mapped_value(id, value, mapper);
        }
        let device = value.device();
        let inner = device.clone().without_autodiff();
        let one = || Tensor::<1>::ones([1], &inner).cast(FloatDType::F32);
        self.number.get_or_insert_with(one);
        let dtype: FloatDType = value.dtype().into();
        self.gradients.register(id, Tensor::<D>::ones([1; D], &inner).cast(dtype));
        let value = Tensor::<D>::ones([1; D], &device).cast(dtype).require_grad();
        Param::from_mapped_value(id, value, mapper)
    }
}

/// Whether each trained parameter differs from 1, as 1 or 0.
struct Changes(Vec<Tensor<1>>);

impl ModuleVisitor for Changes {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let value = param.base();
        if value.is_require_grad() {
            let is_changed = value.without_autodiff().not_equal_scalar(1.0).any();
            self.0.push(is_changed.float().cast(FloatDType::F32));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use burn::nn::{Linear, LinearConfig};
    use burn::optim::{AdamConfig, Optimizer, SgdConfig};
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

    #[test]
    fn a_parameter_that_is_not_finite_does_not_hide_what_an_optimizer_follows() {
        let _alone = alone();
        let device = Device::flex().autodiff();
        for value in [f32::NAN, f32::INFINITY] {
            let model: Linear = LinearConfig::new(2, 3).init(&device);
            let weight = model.weight.map(|w| (w.mul_scalar(0.0) + value).detach().require_grad());
            let model = Linear { weight, bias: model.bias };
            let adamw = OptimizerConfig::Adamw { weight_decay: 0.01, betas: [0.9, 0.999] };
            assert!(follows_control(&adamw.init(), &model), "{value}");
            assert!(!follows_control(&SgdConfig::new().init(), &model), "{value}");
        }
    }

    #[test]
    fn an_optimizer_with_state_is_tried_and_keeps_it() {
        let _alone = alone();
        let device = Device::flex().autodiff();
        let model: Linear = LinearConfig::new(2, 3).init(&device);
        let step = |optimizer: &mut ModuleOptimizer, model: Linear| {
            let loss = model.forward(Tensor::<2>::ones([4, 2], &device)).sum();
            let gradients = GradientsParams::from_grads(loss.backward(), &model);
            optimizer.step(0.1, model, gradients)
        };
        let adamw = OptimizerConfig::Adamw { weight_decay: 0.01, betas: [0.9, 0.999] };
        for (mut optimizer, expected) in [(adamw.init(), true), (AdamConfig::new().init(), false)] {
            let model = step(&mut optimizer, model.clone());
            let state = |optimizer: &ModuleOptimizer| {
                optimizer.to_record().into_bytes().expect("a small record").to_vec()
            };
            let before = state(&optimizer);
            assert_eq!(follows_control(&optimizer, &model), expected);
            assert_eq!(state(&optimizer), before);
            // The shapes of its state are those of the model still.
            let _ = step(&mut optimizer, model);
        }
    }

    /// Gradient descent that notes how many numbers a step changes.
    #[derive(Clone, Default)]
    struct Noting(Arc<Mutex<Vec<usize>>>);

    impl Optimizer for Noting {
        type State<const D: usize> = updraft_optim::SgdState<D>;

        fn step<const D: usize>(
            &self,
            learning_rate: f64,
            parameter: Tensor<D>,
            gradient: Tensor<D>,
            state: Option<Self::State<D>>,
        ) -> (Tensor<D>, Option<Self::State<D>>) {
            let numbers = parameter.shape().num_elements() + gradient.shape().num_elements();
            self.0.lock().expect("no test panicked with it").push(numbers);
            (parameter - gradient.mul_scalar(learning_rate), state)
        }

        fn to_device<const D: usize>(state: Self::State<D>, _: &Device) -> Self::State<D> {
            state
        }
    }

    #[test]
    fn the_trial_takes_one_number_of_each_parameter() {
        let _alone = alone();
        let model: Linear = LinearConfig::new(200, 300).init(&Device::flex().autodiff());
        let noting = Noting::default();
        assert!(!follows_control(&ModuleOptimizer::from(noting.clone()), &model));
        let numbers = noting.0.lock().expect("no test panicked with it").clone();
        assert_eq!(numbers, [2, 2], "a parameter and its gradient are a number each");
    }
}
