//! `tasks`: the tasks that there are, and what can be done with each.

use anyhow::Result;
use clap::Args;
use serde_json::json;
use updraft_run::{Ability, Registry};

/// Lists the tasks, and what each of them can not do, with the reason.
#[derive(Debug, Args)]
pub(crate) struct TasksArgs {
    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,
}

/// Prints the table to standard output.
pub(crate) fn run(registry: Registry, args: &TasksArgs) -> Result<()> {
    if args.json {
        let tasks: Vec<_> = registry
            .iter()
            .map(|kind| {
                let refused: Vec<_> = kind.refusals().iter().map(|(ability, reason)| {
                    json!({ "ability": ability.to_string(), "reason": reason })
                }).collect();
                json!({ "task": kind.name(), "about": kind.about(), "refused": refused })
            })
            .collect();
        crate::print(&json!({ "version": 1, "tasks": tasks }).to_string());
        return Ok(());
    }
    for (at, kind) in registry.iter().enumerate() {
        let default = if at == 0 { " (the default)" } else { "" };
        crate::print(&format!("{}{default}: {}", kind.name(), kind.about()));
        for ability in Ability::ALL {
            let answer = kind
                .refusal(ability)
                .map_or_else(|| "yes".to_owned(), |reason| format!("no: {reason}"));
            for (row, line) in wrapped(&answer, 80 - 33).into_iter().enumerate() {
                let name = if row == 0 { ability.to_string() } else { String::new() };
                crate::print(format!("  {name:30} {line}").trim_end());
            }
        }
        if at + 1 < registry.len() {
            crate::print("");
        }
    }
    Ok(())
}

/// A text in lines of at most so many columns, broken between words.
fn wrapped(text: &str, columns: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let line = lines.last_mut().expect("there is a line");
        if !line.is_empty() && line.chars().count() + 1 + word.chars().count() > columns {
            lines.push(word.to_owned());
        } else {
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
    }
    lines
}
