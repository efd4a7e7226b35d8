//! Tasks: what models are trained to do, one folder a task.
//!
//! Nothing outside a task's folder knows its name but the list below.

mod ability;
mod image_classification;
mod kind;
mod picture;
mod place;
mod quantizable;
mod serving;
mod share;
mod tables;
mod tabular;
mod tile;
mod workload;

pub use ability::Ability;
pub use kind::{Opening, Predictor, Quantizer, Registry, TaskKind, TaskPlan};
pub(crate) use picture::PICTURES;
pub use picture::Picture;
pub use place::refuse_folder;
pub use quantizable::{CalibrationSamples, InputBatches, Quantizable, ScoredBatches, evaluated};
pub use serving::{
    ClassProbability, LabelProbability, Outcome, Predicted, PredictedTarget, PredictedValue,
    Quantity, Serving,
};
pub use tile::Tile;
pub use workload::{About, BatchOf, StreamUse, Streams, Workload};

/// The tasks of this crate, the default first.
pub const TASKS: Registry =
    &[&image_classification::ImageClassification, &tabular::TabularRegression, &tables::Tables];
