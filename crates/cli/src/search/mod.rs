//! The parts of a hyperparameter search: trials in processes of their own, and what is left of them.

mod outcome;
mod process;
mod trial;
mod workers;

pub(crate) use outcome::{Found, keep_weights, run_of, value_text, write_configs};
pub(crate) use trial::work;
pub(crate) use workers::{Overhead, Search};
