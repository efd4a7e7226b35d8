//! The commands, one file each.

pub(crate) mod batch_find;
pub(crate) mod compare;
pub(crate) mod eval;
pub(crate) mod explain;
pub(crate) mod lr_find;
pub(crate) mod pipeline;
pub(crate) mod predict;
pub(crate) mod probe;
pub(crate) mod quantize;
pub(crate) mod report;
pub(crate) mod train;
pub(crate) mod verify;
pub(crate) mod warm_up;

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use toml::Table;

use crate::config::{
    ConfigError, Layer, Plan, RawConfig, RawFile, RawRegression, RegressionPlan, Task, layers,
    merged, refuse_unread, task_of,
};

/// The configuration that is compiled in, so that the first command needs no file.
const QUICKSTART: &str = include_str!("../../../../configs/quickstart.toml");

/// A plan with the tables that tell where its values came from.
pub(crate) struct Planned<P> {
    pub(crate) plan: P,
    pub(crate) layers: Vec<Layer>,
    pub(crate) merged: Table,
}

/// A plan of whichever task.
#[allow(clippy::large_enum_variant, reason = "there is one at a time, taken apart at once")]
pub(crate) enum AnyPlanned {
    Images(Planned<Plan>),
    Table(Planned<RegressionPlan>),
}

/// Reads a configuration of images and decides its plan.
pub(crate) fn plan(config: Option<&Path>, sets: &[String]) -> Result<Planned<Plan>> {
    match planned(config, sets)? {
        AnyPlanned::Images(planned) => Ok(planned),
        AnyPlanned::Table(planned) => {
            let (task, other) = (planned.plan.task, Task::default());
            bail!("the config is of task `{task}`, and this command is for task `{other}` alone")
        }
    }
}

/// Reads a configuration (the compiled-in quickstart without a path) and decides its plan.
pub(crate) fn planned(config: Option<&Path>, sets: &[String]) -> Result<AnyPlanned> {
    let (text, place) = match config {
        None => (QUICKSTART.to_owned(), PathBuf::from("configs/quickstart.toml")),
        Some(path) => {
            let text = std::fs::read_to_string(path)
                .map_err(|source| ConfigError::Read { path: path.to_owned(), source })?;
            (text, path.to_owned())
        }
    };
    match task_of(&text, &place, sets)? {
        Task::ImageClassification => {
            let layers = layers::<RawConfig>(&text, &place)?;
            let (raw, merged) = RawConfig::lay_sets(merged(&layers), sets)?;
            let plan = Plan::decide(raw)?;
            refuse_unread(&merged, &plan.to_toml().parse()?)?;
            Ok(AnyPlanned::Images(Planned { plan, layers, merged }))
        }
        Task::TabularRegression => {
            let layers = layers::<RawRegression>(&text, &place)?;
            let (raw, merged) = RawRegression::lay_sets(merged(&layers), sets)?;
            let plan = RegressionPlan::decide(raw)?;
            refuse_unread(&merged, &plan.to_toml().parse()?)?;
            Ok(AnyPlanned::Table(Planned { plan, layers, merged }))
        }
    }
}
