#![doc = include_str!("../README.md")]

mod bound_files;
mod bounded;
mod config;
mod data_wait;
mod environment;
mod error;
mod experiment;
mod file_contents;
mod folder;
mod gpu_load;
#[cfg(doctest)]
mod guide;
mod in_place;
mod int8_network;
mod int8_record;
mod irregular_output;
mod lock;
mod lost_checkpoint;
mod operation;
mod peak_memory;
mod place;
mod plain;
mod record;
mod replaced_files;
mod task;
mod trained;
mod utilization;

// Using a trained model.
pub use int8_network::{Int8Network, Int8Shapes};
pub use int8_record::Int8Record;
pub use task::{
    ClassProbability, ComponentFiles, FilePrediction, LabelProbability, Outcome, Predicted,
    PredictedRow, PredictedTarget, PredictedValue, PredictionColumns, PredictionTable, Quantile,
    SampleBlocks, TablePrediction, WrittenPrediction, WrittenTable,
};
pub use trained::TrainedModel;

// A run from a configuration.
pub use experiment::Experiment;

// Configurations and plans.
pub use config::{
    AnyKey, AutoBatchPlan, BatchNormPlan, BatchesPlan, CalibrationMethod, ConfigError,
    DistributedPlan, Edit, Edited, InnerKey, KeepPlan, Key, KeyDefault, Keys, Layer, LogPlan, Plan,
    Planned, Profile, QuantizePlan, ReadEveryPlan, RecomputePlan, ResidentPlan, RoundingMethod,
    Settings, TaskDefault, TrainPlan, TunePlan, UnusedKey, WirePlan, WorkersPlan, key_table,
    origins,
};

// Tasks.
pub use task::{
    Ability, About, Bar, BatchOf, CalibrationSamples, Contributions, InputBatches, Int8Forward,
    Line, LoadedModel, NeedsSingleRank, Opening, Picture, PlaceTerms, Predictor, Quantizable,
    Quantizer, Registry, ScoredBatches, StreamUse, Streams, TASKS, TaskKind, TaskPlan, Term, Tile,
    Workload, by_sample, evaluated, measured, refuse_folder,
};

// Operations on tasks.
pub use operation::{
    AnyModel, AnyWorkload, Beginning, CheckResult, EvaluatedForm, KernelChoice, LayerTime,
    LayerTimes, LrSearch, MetricPair, ModelForm, Observer, OnExamples, PredictionTrace, RankCosts,
    RankEvaluation, TestBatch, TestOutputs, Timed, TimedStep, TimedWork, Trained, TrainedInputs,
    Training, Validation, VerifyInputs, agree_on_folder, load, verify_trained,
};

// Our kernels, or burn's operations.
pub use plain::{make_plain_default, runs_kernels};

// Run folders.
pub use folder::RunFolder;
pub use irregular_output::refuse_irregular;
pub use lock::RunLock;
pub use record::{RecordedMetrics, RunSchema, read_metrics};

/// A JSON value: what a [signature](Workload::signature) is.
pub use serde_json::Value;

// Errors.
pub use error::{Cause, RunError};
