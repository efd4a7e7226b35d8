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

use anyhow::Result;
use toml::Table;

use crate::config::{ConfigError, Layer, Plan, RawConfig, layers, merged};

/// The configuration that is compiled in, so that the first command needs no file.
const QUICKSTART: &str = include_str!("../../../../configs/quickstart.toml");

/// A plan with the tables that tell where its values came from.
pub(crate) struct Planned {
    pub(crate) plan: Plan,
    pub(crate) layers: Vec<Layer>,
    pub(crate) merged: Table,
}

/// Reads a configuration (the compiled-in quickstart without a path) and decides its plan.
pub(crate) fn plan(config: Option<&Path>, sets: &[String]) -> Result<Planned> {
    let (text, place) = match config {
        None => (QUICKSTART.to_owned(), PathBuf::from("configs/quickstart.toml")),
        Some(path) => {
            let text = std::fs::read_to_string(path)
                .map_err(|source| ConfigError::Read { path: path.to_owned(), source })?;
            (text, path.to_owned())
        }
    };
    let layers = layers(&text, &place)?;
    let (raw, merged) = RawConfig::lay_sets(merged(&layers), sets)?;
    Ok(Planned { plan: Plan::decide(raw)?, layers, merged })
}
