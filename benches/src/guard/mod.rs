//! The guard against regressions: a run is compared with an earlier one by its ratios.
//!
//! A ratio compares our strategy with another one that took turns with it, so that what slows the
//! whole machine cancels.
//! Strategies are timed in several processes, because times of one process share its memory layout
//! and vary less than times of different processes; processes are added until every ratio is decided.

mod ratio;
mod rerun;
mod rule;
mod student;
mod verdict;

pub(crate) use rerun::Guard;
