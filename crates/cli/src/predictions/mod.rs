//! Predictions of many files: divided into parts, by several ranks, and kept in a folder.

mod files;
mod folder;
mod parts;
mod rounds;

pub(crate) use files::listed;
pub(crate) use folder::{PartsFolder, PartsKey};
pub(crate) use parts::Parts;
pub(crate) use rounds::{PartFailed, predict_parts};
