//! One run of cargo in the workspace.

use std::ffi::OsString;
use std::process::{Command, ExitCode, ExitStatus, Stdio};

use serde_json::Value;

use crate::{complain, root};

/// Arguments of cargo, and the environment they need.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cargo<'a> {
    /// As typed, separated by single spaces.
    pub(crate) arguments: &'a str,
    /// Name and value of variables.
    pub(crate) environment: &'a [(&'a str, &'a str)],
}

impl<'a> Cargo<'a> {
    pub(crate) const fn new(arguments: &'a str) -> Self {
        Self { arguments, environment: &[] }
    }

    /// The command as one would type it.
    pub(crate) fn typed(&self) -> String {
        let environment = self.environment.iter().map(|(name, value)| format!("{name}='{value}' "));
        format!("{}cargo {}", environment.collect::<String>(), self.arguments)
    }

    /// Runs it; the error says how it ended.
    pub(crate) fn run(&self) -> Result<(), ExitCode> {
        let status = self.command().status().map_err(not_started)?;
        self.succeeded(status)
    }

    /// Runs it and returns the lines of JSON that it prints; what compilers say is shown.
    pub(crate) fn messages(&self) -> Result<Vec<Value>, ExitCode> {
        let output = self.command().stderr(Stdio::inherit()).output().map_err(not_started)?;
        self.succeeded(output.status)?;
        let text = String::from_utf8_lossy(&output.stdout);
        Ok(text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect())
    }

    fn command(&self) -> Command {
        let mut command = Command::new(program());
        command.args(self.arguments.split(' '));
        command.envs(self.environment.iter().copied()).current_dir(root());
        command
    }

    fn succeeded(&self, status: ExitStatus) -> Result<(), ExitCode> {
        if status.success() {
            return Ok(());
        }
        complain(&format!("error: `{}` failed ({status})", self.typed()));
        Err(ExitCode::FAILURE)
    }
}

fn not_started(error: std::io::Error) -> ExitCode {
    complain(&format!("error: cargo cannot be started: {error}"));
    ExitCode::FAILURE
}

/// The cargo that runs us, so that a toolchain chosen by `cargo +…` stays chosen.
pub(crate) fn program() -> OsString {
    std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}
