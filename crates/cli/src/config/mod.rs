//! From a configuration file to a plan in which every choice is made.

mod error;
mod origin;
mod plan;
mod raw;

pub(crate) use error::ConfigError;
pub(crate) use origin::origins;
pub(crate) use plan::{DataSource, Plan, WorkersPlan};
pub(crate) use raw::RawConfig;
