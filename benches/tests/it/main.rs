//! Tests of the runner as a program.

mod guard;
mod refusal;
mod saved_runs;
