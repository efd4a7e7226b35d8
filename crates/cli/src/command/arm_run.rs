//! A run of `compare` in a process of its own, so that runs do not influence each other.
//!
//! The command sends the plan as a line of JSON, and another line when the run is to save and end.
//! The process ends when its input is closed, which happens when the command ends in whatever way.

use std::io::{Read, Write, stdin};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use clap::Args;
use serde::{Deserialize, Serialize};
use updraft_run::{Plan, Registry};
use updraft_trainer::{Ending, NonFinite};

use super::train::{TrainArgs, refuse_diverged, train};
use crate::child::{Running, apart, ran_out_of_memory, signal, stop_and_end_with_the_command};
use crate::log::LogFile;
use crate::progress::Display;
use crate::stop::{self, Forwarded};
use crate::{BAD_INPUT, Failed, INTERRUPTED};

/// How often signals and the end of the process are looked for.
const POLL: Duration = Duration::from_millis(20);

/// The line that asks a run to save and end.
const STOP: &str = "stop";

/// The hidden command that trains a run of a comparison.
#[derive(Debug, Args)]
pub(crate) struct ArmRunArgs {}

/// What the command sends.
#[derive(Debug, Serialize, Deserialize)]
struct Order {
    /// The plan in TOML.
    plan: String,
    /// The folder for the run folder.
    runs: PathBuf,
}

/// Trains the run that the command sends over standard input.
pub(crate) fn run(registry: Registry, _: &ArmRunArgs, log: &LogFile) -> Result<()> {
    let mut order = String::new();
    stdin().read_line(&mut order).context("the comparison sent no plan")?;
    let order: Order = serde_json::from_str(&order).context("the comparison sent no plan")?;
    stop::leave_the_end_to_the_command();
    stop_and_end_with_the_command().context("cannot wait for the comparison")?;
    let plan = Plan::read(registry, &order.plan, Path::new("the plan of the arm"), &[])?.plan;
    let ignores = plan.train.non_finite == NonFinite::Ignore;
    let trained = train(&TrainArgs::in_folder(order.runs), plan, log, &mut Display::new())?;
    if ignores || trained.ending == Ending::Stopped { Ok(()) } else { refuse_diverged(&trained) }
}

/// Trains a plan in another process, into a run folder in `runs`, and waits for its end.
///
/// The first signal is passed on: the run saves and ends. The second one ends both processes.
///
/// # Errors
/// The error of the run. A run that was stopped because the command was is none.
pub(super) fn train_apart(plan: &Plan, runs: &Path) -> Result<()> {
    let program = std::env::current_exe().context("the program cannot find itself")?;
    let order = Order { plan: plan.to_toml(), runs: runs.to_owned() };
    let order = serde_json::to_string(&order).context("the plan of an arm")?;
    let mut command = Command::new(program);
    command.arg("arm-run").stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    apart(&mut command);
    let _passed_on = Forwarded::begin();
    let mut child = Running(command.spawn().context("cannot start a run")?);
    let missing = || anyhow!("the process of a run has no pipes");
    // Closed when this function returns, after the end of the process.
    let mut input = child.0.stdin.take().ok_or_else(missing)?;
    let mut output = child.0.stderr.take().ok_or_else(missing)?;
    let reader = thread::spawn(move || {
        let mut said = Vec::new();
        // What was read before an error is all that can be reported.
        let _ = output.read_to_end(&mut said);
        said
    });
    // If the process has ended already, the loop below finds its status.
    let _ = writeln!(input, "{order}");
    let mut passed_on = 0;
    let status = loop {
        if let Some(status) = child.0.try_wait().context("waiting for a run")? {
            break status;
        }
        if stop::signals() > passed_on {
            if passed_on > 0 {
                drop(child);
                stop::exit_interrupted();
            }
            // If the process has ended already, its status is found next.
            let _ = writeln!(input, "{STOP}");
            passed_on += 1;
        }
        thread::sleep(POLL);
    };
    let said = reader.join().unwrap_or_default();
    outcome(status, &String::from_utf8_lossy(&said), stop::requested())
}

/// The error of a process that has ended with this status and printed this. After a stop of the
/// command, a process that a signal ended before it could save is none.
fn outcome(status: ExitStatus, said: &str, is_stopping: bool) -> Result<()> {
    let was_stopped = status.code() == Some(INTERRUPTED.into()) || signal(status).is_some();
    if status.success() || (is_stopping && was_stopped) {
        return Ok(());
    }
    let line = said.lines().rev().find_map(|line| line.strip_prefix("error: "));
    let said = match (signal(status), line) {
        (Some(number), _) if ran_out_of_memory(status) => format!(
            "its process was killed by signal {number}, as happens when memory is exhausted: make \
             `train.batch` or the model smaller, or raise the limit"
        ),
        (Some(number), _) => format!("its process was killed by signal {number}"),
        (None, Some(line)) => line.to_owned(),
        (None, None) => {
            let last = said.lines().rev().find(|line| !line.trim().is_empty());
            format!("{status}: {}", last.unwrap_or("it printed nothing"))
        }
    };
    // An error that the user can fix in the run is one that the user can fix in the comparison.
    match status.code() {
        Some(code) if code == i32::from(BAD_INPUT) => bail!(said),
        _ => bail!(Failed(said)),
    }
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::process::ExitStatusExt as _;

    use super::*;

    const SAID: &str = "epoch 1/2  loss 0.5\nerror: cannot write `a`: full\nnote     b\n";

    fn text(status: i32, said: &str, is_stopping: bool) -> Option<String> {
        let ended = outcome(ExitStatus::from_raw(status), said, is_stopping);
        ended.err().map(|error| error.to_string())
    }

    #[test]
    fn only_a_stop_is_no_error_after_a_signal() {
        let code = |code: u8| i32::from(code) << 8;
        for stopped in [0, code(INTERRUPTED), 2, 9] {
            assert_eq!(text(stopped, SAID, true), None, "{stopped}");
        }
        for failed in [code(1), code(BAD_INPUT)] {
            let said = text(failed, SAID, true).expect("an error");
            assert_eq!(said, "cannot write `a`: full");
        }
        let error = |status| outcome(ExitStatus::from_raw(status), SAID, true).expect_err("failed");
        assert!(error(code(1)).is::<Failed>() && !error(code(BAD_INPUT)).is::<Failed>());
        assert!(text(code(INTERRUPTED), SAID, false).is_some(), "the command was not stopped");
    }

    #[test]
    fn a_run_that_was_killed_has_the_signal_and_no_line_of_progress() {
        let killed = text(9, "epoch 1/2  loss 0.5\n", false).expect("an error");
        let words = "its process was killed by signal 9, as happens when memory is exhausted: make";
        assert!(killed.starts_with(words), "{killed}");
        let crashed = text(11, "", false).expect("an error");
        assert_eq!(crashed, "its process was killed by signal 11");
        let other = text(101 << 8, "a panic\n\n", false).expect("an error");
        assert!(other.ends_with(": a panic"), "{other}");
    }
}
