//! The traits of a task and of its plan.

use std::fmt;
use std::path::{Path, PathBuf};

use burn::tensor::{Device, Tensor};
use serde_json::Value;
use updraft_data::Progress;
use updraft_quant::Graph;
use updraft_trainer::MetricSpec;

use super::ability::Ability;
use super::loaded_model::{FilePrediction, LoadedModel};
use super::table_prediction::TablePrediction;
use crate::config::{ConfigError, Keys, Plan, Settings, TaskDefault, TrainPlan};
use crate::error::RunError;
use crate::folder::RunFolder;
use crate::int8_network::{Int8Network, Int8Shapes};
use crate::operation::{AnyModel, AnyWorkload};

/// The tasks that a program knows, the default first; at least one.
pub type Registry = &'static [&'static dyn TaskKind];

/// A setting of a plan that a run on several ranks does not support, and what to do instead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NeedsSingleRank {
    /// The key of the setting.
    pub key: &'static str,
    /// What to do instead: "remove it".
    pub advice: &'static str,
}

impl fmt::Display for NeedsSingleRank {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` needs a single rank; {}", self.key, self.advice)
    }
}

/// A task, before a configuration is read: its name, its keys and a trial.
///
/// A task is a unit type in its own folder, and an entry of a [`Registry`]. [`plan`](Self::plan)
/// reads a configuration of the task; everything after that belongs to the [`TaskPlan`] that it
/// returns.
pub trait TaskKind: Sync {
    /// Its name in a configuration: lower-case words with hyphens between them.
    fn name(&self) -> &'static str;

    /// A short description of what the model predicts, such as "the class of an image".
    fn about(&self) -> &'static str;

    /// The keys of the task in addition to those of every task: its data, model, augmentation and
    /// losses.
    fn keys(&self) -> &'static [Keys];

    /// Defaults that replace those of common keys.
    fn defaults(&self) -> &'static [TaskDefault] {
        &[]
    }

    /// Whether its checkpoints have an encoder of patches, with which `model.encoder` begins a
    /// vision transformer of another task.
    ///
    /// Its settings are then those of the keys `data.patch` and `model.patch`, `embedding`, `layers`,
    /// `heads` and `positions`, as in the task `masked-images`: they are compared with the network.
    fn trains_encoders(&self) -> bool {
        false
    }

    /// The smallest batch that its models can be trained with, and the reason if it is not 1; the
    /// reason follows the number in an error message.
    fn least_batch(&self) -> (usize, &'static str) {
        (1, "")
    }

    /// The configuration of commands without a configuration file; it needs no data.
    fn quickstart(&self) -> &'static str {
        self.trial()
    }

    /// The models that an ability is limited to, such as "U-Nets with batch norm"; `None`, the
    /// default, if all models of the task have it, or none has. `tasks` lists it.
    fn limited_to(&self, ability: Ability) -> Option<&'static str> {
        let _ = ability;
        None
    }

    /// The text of a configuration that trains a small model in seconds and needs no files:
    /// `verify` runs it, and `tasks` uses it to list what the task supports. The key `task` may be
    /// omitted.
    fn trial(&self) -> &'static str;

    /// Overrides, as `key=value`, so that the forward pass of the model of [`trial`](Self::trial)
    /// draws no random numbers.
    fn without_dropout(&self) -> &'static [&'static str] {
        &[]
    }

    /// Overrides, as `key=value`, so that the model of [`trial`](Self::trial) has dropout before batch
    /// norms; none if no model has.
    fn with_dropout(&self) -> &'static [&'static str] {
        &[]
    }

    /// Overrides, as `key=value`, so that the data of [`trial`](Self::trial) is prepared again for
    /// every pass instead of being read from a cache; none if there is no cache.
    fn without_cache(&self) -> &'static [&'static str] {
        &[]
    }

    /// Overrides, as `key=value`, so that the data of [`trial`](Self::trial) can stay on the device,
    /// for a task that supports `train.resident`.
    fn resident_data(&self) -> &'static [&'static str] {
        &[]
    }

    /// Reads the task's keys.
    ///
    /// A given key that is not read here is an error, so an implementation should read only the
    /// keys of the chosen source and model. `train` is already checked.
    ///
    /// # Errors
    /// [`ConfigError`] for an invalid value; [`Settings`] creates these errors.
    fn plan(
        &self,
        settings: &Settings,
        train: &TrainPlan,
    ) -> Result<Box<dyn TaskPlan>, ConfigError>;
}

/// The arguments of [`TaskPlan::open`] in addition to the plan.
pub struct Opening<'a> {
    /// The folder of the data, instead of the one in the plan.
    pub dir: Option<&'a Path>,
    /// The run that was trained on this data, if any: its folder contains the train/test split.
    pub run: Option<&'a RunFolder>,
    /// Receives the name of the current step and its progress.
    pub progress: &'a mut dyn FnMut(&str, Progress),
}

/// The part of a plan that belongs to the task: its data, its model and its losses.
///
/// It determines the concrete types: [`open`](Self::open) returns a [`Workload`](super::Workload)
/// behind [`AnyWorkload`], which is implemented for all of them.
pub trait TaskPlan {
    /// The metrics of the task as [`metric_specs`](updraft_trainer::metric_specs) lists them, the
    /// loss first.
    fn metrics(&self) -> Vec<MetricSpec>;

    /// Checks that the files of the data exist and match the keys, without reading samples; `dir`
    /// is the folder of the data, instead of the one in the plan.
    ///
    /// # Errors
    /// [`RunError::NoData`] for a file that is missing, [`RunError::Unusable`] for a folder if the
    /// data has none, [`RunError::Config`] for a key that asks for what the data does not have.
    fn find_data(&self, dir: Option<&Path>) -> Result<(), RunError>;

    /// The files whose contents the samples are made of, as far as the fingerprints of the streams
    /// have only their names and lengths; `dir` is as in [`find_data`](Self::find_data). By default
    /// there are none.
    ///
    /// # Errors
    /// As [`find_data`](Self::find_data), and [`RunError::Data`] for a folder that cannot be listed.
    fn data_files(&self, dir: Option<&Path>) -> Result<Vec<PathBuf>, RunError> {
        let _ = dir;
        Ok(Vec::new())
    }

    /// Checks that the runs exist that keys name, such as a teacher, without loading their models,
    /// and reads small files that keys name; only a new run needs them. By default there are none.
    ///
    /// # Errors
    /// [`RunError::Unusable`] with the key for a path that is no run, or a run of another task.
    fn find_runs(&self) -> Result<(), RunError> {
        Ok(())
    }

    /// Opens the data and chooses the model for it.
    ///
    /// # Errors
    /// [`RunError::NoData`] if files are missing, [`RunError::Data`], [`RunError::Table`] or
    /// [`RunError::Unusable`] if they cannot be used for training.
    fn open(&self, plan: &Plan, opening: Opening<'_>) -> Result<Box<dyn AnyWorkload>, RunError>;

    /// The model with its task, without data: `batch-find` and `warm-up` train it on example data,
    /// and settings that it does not support are refused before the data is opened.
    ///
    /// `signature` is the signature of the data, from
    /// [`Workload::signature`](super::Workload::signature), or null if it is not known yet.
    /// By default this is `None`: the data is opened, which takes time and memory, and the task's
    /// trial determines which settings are refused.
    fn on_examples(&self, signature: &Value) -> Option<Box<dyn AnyModel + '_>> {
        let _ = signature;
        None
    }

    /// The key whose value decides whether a model of the task supports a setting; `None`, the
    /// default, if no value of any key does. An error about the setting names it.
    fn decides(&self, ability: Ability) -> Option<&'static str> {
        let _ = ability;
        None
    }

    /// Loads the trained network of a run as a teacher of other networks: from images `[batch, 3,
    /// height, width]` to logits `[batch, classes]`, without autodiff.
    ///
    /// # Errors
    /// [`RunError::NotForTask`] for a task of something else, the default; as [`Predictor::load`].
    fn teacher(
        &self,
        plan: &Plan,
        folder: &RunFolder,
        device: &Device,
    ) -> Result<Box<dyn Fn(Tensor<4>) -> Tensor<2>>, RunError> {
        let _ = (folder, device);
        Err(plan.kind().refused(Ability::Predict, "its models do not classify images"))
    }

    /// The setting that needs a single rank; `None`, the default, if a run on several ranks
    /// supports all of them.
    fn needs_single_rank(&self) -> Option<NeedsSingleRank> {
        None
    }

    /// Whether [`open`](Self::open) writes caches that the next opening reads; by default it writes
    /// none. Of several ranks one then opens the data before the others.
    fn writes_caches(&self) -> bool {
        false
    }

    /// Checks that [`Workload::streams`](super::Workload::streams) keeps the data on the device of
    /// [`StreamUse::Training`](super::StreamUse::Training) for a plan with `train.resident`.
    ///
    /// # Errors
    /// The reason why it does not, without a full stop. This is the default.
    fn resident(&self) -> Result<(), &'static str> {
        Err("its batches are made on the host")
    }

