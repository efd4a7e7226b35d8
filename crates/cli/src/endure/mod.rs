//! Endurance tests: runs that are killed or lose their storage, and long runs.

mod child;
mod compare;
mod disturb;
mod noise;
mod ranks;
mod run_files;
mod scenario;
mod soak;
mod storage;
mod table;

pub(crate) use disturb::{OnRanks, endure};
pub(crate) use ranks::check_ranks;
pub(crate) use scenario::{Scenario, VARIANTS};
pub(crate) use soak::soak;
pub(crate) use storage::Storage;
pub(crate) use table::Endured;
