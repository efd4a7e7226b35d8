//! Tests of the runner as a program.

mod refusal;
mod saved_runs;
