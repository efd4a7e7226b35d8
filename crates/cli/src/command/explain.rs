//! `explain`: every value of a plan and who chose it, or every key that there is.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use toml::Table;

use super::AnyPlanned;
use crate::config::{Task, key_table, origins};

/// Shows every value of a config's plan and where it came from.
#[derive(Debug, Args)]
pub(crate) struct ExplainArgs {
    /// The configuration file [default: the built-in quickstart]
    config: Option<PathBuf>,
    /// Change one value, such as --set train.epochs=3 (repeatable)
    #[arg(long = "set", value_name = "KEY=VALUE")]
    sets: Vec<String>,
    /// Print the keys of a task with their defaults and meanings instead, in Markdown
    #[arg(long, value_name = "TASK", conflicts_with_all = ["config", "sets"])]
    keys: Option<Task>,
}

/// Prints the table to standard output.
pub(crate) fn run(args: &ExplainArgs) -> Result<()> {
    if let Some(task) = args.keys {
        crate::print(key_table(task)?.trim_end());
        return Ok(());
    }
    let (plan, layers, merged) = match super::planned(args.config.as_deref(), &args.sets)? {
        AnyPlanned::Images(planned) => (planned.plan.to_toml(), planned.layers, planned.merged),
        AnyPlanned::Table(planned) => (planned.plan.to_toml(), planned.layers, planned.merged),
    };
    let table: Table = toml::from_str(&plan)?;
    let lines = origins(&table, &layers, &merged);
    let key_width = lines.iter().map(|(key, ..)| key.len()).max().unwrap_or(0);
    let origin_width = lines.iter().map(|(.., origin)| origin.len()).max().unwrap_or(0);
    for (key, value, origin) in lines {
        crate::print(&format!("{key:key_width$}  {origin:origin_width$}  {value}"));
    }
    Ok(())
}
