//! Evaluating the int8 network of a run.

use burn::tensor::{Device, Tensor};
use updraft_distributed::Collective;
use updraft_precision::Policy;
use updraft_trainer::{
    Control, Evaluation, Losses, MetricSpec, StepContext, StreamError, Task, evaluate_on_ranks,
};

use super::evaluate::not_finite;
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
    let task = Int8Task::of(workload, plan)?;
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
    forward: Int8Forward<W>,
}

impl<'a, W: Workload> Int8Task<'a, W> {
    pub(super) fn of(workload: &'a W, plan: &Plan) -> Result<Self, RunError> {
        let forward = workload.int8_forward();
        let forward = forward.map_err(|reason| plan.kind().refused(Ability::Int8, reason))?;
        Ok(Self { workload, forward })
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
        self.workload.task().place(batch, device)
    }

    fn forward(&self, network: &Int8Network, input: InputOf<W>, _: &StepContext) -> OutputOf<W> {
        (self.forward)(network, input)
    }

    fn loss(&self, output: &OutputOf<W>, target: &TargetOf<W>) -> Losses {
        self.workload.task().loss(output, target)
    }

    fn samples(&self, target: &TargetOf<W>) -> usize {
        self.workload.task().samples(target)
    }

    fn example(&self, batch: usize, device: &Device) -> (InputOf<W>, TargetOf<W>) {
        self.workload.task().example(batch, device)
    }

    fn parts(&self) -> Vec<String> {
        self.workload.task().parts()
    }

    fn metrics(&self) -> Vec<MetricSpec> {
        self.workload.task().metrics()
    }

    fn measure(&self, output: &OutputOf<W>, target: &TargetOf<W>) -> Option<Tensor<1>> {
        self.workload.task().measure(output, target)
    }

    fn values(&self, score: &ScoreOf<W>) -> Vec<Option<f64>> {
        self.workload.task().values(score)
    }
}
