//! Tasks: what models are trained to do, one folder per task.
//!
//! A task's name appears outside its folder only in the list below.

mod ability;
mod image_classification;
mod image_to_image;
mod kind;
mod penalty;
mod picture;
mod place;
mod quantizable;
mod serving;
mod share;
mod tables;
mod tile;
mod workload;

pub use ability::Ability;
pub use kind::{Opening, Predictor, Quantizer, Registry, TaskKind, TaskPlan};
pub(crate) use picture::PICTURES;
pub use picture::Picture;
pub use place::refuse_folder;
pub use quantizable::{CalibrationSamples, InputBatches, Quantizable, ScoredBatches, evaluated};
pub use serving::{
    ClassProbability, ComponentFiles, FilePrediction, LabelProbability, Outcome, Predicted,
    PredictedTarget, PredictedValue, Serving, WrittenPrediction,
};
pub use tile::Tile;
pub use workload::{About, BatchOf, StreamUse, Streams, Workload};

/// The tasks of this crate, the default first.
pub const TASKS: Registry =
    &[&image_classification::ImageClassification, &image_to_image::ImageToImage, &tables::Tables];
