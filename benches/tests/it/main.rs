//! The runner from the outside.

mod refusal;
mod saved_runs;