    /// The loader of trained models for prediction.
    ///
    /// # Errors
    /// The reason why there is none, without a full stop. This is the default.
    fn predictor(&self) -> Result<&dyn Predictor, &'static str> {
        Err("it cannot load trained models")
    }

    /// Checks for quantizing a model of the plan;
    /// [`Workload::into_quantizable`](super::Workload::into_quantizable) returns the model.
    ///
    /// # Errors
    /// The reason why models are not quantized, without a full stop. This is the default.
    fn quantizer(&self) -> Result<&dyn Quantizer, &'static str> {
        Err("its models cannot be quantized")
    }
}

/// Loads the trained models of a task; returned by [`TaskPlan::predictor`].
pub trait Predictor {
    /// Loads the trained model of a run, without its data.
    ///
    /// # Errors
    /// [`RunError::NoCheckpoint`], or [`RunError::Io`], [`RunError::Json`] or
    /// [`RunError::Checkpoint`] for a file that is missing or damaged.
    fn load(
        &self,
        plan: &Plan,
        folder: &RunFolder,
        device: &Device,
    ) -> Result<Box<dyn LoadedModel>, RunError>;

    /// Checks, before a model is loaded, that it predicts the samples of files, as
    /// [`LoadedModel::predict`] does; the default.
    ///
    /// # Errors
    /// [`RunError::Unusable`] for a task that predicts only into files.
    fn check_samples(&self) -> Result<(), RunError> {
        Ok(())
    }

