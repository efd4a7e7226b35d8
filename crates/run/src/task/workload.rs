//! The trait of a workload: a model with its data.

use burn::module::Module;
use burn::tensor::Device;
use serde_json::Value;
use updraft_data::{ImageSource, Part, Views};
use updraft_trainer::{BatchStream, Task};

use super::ability::Ability;
use super::contributions::Contributions;
use super::picture::Picture;
use super::quantizable::Quantizable;
use crate::config::Plan;
use crate::error::RunError;
use crate::folder::RunFolder;
use crate::int8_network::Int8Network;

/// The batches of a workload's streams.
pub type BatchOf<W> = <<W as Workload>::Task as Task<<W as Workload>::Model>>::Batch;

type InputOf<W> = <<W as Workload>::Task as Task<<W as Workload>::Model>>::Input;
type OutputOf<W> = <<W as Workload>::Task as Task<<W as Workload>::Model>>::Output;

/// The forward pass of a workload's model as an int8 network: from a batch of inputs to what the
/// model returns for them.
pub enum Int8Forward<W: Workload> {
    /// The network takes the inputs.
    Whole(fn(&Int8Network, InputOf<W>) -> OutputOf<W>),
    /// The network takes what the run's model computes from the inputs in f32, such as embeddings.
    Behind(fn(&W::Model, &Int8Network, InputOf<W>) -> OutputOf<W>),
}

/// A model with its data, for one kind of model of a task.
///
/// Training, resuming, scoring, learning-rate range tests, verifying and reports are written once
/// for any `Workload`; [`AnyWorkload`](crate::AnyWorkload) is implemented for all of them.
pub trait Workload {
    /// The model that is trained.
    type Model: Module;
    /// Its loss and metrics; verification compares batches.
    type Task: Task<Self::Model, Batch: PartialEq>;

    /// The loss and the metrics.
    fn task(&self) -> &Self::Task;

    /// A model with fresh parameters, drawn from the device's random state.
    fn init(&self, device: &Device) -> Self::Model;

    /// Sets the parameters of a new model that are computed from the training data, such as the
    /// filters of a whitening convolution; none by default. A model whose parameters are loaded
    /// afterwards is not prepared.
    ///
    /// # Errors
    /// [`RunError::Data`] or [`RunError::Stream`] for data that cannot be delivered.
    fn prepare(
        &self,
        plan: &Plan,
        model: Self::Model,
        device: &Device,
    ) -> Result<Self::Model, RunError> {
        let _ = (plan, device);
        Ok(model)
    }

    /// The batches of training and test data.
    ///
    /// # Errors
    /// [`RunError::Data`] or [`RunError::Stream`] for settings that do not match the data.
    fn streams(
        &self,
        plan: &Plan,
        used_for: StreamUse<'_>,
    ) -> Result<Streams<BatchOf<Self>>, RunError>;

    /// A description of model and data.
    fn about(&self) -> About;

    /// What the model takes from the data, such as the names of its classes: with it,
    /// [`TaskPlan::on_examples`](crate::TaskPlan::on_examples) builds the model without data.
    fn signature(&self) -> Value {
        Value::Null
    }

    /// Writes into a new run's folder what [`check`](Self::check) and
    /// [`Predictor::load`](crate::Predictor::load) read: class names, or the encoding of columns.
    ///
    /// # Errors
    /// [`RunError::Io`] if it cannot be written.
    fn write(&self, folder: &RunFolder) -> Result<(), RunError> {
        let _ = folder;
        Ok(())
    }

    /// Decides after training what does not follow from gradients, such as the thresholds of
    /// labels, on rows that were held out for it, and stores it in the run's folder.
    ///
    /// Returns the task with these decisions, which then scores the test data again; `None`, the
    /// default, if there is nothing to decide.
    ///
    /// # Errors
    /// [`RunError::Train`] if the rows cannot be evaluated, [`RunError::Io`] if the folder cannot
    /// be written.
    fn decide(
        &self,
        plan: &Plan,
        model: &Self::Model,
        device: &Device,
        folder: &RunFolder,
    ) -> Result<Option<Self::Task>, RunError> {
        let _ = (plan, model, device, folder);
        Ok(None)
    }

    /// The task with what [`decide`](Self::decide) stored in a run, which scores the run's trained
    /// model; `None`, the default, if nothing is decided.
    ///
    /// # Errors
    /// [`RunError::Io`], [`RunError::Json`] or [`RunError::Unusable`] for a run whose files are
    /// damaged.
    fn decided(&self, folder: &RunFolder) -> Result<Option<Self::Task>, RunError> {
        let _ = folder;
        Ok(None)
    }

    /// Checks that the data is that of a run.
    ///
    /// # Errors
    /// [`RunError::OtherData`] with the difference, [`RunError::Io`] or [`RunError::Json`] for a
    /// run whose files are damaged.
    fn check(&self, folder: &RunFolder) -> Result<(), RunError> {
        let _ = folder;
        Ok(())
    }

