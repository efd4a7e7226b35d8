//! From a configuration file to a plan in which every choice is made.

mod augment;
mod choice;
mod data;
mod error;
mod keys;
mod layers;
mod model;
mod origin;
mod plan;
mod raw;
mod regression;
mod regressor;
mod supply;
mod table_data;
mod task;
mod unread;

pub(crate) use choice::{AutoBatchPlan, RecomputePlan, WorkersPlan};
pub(crate) use data::{Cifar100Labels, DataPlan, DataSource};
pub(crate) use error::ConfigError;
pub(crate) use keys::key_table;
pub(crate) use layers::{Layer, layers, merged};
pub(crate) use origin::origins;
pub(crate) use plan::{LogPlan, Plan};
pub(crate) use raw::{RawConfig, RawFile};
pub(crate) use regression::{RawRegression, RegressionPlan};
pub(crate) use regressor::RegressorPlan;
pub(crate) use supply::CachePlan;
pub(crate) use table_data::{DelimiterPlan, FormulaPlan, TableDataPlan};
pub(crate) use task::{Task, task_of};
pub(crate) use unread::refuse_unread;
