//! One run of cargo in the workspace.

use std::ffi::OsString;
use std::process::{Command, ExitCode};

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
        let status = Command::new(program())
            .args(self.arguments.split(' '))
            .envs(self.environment.iter().copied())
            .current_dir(root())
            .status();
        match status {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => {
                complain(&format!("error: `{}` failed ({status})", self.typed()));
                Err(ExitCode::FAILURE)
            }
            Err(error) => {
                complain(&format!("error: cargo cannot be started: {error}"));
                Err(ExitCode::FAILURE)
            }
        }
    }
}

/// The cargo that runs us, so that a toolchain chosen by `cargo +…` stays chosen.
pub(crate) fn program() -> OsString {
    std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}