    /// The sets of the data whose samples are files, each with its name: a run stores their
    /// [contents](ImageSource::known_contents) as they were first read, and refuses a file with
    /// another one when it is resumed. By default there are none.
    fn file_sets(&self) -> Vec<(&'static str, &dyn ImageSource)> {
        Vec::new()
    }

    /// Multiply-adds of the forward pass of one sample, for the fraction of the device's peak.
    ///
    /// # Errors
    /// The reason why they are unknown, without a full stop; the default.
    fn multiply_adds(&self, model: &Self::Model) -> Result<u64, &'static str> {
        let _ = model;
        Err("its multiply-adds are not counted")
    }

    /// Additional fields of the model for an epoch's line of `metrics.jsonl`; none by default.
    fn epoch_fields(&self, model: &Self::Model) -> Vec<(&'static str, Value)> {
        let _ = model;
        Vec::new()
    }

    /// Plots of [`epoch_fields`](Self::epoch_fields): the title of each, and its curves as name and
    /// JSON pointer into the epoch's line; none by default.
    fn curves(&self, model: &Self::Model) -> Vec<(String, Vec<(String, String)>)> {
        let _ = model;
        Vec::new()
    }

    /// Loads the trained model of a run, in f32, to quantize it with this data.
    ///
    /// # Errors
    /// [`RunError::NotForTask`] by default; as [`Predictor::load`](crate::Predictor::load).
    fn into_quantizable(
        self,
        plan: &Plan,
        folder: &RunFolder,
        device: &Device,
    ) -> Result<Box<dyn Quantizable>, RunError>
    where
        Self: Sized,
    {
        let _ = (folder, device);
        let reason = "its workload cannot load a model for quantization";
        Err(plan.kind().refused(Ability::Quantize, reason))
    }

    /// The forward pass of the model as an int8 network, to evaluate what
    /// [`into_quantizable`](Self::into_quantizable) led to.
    ///
    /// # Errors
    /// The reason why there is none, without a full stop; the default.
    fn int8_forward(&self) -> Result<Int8Forward<Self>, &'static str>
    where
        Self: Sized,
    {
        Err("its workload does not run int8 networks")
    }

    /// The task whose output is the average over several views of each input, for `eval --tta`.
    ///
    /// # Errors
    /// The reason why there is none, without a full stop; the default.
    fn averaged(&self, views: Views) -> Result<Self::Task, &'static str> {
        let _ = views;
        Err("it has no test-time augmentation")
    }

    /// Pictures of the test data for the report; none by default.
    ///
    /// # Errors
    /// [`RunError::Data`] or [`RunError::Stream`] if test data cannot be delivered.
    fn pictures(
        &self,
        plan: &Plan,
        model: &Self::Model,
        device: &Device,
    ) -> Result<Vec<Picture>, RunError> {
        let _ = (plan, model, device);
        Ok(Vec::new())
    }

    /// As [`pictures`](Self::pictures), with what the pathways of the model contribute, which the
    /// same pass over the test data finds; none by default.
    ///
    /// # Errors
    /// As [`pictures`](Self::pictures).
    fn pictures_and_contributions(
        &self,
        plan: &Plan,
        model: &Self::Model,
        device: &Device,
    ) -> Result<(Vec<Picture>, Option<Contributions>), RunError> {
        Ok((self.pictures(plan, model, device)?, None))
    }
}

/// The batches of a plan.
pub struct Streams<B> {
    /// Batches to learn from.
    pub train: Box<dyn BatchStream<B>>,
    /// Batches for the evaluation of every epoch.
    pub test: Box<dyn BatchStream<B>>,
}

/// The purpose of batches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamUse<'a> {
    /// Training: samples that cannot be delivered are recorded if the plan says so.
    Training {
        /// The part of every batch that this process trains on and evaluates.
        part: Part,
        /// The device, without autodiff.
        device: &'a Device,
    },
    /// Anything else: the same samples are skipped and nothing is written.
    Reading,
}

impl StreamUse<'_> {
    /// The part of every batch.
    #[must_use]
    pub const fn part(self) -> Part {
        match self {
            Self::Training { part, .. } => part,
            Self::Reading => Part::WHOLE,
        }
    }
}

/// A description of model and data, to be printed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct About {
    /// The data, in a line.
    pub data: String,
    /// The model's kind and shape.
    pub model: String,
    /// The name of samples, such as `images`.
    pub samples: &'static str,
    /// The same in a rate, such as `img`.
    pub short: &'static str,
    /// Messages about caches and other files.
    pub notes: Vec<String>,
    /// Training samples.
    pub train_samples: usize,
    /// Test samples.
    pub test_samples: usize,
}

impl About {
    /// Data and model in one line each, without numbers of samples.
    #[must_use]
    pub fn new(data: impl Into<String>, model: impl Into<String>) -> Self {
        Self {
            data: data.into(),
            model: model.into(),
            samples: "samples",
            short: "samples",
            notes: Vec::new(),
            train_samples: 0,
            test_samples: 0,
        }
    }

    /// Sets the numbers of samples.
    #[must_use]
    pub fn samples(self, train: usize, test: usize) -> Self {
        Self { train_samples: train, test_samples: test, ..self }
    }
}
