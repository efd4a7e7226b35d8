//! Operations on a workload of any task.

use std::time::Duration;

use burn::tensor::Device;
use updraft_data::Views;
use updraft_distributed::Alone;
use updraft_trainer::{BatchGradients, Control, Evaluation, LrPoint};

use super::check_start::check_start;
use super::data_digest::data_digest;
use super::evaluate::{evaluate, trace_evaluation};
use super::evaluate_on_ranks::{RankEvaluation, evaluate_on_ranks};
use super::examples::{refusal, rehearse};
use super::initial::{initial_gradients, initial_outputs, initial_parameters, initial_statistics};
use super::kernels::{KernelChoice, kernels};
use super::lr_search::{LrSearch, find_rate};
use super::outputs::{ModelForm, TestOutputs, gradients, test_outputs};
use super::products::multiplies_bf16;
use super::timing::{Timed, TimedWork, time_work};
use super::train::{Observer, Trained, Training, train};
use super::verify::{CheckResult, VerifyInputs, verify};
use crate::config::{Plan, RecomputePlan};
use crate::error::RunError;
use crate::folder::RunFolder;
use crate::task::{Ability, About, Quantizable, Workload};

/// A type-erased [`Workload`], as returned by [`TaskPlan::open`](crate::TaskPlan::open);
/// implemented for all workloads.
pub trait AnyWorkload {
    /// A description of model and data.
    fn about(&self) -> About;

    /// The parts of the model that depend on the data; see [`Workload::signature`].
    fn signature(&self) -> serde_json::Value;

    /// Checks that the data is that of a run.
    ///
    /// # Errors
    /// As [`Workload::check`].
    fn check(&self, folder: &RunFolder) -> Result<(), RunError>;

    /// Checks what [`train`](Self::train) refuses at its start: too few samples, unsupported settings.
    ///
    /// # Errors
    /// [`RunError::Config`] with the key, [`RunError::NotForTask`].
    fn check_start(&self, plan: &Plan, device: &Device) -> Result<(), RunError>;

    /// SHA-256 of the samples without the contents of [`data_files`](crate::TaskPlan::data_files).
    ///
    /// # Errors
    /// As [`Workload::streams`].
    fn data_digest(&self, plan: &Plan) -> Result<String, RunError>;

    /// Trains a new run, or continues a stopped one from its newest checkpoint.
    ///
    /// # Errors
    /// [`RunError::Train`] for training that failed, [`RunError::Record`] if the run could not be
    /// recorded, [`RunError::LostLock`] and [`RunError::Io`] if its folder is lost or cannot be
    /// written, and errors of opening data and checkpoints. Checkpoints already on disk stay.
    fn train(
        &self,
        training: Training<'_>,
        observer: &mut dyn Observer,
    ) -> Result<Trained, RunError>;

    /// Evaluates a run's model on the test data; `None` if `poll`, called with the number of
    /// samples so far, stops it.
    ///
    /// # Errors
    /// [`RunError`] for a run with damaged files or other data.
    fn evaluate(
        &self,
        plan: &Plan,
        folder: &RunFolder,
        device: &Device,
        poll: &mut dyn FnMut(usize) -> Control,
    ) -> Result<Option<Evaluation>, RunError>;

    /// As [`evaluate`](Self::evaluate), and traces the first `steps` batches into the run's folder:
    /// `trace-eval.json` for Chrome and Perfetto, and
    /// [`LayerTimes::OF_EVALUATION`](crate::LayerTimes::OF_EVALUATION).
    ///
    /// # Errors
    /// As [`evaluate`](Self::evaluate), and [`RunError::Io`] if the folder cannot be written.
    fn trace_evaluation(
        &self,
        plan: &Plan,
        folder: &RunFolder,
        steps: u64,
        device: &Device,
        poll: &mut dyn FnMut(usize) -> Control,
    ) -> Result<Option<Evaluation>, RunError>;

    /// As [`evaluate`](Self::evaluate), of any form of the model, with the batches divided among
    /// ranks: every rank returns the result of one rank, bit for bit, if all compute on the same
    /// kind of device. [`Alone`] is the only rank.
    ///
    /// A rank that stops or fails returns at once; end the others.
    ///
    /// # Errors
    /// As [`evaluate`](Self::evaluate), [`RunError::NotForTask`] for a workload without
    /// [`Workload::averaged`] or [`Workload::int8_forward`], and [`RunError::Train`] if a rank is
    /// lost or has another program, model or other data.
    fn evaluate_on_ranks(
        &self,
        evaluation: RankEvaluation<'_>,
        poll: &mut dyn FnMut(usize) -> Control,
    ) -> Result<Option<Evaluation>, RunError>;

