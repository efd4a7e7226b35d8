//! The outputs and the gradients of a model before its training, to compare ways to compute them.

use burn::module::{Module, ModuleVisitor, Param};
use burn::tensor::{Device, FloatDType, Tensor};
use updraft_trainer::{BatchGradients, EvaluationPass, count_statistics};

use super::new_model::new_model;
use super::outputs::{TestOutputs, first_gradients};
use super::training_device::training_device;
use crate::config::Plan;
use crate::error::RunError;
use crate::task::{StreamUse, Workload};

/// The model with which a run of a plan begins, with autodiff.
pub(super) fn initial_model<W: Workload>(
    workload: &W,
    plan: &Plan,
    device: &Device,
) -> Result<Box<W::Model>, RunError> {
    let device = training_device(plan, device.clone());
    device.seed(plan.seed);
    new_model(workload, plan, &device, false)
}

pub(super) fn initial_outputs<W: Workload>(
    workload: &W,
    plan: &Plan,
    device: &Device,
    receive: &mut dyn FnMut(&mut dyn TestOutputs) -> Result<(), RunError>,
) -> Result<(), RunError> {
    let test = workload.streams(plan, StreamUse::Reading)?.test;
    let model = initial_model(workload, plan, device)?.valid();
    receive(&mut EvaluationPass::new(workload.task(), &model, &*test, device, plan.precision))
}

pub(super) fn initial_gradients<W: Workload>(
    workload: &W,
    plan: &Plan,
    device: &Device,
) -> Result<BatchGradients, RunError> {
    let model = initial_model(workload, plan, device)?;
    let device = training_device(plan, device.clone());
    first_gradients(workload, &model, (plan, plan.train.recompute), &device)
}

pub(super) fn initial_parameters<W: Workload>(
    workload: &W,
    plan: &Plan,
    device: &Device,
) -> Result<Vec<f32>, RunError> {
    let mut read = Read(Vec::new());
    initial_model(workload, plan, device)?.visit(&mut read);
    Ok(read.0)
}

pub(super) fn initial_statistics<W: Workload>(
    workload: &W,
    plan: &Plan,
    device: &Device,
) -> Result<usize, RunError> {
    Ok(count_statistics(&*initial_model(workload, plan, device)?))
}

/// Collects parameters and statistics.
struct Read(Vec<f32>);

impl ModuleVisitor for Read {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        self.0.extend(param.val().cast(FloatDType::F32).into_data().iter::<f32>());
    }
}
