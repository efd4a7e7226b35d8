//! Reading configuration files into plans, in which every value is set.

mod batch;
mod choice;
mod distributed;
mod edits;
mod error;
mod expected;
mod fault;
mod in_f32;
mod key;
mod key_path;
mod key_table;
mod layers;
mod learning_rate;
mod log;
mod malformed;
mod origin;
mod plan;
mod precision;
mod profile;
mod quantize;
mod refusal;
mod set;
mod settings;
mod shortened;
mod train;
mod tune;

pub use choice::{
    AutoBatchPlan, BatchesPlan, ReadEveryPlan, RecomputePlan, ResidentPlan, WorkersPlan,
};
pub use distributed::{BatchNormPlan, DistributedPlan, WirePlan};
pub use edits::Edited;
pub use error::ConfigError;
pub(crate) use in_f32::{
    ABOVE_0_IN_F32, is_0_or_above_in_f32, is_above_0_in_f32, is_finite_in_f32,
};
pub use key::{AnyKey, Edit, InnerKey, Key, KeyDefault, Keys};
pub use key_table::key_table;
pub use layers::Layer;
pub use log::LogPlan;
pub use origin::origins;
pub use plan::{Plan, Planned};
pub use profile::{Profile, UnusedKey};
pub use quantize::{CalibrationMethod, QuantizePlan, RoundingMethod};
pub use settings::{Settings, TaskDefault};
pub(crate) use shortened::shortened;
pub use train::TrainPlan;
pub use tune::{KeepPlan, TunePlan};
