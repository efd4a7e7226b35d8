//! Runs that learn a number from the other numbers of a row: train, resume, score.

mod eval;
mod network;
mod train;

pub(crate) use eval::run as eval;
pub(crate) use train::run as train;
