//! Tasks: what models are trained to do, one folder per task.
//!
//! A task's name appears outside its folder only in the list below.

mod ability;
mod capture_device;
mod contributions;
mod data_folder;
mod held_out_fraction;
mod image_classification;
mod image_pairs;
mod image_to_image;
mod kind;
mod loaded_model;
mod masked_images;
mod needed_encoder;
mod penalty;
mod picture;
mod predicted_row;
mod prediction_table;
mod pretrained;
mod quantizable;
mod replayable;
mod resident;
mod table_prediction;
mod tables;
mod tile;
mod workload;

pub use ability::Ability;
pub use contributions::{Contributions, PlaceTerms, Term};
pub use data_folder::refuse_folder;
pub use kind::{NeedsSingleRank, Opening, Predictor, Quantizer, Registry, TaskKind, TaskPlan};
pub use loaded_model::{
    ClassProbability, ComponentFiles, FilePrediction, LabelProbability, LoadedModel, Outcome,
    Predicted, PredictedTarget, PredictedValue, Quantile, SampleBlocks, WrittenPrediction,
};
pub use picture::{Bar, Line, Picture};
pub(crate) use picture::{PICTURES, write_pictures};
pub use predicted_row::PredictedRow;
use prediction_table::ColumnsOf;
pub use prediction_table::{PredictionColumns, PredictionTable};
pub use quantizable::{
    CalibrationSamples, InputBatches, Quantizable, ScoredBatches, by_sample, evaluated, measured,
};
pub(in crate::task) use replayable::Replayable;
pub use table_prediction::{TablePrediction, WrittenTable};
pub use tile::Tile;
pub use workload::{About, BatchOf, Int8Forward, StreamUse, Streams, Workload};

/// The tasks of this crate, the default first.
pub const TASKS: Registry = &[
    &image_classification::ImageClassification,
    &image_to_image::ImageToImage,
    &masked_images::MaskedImages,
    &tables::Tables,
];
