//! `tasks`: the tasks, and what each supports.

use anyhow::Result;
use clap::Args;
use serde_json::json;
use updraft_run::{Ability, Registry, TaskKind};

use crate::program::next;
use crate::wrap::hanging;

/// The commands that every task supports, by the traits of a task.
const ALWAYS: [&str; 19] = [
    "train",
    "train --resume",
    "launch",
    "eval",
    "report",
    "explain",
    "lr-find",
    "batch-find",
    "train.auto_batch",
    "compare",
    "compare-options",
    "batch-sweep",
    "scale-estimate",
    "tune-performance",
    "tune",
    "validate",
    "warm-up",
    "verify",
    "endure",
];

/// Lists the tasks, and what each of them does not support, with the reason.
#[derive(Debug, Args)]
pub(crate) struct TasksArgs {
    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,
}

/// Prints the table to standard output.
pub(crate) fn run(registry: Registry, args: &TasksArgs) -> Result<()> {
    if args.json {
        let task = |kind: &&'static dyn TaskKind| {
            let refused = kind.refusals()?.into_iter().map(
                |(ability, reason)| json!({ "ability": ability.to_string(), "reason": reason }),
            );
            let refused: Vec<_> = refused.collect();
            let limited = Ability::ALL.into_iter().filter_map(|ability| {
                let to = kind.limited_to(ability)?;
                Some(json!({ "ability": ability.to_string(), "to": to }))
            });
            let limited: Vec<_> = limited.collect();
            Ok(json!({ "task": kind.name(), "about": kind.about(), "refused": refused,
                       "limited": limited }))
        };
        let tasks: Vec<_> = registry.iter().map(task).collect::<Result<_>>()?;
        crate::print_json(&json!({ "version": 1, "tasks": tasks }))?;
        return Ok(());
    }
    for (at, kind) in registry.iter().enumerate() {
        let default = if at == 0 { " (the default)" } else { "" };
        crate::print(&format!("{}{default}: {}", kind.name(), kind.about()))?;
        let refusals = kind.refusals()?;
        for ability in Ability::ALL {
            let refused = refusals.iter().find(|(refused, _)| *refused == ability);
            let answer = match (refused, kind.limited_to(ability)) {
                (Some((_, reason)), _) => format!("no: {reason}"),
                (None, Some(models)) => format!("yes, for {models}"),
                (None, None) => "yes".to_owned(),
            };
            crate::print(&hanging(&format!("  {:30} ", ability.to_string()), &answer))?;
        }
        crate::print("")?;
    }
    crate::print(&hanging("every task: ", &ALWAYS.join(", ")))?;
    // A task may have models with batch norms and models without.
    let settings = "a plan whose model cannot do what it asks for is refused with the reason";
    crate::print(&hanging("settings:   ", settings))?;
    next(&format!("explain --keys {}", registry[0].name()));
    Ok(())
}
