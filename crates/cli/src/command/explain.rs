//! `explain`: every value of a plan and its origin, or every key of a task.

use std::path::PathBuf;

use anyhow::{Result, anyhow};
use clap::Args;
use updraft_device::{probe, select};
use updraft_run::{Registry, RunError, UnusedKey, key_table, origins};

use super::ConfigArgs;
use crate::program::next;
use crate::terminal::say;
use crate::wrap::hanging;

/// The widest name of a file that values are aligned behind.
const WIDEST_ORIGIN: usize = 24;

/// Shows every value of a config's plan and where it came from.
#[derive(Debug, Args)]
pub(crate) struct ExplainArgs {
    #[command(flatten)]
    config: ConfigArgs,
    /// Print the keys of a task with their defaults and meanings instead, in Markdown
    #[arg(long, value_name = "TASK",
          conflicts_with_all = ["config", "data", "device", "sets", "profile"])]
    keys: Option<String>,
}

/// Prints the table to standard output.
pub(crate) fn run(registry: Registry, args: &ExplainArgs) -> Result<()> {
    if let Some(task) = &args.keys {
        let kind = registry.iter().find(|kind| kind.name() == task).ok_or_else(|| {
            let names: Vec<_> = registry.iter().map(|kind| kind.name()).collect();
            anyhow!("there is no task `{task}`; the tasks are {}", names.join(", "))
        })?;
        crate::print(key_table(*kind).trim_end())?;
        next("explain CONFIG");
        return Ok(());
    }
    let planned = args.config.plan(registry)?;
    let (plan, settings) = (&planned.plan, &planned.settings);
    let lines = origins(plan.table(), settings.layers(), settings.given());
    let key_width = lines.iter().map(|(key, ..)| key.len()).max().unwrap_or(0);
    let origin_widths = lines.iter().map(|(.., origin)| origin.len());
    let origin_width = origin_widths.filter(|width| *width <= WIDEST_ORIGIN).max().unwrap_or(0);
    for (key, value, origin) in lines {
        crate::print(&hanging(&format!("{key:key_width$}  {origin:origin_width$}  "), &value))?;
    }
    // A plan can be explained without its device.
    if let Ok(selection) = select(&plan.device, &probe()) {
        for UnusedKey { key, reason } in plan.unused_on(selection.id.backend) {
            say(&hanging("note     ", &format!("`{key}` changes nothing: {reason}")));
        }
    }
    let mut config = args.config.clone();
    // Without its data the command would be refused.
    if matches!(plan.task.find_data(None), Err(RunError::NoData { .. })) {
        config.data.get_or_insert_with(|| PathBuf::from("DIR"));
    }
    next(&format!("train{}", config.words()));
    Ok(())
}
