//! What a dry run prints: what the command would read, and what it would write where.

use std::fmt::Display;
use std::path::Path;

use anyhow::Result;
use updraft_run::{Plan, Registry, RunError, RunFolder};

use super::{ConfigArgs, device_of};
use crate::wrap::hanging;

/// What a command would read and write.
#[derive(Debug)]
pub(crate) struct Would {
    reads: String,
    writes: String,
}

impl Would {
    pub(crate) fn new(reads: impl Display, writes: impl Display) -> Self {
        Self { reads: reads.to_string(), writes: writes.to_string() }
    }

    /// Prints it to standard output, in lines of at most 80 columns.
    pub(crate) fn print(&self) -> Result<()> {
        crate::print(&hanging("would read   ", &self.reads))?;
        crate::print(&hanging("would write  ", &self.writes))
    }

    /// Prints it as comments of TOML: a plan follows.
    pub(crate) fn print_before_a_plan(&self) -> Result<()> {
        let Self { reads, writes } = self;
        crate::print(&format!("# would read   {reads}\n# would write  {writes}"))
    }
}

/// The source of a plan's data, with its folder.
pub(crate) fn data_of(plan: &Plan, dir: Option<&Path>) -> String {
    let data = plan.table().get("data").and_then(toml::Value::as_table);
    let text = |key: &str| data.and_then(|data| data.get(key)).and_then(toml::Value::as_str);
    let dir = dir.map(|dir| dir.display().to_string());
    match (text("source"), dir.as_deref().or(text("dir"))) {
        (Some(source), Some(dir)) => format!("the data (`{source}`) in {dir}"),
        (Some(source), None) => format!("the data (`{source}`)"),
        (None, _) => "the data of the plan".to_owned(),
    }
}

/// The checkpoint of a run that a command uses.
pub(crate) fn model_of(run: &RunFolder, plan: &Plan) -> Result<String> {
    Ok(format!("the model in {}", run.served_checkpoint(plan)?.display()))
}

/// The configuration that a command was given.
pub(crate) fn config_of(args: &ConfigArgs) -> String {
    match &args.config {
        Some(path) => path.display().to_string(),
        None => "the built-in quickstart".to_owned(),
    }
}

/// What a training would read and write.
pub(crate) fn of_training(
    plan: &Plan,
    config: &ConfigArgs,
    resumed: Option<&Path>,
    runs: &Path,
) -> Would {
    let data = data_of(plan, config.data.as_deref());
    match resumed.map(Path::display) {
        Some(run) => Would::new(format!("the newest checkpoint in {run} and {data}"), run),
        None => {
            let writes = format!("a new run folder in {}", runs.display());
            Would::new(format!("{} and {data}", config_of(config)), writes)
        }
    }
}

/// Checks that the data of a training exists, and for a new run the runs that its keys name.
pub(crate) fn find_inputs(
    plan: &Plan,
    config: &ConfigArgs,
    resumed: Option<&Path>,
) -> Result<(), RunError> {
    match resumed {
        Some(_) => plan.task.find_data(config.data.as_deref()),
        None => plan.find_inputs(config.data.as_deref()),
    }
}

/// The dry run of a command that reads a configuration and its data. The device and the data's files
/// must exist.
pub(crate) fn dry_run_of(
    registry: Registry,
    args: &ConfigArgs,
    writes: impl FnOnce(&Plan) -> String,
) -> Result<()> {
    let plan = args.plan(registry)?.plan;
    device_of(&plan)?;
    let data = data_of(&plan, args.data.as_deref());
    Would::new(format!("{} and {data}", config_of(args)), writes(&plan)).print()?;
    Ok(plan.find_inputs(args.data.as_deref())?)
}
