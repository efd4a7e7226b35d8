//! Hyperparameter search: trials in separate processes, and their results.

mod outcome;
mod process;
mod trial;
mod workers;

pub(crate) use outcome::{Found, keep_weights, run_of, value_text, write_configs};
pub(crate) use trial::work;
pub(crate) use workers::{Overhead, Search};
