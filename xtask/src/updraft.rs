//! The commands of the program `updraft`: built from source, then run.

use std::process::{Command, ExitCode, ExitStatus};

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
            if let Some(signal) = signal(status) {
                complain(&format!(
                    "error: the program was ended by signal {signal}{}",
                    why(signal)
                ));
            }
            // The shell's code for a program that a signal ended is 128 and its number.
            let code = status.code().or_else(|| Some(128 + signal(status)?));
            ExitCode::from(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1))
        }
        Err(error) => {
            complain(&format!("error: `{}` cannot be started: {error}", program.display()));
            ExitCode::FAILURE
        }
    }
}

/// What a signal says that no program can handle, and so none can explain.
fn why(signal: i32) -> &'static str {
    match signal {
        9 => {
            ": the system does so when the memory of the machine or of its container is exhausted; \
             what was saved is whole, and `train --resume` continues from there"
        }
        _ => "",
    }
}

#[cfg(unix)]
fn signal(status: ExitStatus) -> Option<i32> {
    std::os::unix::process::ExitStatusExt::signal(&status)
}

#[cfg(not(unix))]
fn signal(_: ExitStatus) -> Option<i32> {
    None
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
