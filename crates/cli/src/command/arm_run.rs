//! A run of `compare` in a process of its own, so that runs do not influence each other.
//!
//! The command sends the plan as a line of JSON. The process ends when its input is closed, which
//! happens when the command ends in whatever way.

use std::io::{Read, Write, stdin};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use clap::Args;
use serde::{Deserialize, Serialize};
use updraft_run::{Plan, Registry};
use updraft_trainer::{Ending, NonFinite};

use super::train::{TrainArgs, refuse_diverged, train};
use crate::child::{Running, apart, end_with_the_command, interrupt};
use crate::log::LogFile;
use crate::progress::Display;
use crate::stop::{self, Forwarded};
use crate::{BAD_INPUT, Failed};

/// How often signals and the end of the process are looked for.
const POLL: Duration = Duration::from_millis(20);

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
    end_with_the_command();
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
/// The error of the run. A run that was stopped is none.
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
            interrupt(child.0.id());
            passed_on += 1;
        }
        thread::sleep(POLL);
    };
    let said = reader.join().unwrap_or_default();
    if status.success() || stop::requested() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&said);
    let said = said.lines().next_back().unwrap_or("it printed nothing");
    let said = said.strip_prefix("error: ").unwrap_or(said).to_owned();
    // An error that the user can fix in the run is one that the user can fix in the comparison.
    match status.code() {
        Some(code) if code == i32::from(BAD_INPUT) => bail!(said),
        _ => bail!(Failed(said)),
    }
}
