//! The tasks the command line can train, one file each.

mod image_classification;
mod tabular_regression;

pub(crate) use image_classification::{ImageData, loaders, normalization, open_data};
pub(crate) use tabular_regression::{Scaling, TableData, open_table};
