//! Samplers, which choose the point of the next trial.

mod estimator;
mod evolution;
mod grid;
mod proposer;
mod tpe;

pub(crate) use grid::check as check_grid;
pub(crate) use proposer::Proposer;
