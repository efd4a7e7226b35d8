//! Results for programs: one line of JSON.

use std::io::{IsTerminal, stdout};

use anyhow::Result;
use clap::Args;
use serde_json::Value;

/// The option of commands whose result also exists as JSON.
#[derive(Debug, Clone, Copy, Default, Args)]
pub(crate) struct JsonArgs {
    /// Print the result as a line of JSON also to a terminal
    #[arg(long)]
    json: bool,
}

impl JsonArgs {
    /// Whether `--json` was typed.
    pub(crate) const fn is_given(self) -> bool {
        self.json
    }

    /// Prints the result to a pipe or file, and to a terminal if `--json` is given.
    pub(crate) fn print(self, result: &Value) -> Result<()> {
        if self.json || !stdout().is_terminal() {
            crate::print_json(result)?;
        }
        Ok(())
    }
}
