//! Starts the program as a child process, watches it, and kills it if asked.

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::command::stopped;
use crate::stop::requested;

/// The longest time that a small run may take; a run that takes longer is assumed to hang.
const PATIENCE: Duration = Duration::from_secs(300);

/// The exit status of a process and its output on standard error.
pub(super) struct Ended {
    pub(super) status: ExitStatus,
    pub(super) said: String,
}

/// Returns a command that runs `train` with arguments; `before` is the program and the arguments
/// that start it, such as a shell script.
pub(super) fn train<S: AsRef<OsStr>>(before: &[S], arguments: &[OsString]) -> Result<Command> {
    let program = std::env::current_exe().context("the program cannot find itself")?;
    let mut command = match before.split_first() {
        None => Command::new(&program),
        Some((first, rest)) => {
            let mut command = Command::new(first);
            command.args(rest).arg(&program);
            command
        }
    };
    command.arg("train").args(arguments).stdin(Stdio::null()).stdout(Stdio::null());
    Ok(command)
}

/// Starts a command and redirects its standard error to a file.
pub(super) fn start(command: &mut Command, log: &Path) -> Result<Child> {
    let file =
        std::fs::File::create(log).map_err(|cause| crate::command::cannot("create", log, cause))?;
    command.stderr(file).spawn().context("the program cannot be started")
}

/// Waits until a process ends, or kills it as soon as `is_over` returns `true`; returns `None` if
/// it was killed.
pub(super) fn watch(
    child: &mut Child,
    log: &Path,
    mut is_over: impl FnMut() -> bool,
) -> Result<Option<Ended>> {
    let begun = Instant::now();
    loop {
        if let Some(status) = child.try_wait().context("waiting for the program")? {
            let said = std::fs::read(log).unwrap_or_default();
            return Ok(Some(Ended { status, said: String::from_utf8_lossy(&said).into_owned() }));
        }
        let is_late = begun.elapsed() > PATIENCE;
        if requested() || is_late || is_over() {
            child.kill().context("killing the program")?;
            child.wait().context("waiting for the program")?;
            if requested() {
                return Err(stopped("all runs were disturbed"));
            }
            if is_late {
                bail!("a run did not end within {} s", PATIENCE.as_secs())
            }
            return Ok(None);
        }
        std::thread::sleep(Duration::from_micros(100));
    }
}
