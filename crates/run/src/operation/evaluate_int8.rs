//! Evaluating the int8 network of a run.

use burn::tensor::{Device, Tensor};
use updraft_distributed::Collective;
use updraft_precision::Policy;
use updraft_trainer::{
    Control, Evaluation, Losses, MetricSpec, StepContext, StreamError, Task, evaluate_on_ranks,
};

use super::evaluate::{load_stored, not_finite};
use crate::config::Plan;
use crate::error::RunError;
use crate::folder::RunFolder;
use crate::int8_network::Int8Network;
use crate::task::{Ability, BatchOf, Int8Forward, StreamUse, Workload};

pub(super) fn evaluate_int8<W: Workload>(
    workload: &W,
    plan: &Plan,
    (folder, network): (&RunFolder, &Int8Network),
    (device, collective): (&Device, &mut dyn Collective),
    poll: &mut dyn FnMut(usize) -> Control,
) -> Result<Option<Evaluation>, RunError> {
    workload.check(folder)?;
    let task = Int8Task::of(workload, plan, folder, device)?;
    let test = workload.streams(plan, StreamUse::Reading)?.test;
    // The network was calibrated on inputs in f32.
    let on = (device, Policy::F32);
    let score = evaluate_on_ranks(&task, network, &*test, on, collective, poll)?;
    match score {
        Some(score) if !score.evaluation.loss().is_finite() => {
            Err(not_finite(folder, "the loss".to_owned()))
        }
        score => Ok(score.map(|score| score.evaluation)),
    }
}

/// The task of a workload, with an int8 network instead of its model.
pub(super) struct Int8Task<'a, W: Workload> {
    workload: &'a W,
    /// The task with what was decided after training, if anything was.
    decided: Option<W::Task>,
    forward: Int8Forward<W>,
    /// The run's model in f32, if a part of it is computed.
    model: Option<W::Model>,
}

impl<'a, W: Workload> Int8Task<'a, W> {
    pub(super) fn of(
        workload: &'a W,
        plan: &Plan,
        folder: &RunFolder,
        device: &Device,
    ) -> Result<Self, RunError> {
        let forward = workload.int8_forward();
        let forward = forward.map_err(|reason| plan.kind().refused(Ability::Int8, reason))?;
        let model = match forward {
            Int8Forward::Whole(_) => None,
            Int8Forward::Behind(_) => Some(load_stored(workload.init(device), plan, folder)?),
        };
        Ok(Self { workload, decided: workload.decided(folder)?, forward, model })
    }

    fn task(&self) -> &W::Task {
        self.decided.as_ref().unwrap_or_else(|| self.workload.task())
    }
}

type TaskOf<W> = <W as Workload>::Task;
type InputOf<W> = <TaskOf<W> as Task<<W as Workload>::Model>>::Input;
type TargetOf<W> = <TaskOf<W> as Task<<W as Workload>::Model>>::Target;
type OutputOf<W> = <TaskOf<W> as Task<<W as Workload>::Model>>::Output;
type ScoreOf<W> = <TaskOf<W> as Task<<W as Workload>::Model>>::Score;

impl<W: Workload> Task<Int8Network> for Int8Task<'_, W> {
    type Batch = BatchOf<W>;
    type Input = InputOf<W>;
    type Target = TargetOf<W>;
    type Output = OutputOf<W>;
    type Score = ScoreOf<W>;

    fn place(
        &self,
        batch: BatchOf<W>,
        device: &Device,
    ) -> Result<(InputOf<W>, TargetOf<W>), StreamError> {
        self.task().place(batch, device)
    }

    fn forward(&self, network: &Int8Network, input: InputOf<W>, _: &StepContext) -> OutputOf<W> {
        match (&self.forward, &self.model) {
            (Int8Forward::Whole(forward), _) => forward(network, input),
            (Int8Forward::Behind(forward), Some(model)) => forward(model, network, input),
            (Int8Forward::Behind(_), None) => unreachable!("the model was loaded"),
        }
    }

    fn loss(&self, output: &OutputOf<W>, target: &TargetOf<W>) -> Losses {
        self.task().loss(output, target)
    }

    fn samples(&self, target: &TargetOf<W>) -> usize {
        self.task().samples(target)
    }

    fn example(&self, batch: usize, device: &Device) -> (InputOf<W>, TargetOf<W>) {
        self.task().example(batch, device)
    }

    fn parts(&self) -> Vec<String> {
        self.task().parts()
    }

    fn metrics(&self) -> Vec<MetricSpec> {
        self.task().metrics()
    }

    fn measure(&self, output: &OutputOf<W>, target: &TargetOf<W>) -> Option<Tensor<1>> {
        self.task().measure(output, target)
    }

    fn values(&self, score: &ScoreOf<W>) -> Vec<Option<f64>> {
        self.task().values(score)
    }
}
