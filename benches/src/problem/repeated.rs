//! A training step and a forward pass of any network, repeated, and the reference of a step.

use anyhow::Result;
use burn::module::{Module, ModuleMapper, Param};
use burn::optim::{GradientsParams, ModuleOptimizer};
use burn::tensor::{Device, FloatDType, Tensor};
use updraft_trainer::{OptimizerConfig, StepAt, StepSettings, Task, train_step};

use crate::problem::optimizer::{LEARNING_RATE, WEIGHT_DECAY};
use crate::problem::{Outputs, Repeat, numbers};

/// The optimizer of all training steps.
pub(crate) fn adamw() -> ModuleOptimizer {
    OptimizerConfig::Adamw { weight_decay: WEIGHT_DECAY, betas: [0.9, 0.999] }.init()
}

/// The losses of a network's first steps, by burn's own operations: the reference of [`Steps`].
pub(crate) fn reference_losses<M: Module>(
    mut model: M,
    steps: usize,
    loss: impl Fn(&M) -> Tensor<1>,
) -> Outputs {
    let mut optimizer = adamw();
    let mut losses = Vec::new();
    for _ in 0..steps {
        let loss = loss(&model);
        losses.extend(numbers(loss.clone().inner()));
        let gradients = GradientsParams::from_grads(loss.backward(), &model);
        model = optimizer.step(LEARNING_RATE, model, gradients);
    }
    Outputs::from([("losses".to_owned(), losses)])
}

/// Every parameter in f64.
pub(crate) struct ToF64;

impl ModuleMapper for ToF64 {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let (id, tensor, mapper) = param.consume();
        let trains = tensor.is_require_grad();
        let tensor = tensor.cast(FloatDType::F64).detach().set_require_grad(trains);
        Param::from_mapped_value(id, tensor, mapper)
    }
}

/// Training steps on one batch; the proof is the losses of the first steps, and the last of them
/// depend on every gradient before.
pub(crate) struct Steps<M: Module, T: Task<M>> {
    task: T,
    model: Option<M>,
    optimizer: ModuleOptimizer,
    batch: (T::Input, T::Target),
    settings: StepSettings,
    device: Device,
    step: u64,
    proved: usize,
}

impl<M: Module, T: Task<M>> Steps<M, T> {
    /// Steps of a model on a batch on its device; a proof makes `proved` of them.
    pub(crate) fn new(
        task: T,
        model: M,
        batch: (T::Input, T::Target),
        settings: StepSettings,
        device: Device,
        proved: usize,
    ) -> Self {
        let optimizer = adamw();
        Self { task, model: Some(model), optimizer, batch, settings, device, step: 0, proved }
    }
}

impl<M: Module, T: Task<M>> Steps<M, T>
where
    T::Input: Clone,
    T::Target: Clone,
{
    fn step(&mut self) -> Result<f64> {
        let model = self.model.take().expect("a step gives the model back");
        let at = StepAt { epoch: 0, step: self.step, learning_rate: LEARNING_RATE, seed: 0 };
        let batch = self.batch.clone();
        let (model, outcome) =
            train_step(&self.task, model, &mut self.optimizer, batch, &self.settings, at)?;
        self.step += 1;
        self.model = Some(model);
        Ok(outcome.loss)
    }
}

impl<M: Module, T: Task<M>> Repeat for Steps<M, T>
where
    T::Input: Clone,
    T::Target: Clone,
{
    fn once(&mut self) -> Result<()> {
        self.step()?;
        self.device.sync()?;
        Ok(())
    }

    fn outputs(&mut self) -> Result<Outputs> {
        let losses = (0..self.proved).map(|_| self.step()).collect::<Result<_>>()?;
        Ok(Outputs::from([("losses".to_owned(), losses)]))
    }
}

/// Forward passes without a graph.
pub(crate) struct Inference<const D: usize> {
    pub(crate) forward: Box<dyn Fn() -> Tensor<D>>,
    pub(crate) device: Device,
}

impl<const D: usize> Repeat for Inference<D> {
    fn once(&mut self) -> Result<()> {
        std::hint::black_box((self.forward)());
        self.device.sync()?;
        Ok(())
    }

    fn outputs(&mut self) -> Result<Outputs> {
        Ok(Outputs::from([("y".to_owned(), numbers((self.forward)()))]))
    }
}