    /// Runs a form of a run's model on the test data, and hands its outputs to `receive`, batch by
    /// batch: two models that are opened one inside the other run side by side.
    ///
    /// # Errors
    /// As [`evaluate`](Self::evaluate), for [`ModelForm::Int8`] as
    /// [`evaluate_on_ranks`](Self::evaluate_on_ranks), and those of `receive`.
    fn test_outputs(
        &self,
        plan: &Plan,
        folder: &RunFolder,
        form: ModelForm<'_>,
        device: &Device,
        receive: &mut dyn FnMut(&mut dyn TestOutputs) -> Result<(), RunError>,
    ) -> Result<(), RunError>;

    /// The loss and the gradients of a run's model for the first training batch, computed as
    /// `recompute` says instead of the plan.
    ///
    /// # Errors
    /// [`RunError`] for a run with damaged files or other data, and for a task without segments.
    fn gradients(
        &self,
        plan: &Plan,
        folder: &RunFolder,
        recompute: RecomputePlan,
        device: &Device,
    ) -> Result<BatchGradients, RunError>;

    /// Trains or evaluates a new model and times so many steps; nothing is written.
    ///
    /// The batches of these steps are read once before, so that a cache has what it has in the
    /// later epochs of a run. A step that is done only once an epoch, such as an evaluation, is not
    /// part of it.
    ///
    /// # Errors
    /// [`RunError::Stream`], [`RunError::Train`], and [`RunError::Unusable`] for data without a
    /// whole batch.
    fn time_work(
        &self,
        plan: &Plan,
        work: TimedWork,
        steps: usize,
        device: &Device,
    ) -> Result<Timed, RunError>;

    /// As [`test_outputs`](Self::test_outputs), of the model with which a run of the plan begins.
    ///
    /// # Errors
    /// [`RunError::Stream`], and those of `receive`.
    fn initial_outputs(
        &self,
        plan: &Plan,
        device: &Device,
        receive: &mut dyn FnMut(&mut dyn TestOutputs) -> Result<(), RunError>,
    ) -> Result<(), RunError>;

    /// The loss and the gradients of the model with which a run of the plan begins, for the first
    /// training batch.
    ///
    /// # Errors
    /// [`RunError::Stream`], [`RunError::Train`], and [`RunError::Unusable`] for data without a
    /// whole batch.
    fn initial_gradients(&self, plan: &Plan, device: &Device) -> Result<BatchGradients, RunError>;

    /// Every number of the model with which a run of the plan begins, in f32.
    ///
    /// # Errors
    /// [`RunError::Stream`] or [`RunError::Data`] for a model that is computed from data.
    fn initial_parameters(&self, plan: &Plan, device: &Device) -> Result<Vec<f32>, RunError>;

    /// The numbers of all running statistics of the model with which a run of the plan begins.
    ///
    /// # Errors
    /// As [`initial_parameters`](Self::initial_parameters).
    fn initial_statistics(&self, plan: &Plan, device: &Device) -> Result<usize, RunError>;

    /// Runs a learning-rate range test on a fresh model; `None` if `search.poll` stopped it before
    /// the first update.
    ///
    /// # Errors
    /// [`RunError::Train`].
    fn find_learning_rate(
        &self,
        plan: &Plan,
        device: &Device,
        search: LrSearch<'_>,
    ) -> Result<Option<Vec<LrPoint>>, RunError>;

    /// Trains two steps of the plan's model on example data; returns the time of each.
    ///
    /// # Errors
    /// [`RunError::Train`].
    fn rehearse(
        &self,
        plan: &Plan,
        device: &Device,
        batch: usize,
    ) -> Result<[Duration; 2], RunError>;

    /// The algorithm of each convolution of the model for a training batch, in the order of a
    /// forward pass on example data; empty if burn's own operations compute them.
    fn kernels(&self, plan: &Plan, device: &Device) -> Vec<KernelChoice>;

    /// Whether products of bf16 change what the model computes, for the precision `bf16-products`;
    /// also true if that cannot be found out.
    fn multiplies_bf16(&self, device: &Device) -> bool;

    /// Checks the parts that a training run depends on, with one [`CheckResult`] each; a part that
    /// fails is a result, not an error.
    ///
    /// # Errors
    /// [`RunError::Stopped`], or an error of opening the streams.
    fn verify(&self, inputs: &VerifyInputs<'_>) -> Result<Vec<CheckResult>, RunError>;

    /// Loads the trained model of a run, in f32, to quantize it with this data, which must be the
    /// run's.
    ///
    /// # Errors
    /// As [`Workload::check`] and [`Workload::into_quantizable`].
    fn into_quantizable(
        self: Box<Self>,
        plan: &Plan,
        folder: &RunFolder,
        device: &Device,
    ) -> Result<Box<dyn Quantizable>, RunError>;

    /// The reason why the workload does not support a setting; `None` if it does.
    fn refusal(&self, setting: Ability, device: &Device) -> Option<&'static str>;
}

impl<W: Workload> AnyWorkload for W {
    fn about(&self) -> About {
        Workload::about(self)
    }