    /// Whether it predicts classes with probabilities; the default.
    fn predicts_classes(&self) -> bool {
        true
    }

    /// Checks, before a model is loaded, that it predicts a file into another one, as
    /// [`LoadedModel::predict_file`] does.
    ///
    /// # Errors
    /// [`RunError::Unusable`] for a task that does not, the default, or for files and windows that
    /// cannot be used.
    fn check_file(&self, request: &FilePrediction) -> Result<(), RunError> {
        let _ = request;
        Err(RunError::predicts_no_images())
    }

    /// Checks, before a model is loaded, that it predicts the rows of a table into another one, as
    /// [`TrainedModel::predict_table`](crate::TrainedModel::predict_table) does.
    ///
    /// # Errors
    /// [`RunError::Unusable`] for a task that does not, the default, or for files that cannot be
    /// used.
    fn check_table(&self, request: &TablePrediction) -> Result<(), RunError> {
        let _ = request;
        Err(RunError::predicts_no_rows())
    }
}

/// Checks for quantizing a model before it is loaded, and loads quantized models; returned by
/// [`TaskPlan::quantizer`].
pub trait Quantizer {
    /// Checks that outlier channels can be planted in the plan's model, see
    /// [`Quantizable::plant_outliers`](super::Quantizable::plant_outliers).
    ///
    /// # Errors
    /// [`RunError::Model`] with the reason if they cannot.
    fn check_outliers(&self) -> Result<(), RunError>;

    /// The layers of the plan's model, with parameters of any value: `quantize` and `pipeline` look
    /// up the layers that they are given in it before any work.
    ///
    /// # Errors
    /// [`RunError::Model`] with the operation that graphs do not support.
    fn graph(&self) -> Result<Graph, RunError>;

    /// Whether the layers of [`graph`](Self::graph) are nearly of the sizes of the run's, the default;
    /// otherwise a budget of bytes is checked with the run's data only.
    fn knows_sizes(&self) -> bool {
        true
    }

    /// The shapes of an int8 network of a run: of one input, as
    /// [`Quantizable::input_shape`](super::Quantizable::input_shape), and of its outputs.
    ///
    /// # Errors
    /// [`RunError::Io`], [`RunError::Json`] or [`RunError::Unusable`] for a run whose files are
    /// damaged.
    fn int8_shapes(&self, folder: &RunFolder) -> Result<Int8Shapes, RunError>;

    /// Loads the int8 network of a run for prediction, as [`Predictor::load`] does the trained
    /// model; everything but the network is computed on `device`.
    ///
    /// # Errors
    /// As [`int8_shapes`](Self::int8_shapes), and as [`Predictor::load`] where a part of the model
    /// is computed in f32.
    fn load_int8(
        &self,
        plan: &Plan,
        folder: &RunFolder,
        network: Int8Network,
        device: &Device,
    ) -> Result<Box<dyn LoadedModel>, RunError>;

    /// Checks what [`Predictor::check_file`] accepts: whether the int8 network predicts it, too;
    /// the default.
    ///
    /// # Errors
    /// [`RunError::Unusable`] for windows of another size than the network's.
    fn check_file_int8(&self, request: &FilePrediction) -> Result<(), RunError> {
        let _ = request;
        Ok(())
    }
}
