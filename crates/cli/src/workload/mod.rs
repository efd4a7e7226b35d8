//! The tasks the command line can train, one file each.

mod image_classification;

pub(crate) use image_classification::{ImageData, loaders, normalization, open_data};