    fn signature(&self) -> serde_json::Value {
        Workload::signature(self)
    }

    fn check(&self, folder: &RunFolder) -> Result<(), RunError> {
        Workload::check(self, folder)
    }

    fn train(
        &self,
        training: Training<'_>,
        observer: &mut dyn Observer,
    ) -> Result<Trained, RunError> {
        train(self, training, observer)
    }

    fn evaluate(
        &self,
        plan: &Plan,
        folder: &RunFolder,
        device: &Device,
        poll: &mut dyn FnMut(usize) -> Control,
    ) -> Result<Option<Evaluation>, RunError> {
        evaluate(self, plan, (folder, None), (device, &mut Alone), poll)
    }

    fn trace_evaluation(
        &self,
        plan: &Plan,
        folder: &RunFolder,
        steps: u64,
        device: &Device,
        poll: &mut dyn FnMut(usize) -> Control,
    ) -> Result<Option<Evaluation>, RunError> {
        trace_evaluation(self, (plan, folder), steps, device, poll)
    }

    fn evaluate_on_ranks(
        &self,
        evaluation: RankEvaluation<'_>,
        poll: &mut dyn FnMut(usize) -> Control,
    ) -> Result<Option<Evaluation>, RunError> {
        evaluate_on_ranks(self, evaluation, poll)
    }

    fn test_outputs(
        &self,
        plan: &Plan,
        folder: &RunFolder,
        form: ModelForm<'_>,
        device: &Device,
        receive: &mut dyn FnMut(&mut dyn TestOutputs) -> Result<(), RunError>,
    ) -> Result<(), RunError> {
        test_outputs(self, (plan, folder), form, device, receive)
    }

    fn gradients(
        &self,
        plan: &Plan,
        folder: &RunFolder,
        recompute: RecomputePlan,
        device: &Device,
    ) -> Result<BatchGradients, RunError> {
        gradients(self, (plan, folder), recompute, device)
    }

    fn time_work(
        &self,
        plan: &Plan,
        work: TimedWork,
        steps: usize,
        device: &Device,
    ) -> Result<Timed, RunError> {
        time_work(self, plan, (work, steps), device)
    }

    fn initial_outputs(
        &self,
        plan: &Plan,
        device: &Device,
        receive: &mut dyn FnMut(&mut dyn TestOutputs) -> Result<(), RunError>,
    ) -> Result<(), RunError> {
        initial_outputs(self, plan, device, receive)
    }

    fn initial_gradients(&self, plan: &Plan, device: &Device) -> Result<BatchGradients, RunError> {
        initial_gradients(self, plan, device)
    }

    fn initial_parameters(&self, plan: &Plan, device: &Device) -> Result<Vec<f32>, RunError> {
        initial_parameters(self, plan, device)
    }

    fn initial_statistics(&self, plan: &Plan, device: &Device) -> Result<usize, RunError> {
        initial_statistics(self, plan, device)
    }

    fn find_learning_rate(
        &self,
        plan: &Plan,
        device: &Device,
        search: LrSearch<'_>,
    ) -> Result<Option<Vec<LrPoint>>, RunError> {
        find_rate(self, plan, device, search)
    }

    fn rehearse(
        &self,
        plan: &Plan,
        device: &Device,
        batch: usize,
    ) -> Result<[Duration; 2], RunError> {
        rehearse(self.task(), |device| self.init(device), plan, device, batch)
    }

    fn kernels(&self, plan: &Plan, device: &Device) -> Vec<KernelChoice> {
        kernels(self, plan, device)
    }

    fn multiplies_bf16(&self, device: &Device) -> bool {
        multiplies_bf16(self, device)
    }

    fn verify(&self, inputs: &VerifyInputs<'_>) -> Result<Vec<CheckResult>, RunError> {
        verify(self, inputs)
    }

    fn into_quantizable(
        self: Box<Self>,
        plan: &Plan,
        folder: &RunFolder,
        device: &Device,
    ) -> Result<Box<dyn Quantizable>, RunError> {
        Workload::check(&*self, folder)?;
        Workload::into_quantizable(*self, plan, folder, device)
    }

    fn check_start(&self, plan: &Plan, device: &Device) -> Result<(), RunError> {
        check_start(self, plan, device)
    }

    fn data_digest(&self, plan: &Plan) -> Result<String, RunError> {
        data_digest(self, plan)
    }

    fn refusal(&self, setting: Ability, device: &Device) -> Option<&'static str> {
        let model = || self.init(&device.clone().autodiff());
        match setting {
            Ability::Utilization => self.multiply_adds(&model()).err(),
            Ability::Int8 => self.int8_forward().err(),
            Ability::Averaging => self.averaged(Views::Flip).err(),
            other => refusal(self.task(), |device| self.init(device), other, device),
        }
    }
}
