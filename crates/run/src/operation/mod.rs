//! Operations on workloads of any task, one file per operation.

mod any;
mod check_start;
mod data_digest;
mod evaluate;
mod evaluate_int8;
mod evaluate_on_ranks;
mod examples;
mod initial;
mod kernels;
mod layer_times;
mod lr_search;
mod new_model;
mod outputs;
mod prediction_trace;
mod products;
mod rank_costs;
mod run_record;
mod shared_start;
mod summary;
mod timing;
mod train;
mod training_device;
mod validation;
mod verify;
mod verify_trained;

pub use any::AnyWorkload;
pub use evaluate_on_ranks::{EvaluatedForm, RankEvaluation};
pub use kernels::KernelChoice;
pub use layer_times::{LayerTime, LayerTimes};
pub use lr_search::LrSearch;
pub use outputs::{ModelForm, TestBatch, TestOutputs};
pub use prediction_trace::PredictionTrace;
pub use rank_costs::RankCosts;
pub use shared_start::agree_on_folder;
pub use timing::{Timed, TimedStep, TimedWork};
pub use train::{Beginning, Observer, Trained, Training};
pub use validation::{MetricPair, Validation};
pub use verify::{CheckResult, VerifyInputs};
pub use verify_trained::{TrainedInputs, verify_trained};

pub use evaluate::load;
pub(crate) use evaluate::load_stored;
pub use examples::{AnyModel, OnExamples};
pub(crate) use kernels::{LayerNames, layer_names};
