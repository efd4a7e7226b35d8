//! The commands of the program `updraft`: built from source, then run.

use std::process::{Command, ExitCode};

use crate::cargo::Cargo;
use crate::{complain, target};

/// The build that `cargo test --workspace` shares: the same packages, features and profile.
pub(crate) const BUILD: Cargo<'_> = Cargo::new("build --workspace --bin updraft");

/// Builds the program, and runs it in the caller's working directory.
pub(crate) fn run(command: &str, arguments: &[String]) -> ExitCode {
    if let Err(code) = BUILD.run() {
        return code;
    }
    let program = target().join("debug").join(format!("updraft{}", std::env::consts::EXE_SUFFIX));
    let mut process = Command::new(&program);
    process.arg(command).args(arguments);
    call_it_by_its_command(&mut process);
    match process.status() {
        Ok(status) => {
            // If a signal ended the program, the exit code is the shell's code for it.
            let code = status.code().and_then(|code| u8::try_from(code).ok());
            code.map_or(ExitCode::from(130), ExitCode::from)
        }
        Err(error) => {
            complain(&format!("error: `{}` cannot be started: {error}", program.display()));
            ExitCode::FAILURE
        }
    }
}

/// The program prints commands with the name by which it was started.
#[cfg(unix)]
fn call_it_by_its_command(process: &mut Command) {
    use std::os::unix::process::CommandExt;

    process.arg0("cargo xtask");
}

/// On other systems the name cannot be set: the program prints `updraft`.
#[cfg(not(unix))]
fn call_it_by_its_command(_: &mut Command) {}
