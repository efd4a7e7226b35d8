//! The outputs of a run's model for its test data, and its gradients, to compare models.

use std::path::Path;

use burn::tensor::Device;
use updraft_precision::Policy;
use updraft_trainer::{
    BatchGradients, Evaluation, EvaluationPass, StepSettings, Task, Tensors, batch_gradients,
};

use super::evaluate::{load_as, load_to_train};
use super::evaluate_int8::Int8Task;
use super::training_device::in_recomputation;
use crate::config::{Plan, RecomputePlan};
use crate::error::RunError;
use crate::folder::RunFolder;
use crate::int8_network::Int8Network;
use crate::task::{StreamUse, Workload};

/// The form in which a trained model computes.
#[derive(Debug, Clone, Copy)]
pub enum ModelForm<'a> {
    /// As it is served: in the precision of its run.
    Served,
    /// In another precision.
    Precision(Policy),
    /// As the int8 network of its run.
    Int8(&'a Int8Network),
}

/// The outputs of a model for the test data, batch by batch.
pub trait TestOutputs {
    /// Computes the next batch; `None` after the last one.
    ///
    /// # Errors
    /// [`RunError::Stream`] for a batch that cannot be delivered.
    fn next_batch(&mut self) -> Result<Option<TestBatch>, RunError>;

    /// The metrics of the samples so far.
    fn evaluation(&self) -> Evaluation;
}

/// A batch of test data with the outputs of a model, on the host.
#[derive(Debug, Clone, PartialEq)]
pub struct TestBatch {
    /// Every number of the input.
    pub inputs: Vec<f64>,
    /// Every number of the output.
    pub outputs: Vec<f32>,
    /// The shapes of the tensors of the output.
    pub shapes: Vec<Vec<usize>>,
    /// The number of samples.
    pub samples: usize,
}

impl<M, T: Task<M>> TestOutputs for EvaluationPass<'_, M, T> {
    fn next_batch(&mut self) -> Result<Option<TestBatch>, RunError> {
        let batch = EvaluationPass::next_batch(self);
        let batch = batch.map_err(|cause| RunError::Stream { split: "test", cause })?;
        Ok(batch.map(|batch| TestBatch {
            inputs: batch.input.to_numbers(),
            shapes: batch.output.shapes(),
            outputs: batch.output.to_floats(),
            samples: batch.samples,
        }))
    }

    fn evaluation(&self) -> Evaluation {
        EvaluationPass::evaluation(self)
    }
}

pub(super) fn test_outputs<W: Workload>(
    workload: &W,
    (plan, folder): (&Plan, &RunFolder),
    form: ModelForm<'_>,
    device: &Device,
    receive: &mut dyn FnMut(&mut dyn TestOutputs) -> Result<(), RunError>,
) -> Result<(), RunError> {
    workload.check(folder)?;
    let test = workload.streams(plan, StreamUse::Reading)?.test;
    let policy = match form {
        ModelForm::Served => plan.precision,
        ModelForm::Precision(policy) => policy,
        ModelForm::Int8(network) => {
            let task = Int8Task::of(workload, plan, folder, device)?;
            // The network was calibrated on inputs in f32.
            let mut pass = EvaluationPass::new(&task, network, &*test, device, Policy::F32);
            return receive(&mut pass);
        }
    };
    let model = load_as(policy, workload.init(device), plan, folder)?;
    let decided = workload.decided(folder)?;
    let task = decided.as_ref().unwrap_or(workload.task());
    receive(&mut EvaluationPass::new(task, &model, &*test, device, policy))
}

pub(super) fn gradients<W: Workload>(
    workload: &W,
    (plan, folder): (&Plan, &RunFolder),
    recompute: RecomputePlan,
    device: &Device,
) -> Result<BatchGradients, RunError> {
    workload.check(folder)?;
    let device = in_recomputation(recompute, device.clone());
    let fresh = plan.precision.autocast(workload.init(&device));
    let model = load_to_train(fresh, plan, folder)?;
    first_gradients(workload, &model, (plan, recompute), &device)
}

/// The loss and the gradients of a model for the first training batch; `device` is the model's.
pub(super) fn first_gradients<W: Workload>(
    workload: &W,
    model: &W::Model,
    (plan, recompute): (&Plan, RecomputePlan),
    device: &Device,
) -> Result<BatchGradients, RunError> {
    let train = workload.streams(plan, StreamUse::Reading)?.train;
    let failed = |cause| RunError::Stream { split: "training", cause };
    let batch = train.epoch(0).next().transpose().map_err(failed)?;
    let batch = batch.ok_or_else(|| RunError::Unusable {
        reason: "the training data has no whole batch; set `train.batch` lower".to_owned(),
    })?;
    let placed = workload.task().place(batch, device).map_err(failed)?;
    let settings = StepSettings {
        in_segments: recompute == RecomputePlan::Segments,
        ..plan.run_settings(Path::new("")).step
    };
    device.seed(plan.seed);
    Ok(batch_gradients(workload.task(), model, placed, &settings, plan.seed)?)
}
