//! The tasks the command line can train, and where their data comes from.

mod image_cache;
mod image_classification;
mod image_sources;
mod place;
mod tabular_regression;

use updraft_data::Progress;

pub(crate) use image_classification::{
    ImageData, SPLIT, loaders, normalization, open_data, plain_loader, training_loaders,
};
pub(crate) use tabular_regression::{Scaling, TableData, open_table};

/// Told about long steps: the step's name and how far it is.
pub(crate) type Report<'a> = &'a mut dyn FnMut(&str, Progress);
