//! The commands of the program `updraft`: built from source, then run.

use std::process::{Command, ExitCode};

use crate::cargo::Cargo;
use crate::{complain, target};

/// The build that `cargo test --workspace` shares: the same packages, features and profile.
pub(crate) const BUILD: Cargo<'_> = Cargo::new("build --workspace --bin updraft");

/// Builds the program quietly if it is up to date, and runs it where the caller stands.
pub(crate) fn run(command: &str, arguments: &[String]) -> ExitCode {
    if let Err(code) = BUILD.run() {
        return code;
    }
    let program = target().join("debug").join(format!("updraft{}", std::env::consts::EXE_SUFFIX));
    match Command::new(&program).arg(command).args(arguments).status() {
        Ok(status) => {
            // A signal that ended the program ends with the shell's code for it.
            let code = status.code().and_then(|code| u8::try_from(code).ok());
            code.map_or(ExitCode::from(130), ExitCode::from)
        }
        Err(error) => {
            complain(&format!("error: `{}` cannot be started: {error}", program.display()));
            ExitCode::FAILURE
        }
    }
}
