//! Reading configuration files into plans, in which every value is set.

mod choice;
mod distributed;
mod edits;
mod error;
mod expected;
mod key;
mod key_path;
mod key_table;
mod layers;
mod learning_rate;
mod log;
mod origin;
mod plan;
mod precision;
mod profile;
mod quantize;
mod refusal;
mod settings;
mod train;
mod tune;

pub use choice::{AutoBatchPlan, BatchesPlan, RecomputePlan, ResidentPlan, WorkersPlan};
pub use distributed::{BatchNormPlan, DistributedPlan, WirePlan};
pub use edits::Edited;
pub use error::ConfigError;
pub use key::{AnyKey, Edit, InnerKey, Key, KeyDefault, Keys};
pub use key_table::key_table;
pub use layers::Layer;
pub use log::LogPlan;
pub use origin::origins;
pub use plan::{Plan, Planned};
pub use profile::{Profile, UnusedKey};
pub use quantize::{CalibrationMethod, QuantizePlan, RoundingMethod};
pub use settings::{Settings, TaskDefault};
pub use train::TrainPlan;
pub use tune::{KeepPlan, TunePlan};
