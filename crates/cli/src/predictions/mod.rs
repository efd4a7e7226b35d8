//! Predictions of many files: divided into parts, by several ranks, and kept in a folder; and of one
//! file of many samples, divided into blocks.

mod blocks;
mod files;
mod folder;
mod kept_file;
mod parts;
mod rounds;

pub(crate) use blocks::predict_blocks;
pub(crate) use files::listed;
pub(crate) use folder::{PartsFolder, PartsKey};
pub(crate) use parts::Parts;
pub(crate) use rounds::{PartFailed, predict_parts, unfinished};
