//! The study's side of a trial: starts its process, replies to its messages, and reads its result.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use updraft_tune::{PruneDecision, Study, Trial};

use super::trial::{CONTINUE, Message, Order, STOP};
use crate::child::{Running, apart, signal};
use crate::stop;

/// The file with the standard error of a trial's process.
const OUTPUT: &str = "output.txt";

/// The interval at which a stop request is checked.
const PATIENCE: Duration = Duration::from_millis(100);

/// The end of a trial's process.
#[derive(Debug)]
pub(super) enum Ended {
    /// The run is over.
    Over {
        /// The run's folder.
        run: PathBuf,
        /// Whether it was pruned.
        is_pruned: bool,
        /// The objectives.
        values: Vec<Option<f64>>,
        /// Wall time of the run in seconds.
        seconds: f64,
    },
    /// The trial has no result, for this reason.
    Failed(String),
    /// The storage is full or does not work, which is no fault of the trial.
    StorageFailed(String),
    /// The study is being stopped.
    Interrupted,
}

/// What ends the messages of a trial's process.
#[derive(Debug)]
enum Heard {
    /// The run is over: the fields of [`Message::Over`].
    Over { run: PathBuf, is_stopped: bool, values: Vec<Option<f64>>, seconds: f64 },
    /// The study is asked to stop.
    Stop,
    /// The storage is full or does not work.
    StorageFailed(String),
    /// The process closed its output.
    Closed,
}

/// Trains a trial in a separate process.
pub(super) fn run(
    study: &Study,
    trial: &Trial,
    order: &Order,
    threads: Option<usize>,
) -> Result<Ended> {
    let program = std::env::current_exe().context("the program cannot find itself")?;
    std::fs::create_dir_all(&order.runs)
        .map_err(|cause| crate::command::cannot("create", &order.runs, cause))?;
    let output = order.runs.join(OUTPUT);
    let file = File::create(&output).map_err(|it| crate::command::cannot("write", &output, it))?;
    let mut command = Command::new(program);
    command.arg("tune-trial").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(file);
    if let Some(threads) = threads {
        command.env("RAYON_NUM_THREADS", threads.to_string());
    }
    apart(&mut command);
    let mut child = Running(command.spawn().context("cannot start the process of a trial")?);
    let missing = || anyhow!("the process of a trial has no pipes");
    let mut input = child.0.stdin.take().ok_or_else(missing)?;
    let messages = child.0.stdout.take().ok_or_else(missing)?;
    // If the process has ended already, the loop below notices that its output is closed.
    let order = serde_json::to_string(order).context("the plan of a trial")?;
    let _ = writeln!(input, "{order}");
    let (sender, received) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(messages).lines() {
            if line.ok().and_then(|line| sender.send(line).ok()).is_none() {
                break;
            }
        }
    });
    let mut is_pruned = false;
    let heard = listen(&received, &stop::requested, &mut |epoch| {
        is_pruned = answer(study, trial, epoch, &mut input)?;
        Ok(())
    })?;
    match heard {
        Heard::Over { run, is_stopped, values, seconds } => {
            // The run folder is complete. The process exits when its input is closed.
            drop(input);
            let _ = child.0.wait();
            let is_pruned = is_pruned && is_stopped;
            Ok(match is_stopped && !is_pruned {
                true => Ended::Interrupted,
                false => Ended::Over { run, is_pruned, values, seconds },
            })
        }
        Heard::Stop => Ok(Ended::Interrupted),
        Heard::StorageFailed(reason) => Ok(Ended::StorageFailed(reason)),
        Heard::Closed => {
            let status = child.0.wait().context("the process of a trial")?;
            if stop::requested() {
                return Ok(Ended::Interrupted);
            }
            Ok(Ended::Failed(reason(status, &output)))
        }
    }
}

/// Passes on the epochs of a trial until its last message, its end or a stop request.
fn listen(
    messages: &Receiver<String>,
    is_stopping: &dyn Fn() -> bool,
    epoch_ended: &mut dyn FnMut((u64, Option<f64>)) -> Result<()>,
) -> Result<Heard> {
    loop {
        match messages.recv_timeout(PATIENCE) {
            Ok(line) => match serde_json::from_str(&line) {
                // Short epochs leave no pause in which the timeout would notice the request.
                Ok(Message::Epoch { .. }) if is_stopping() => return Ok(Heard::Stop),
                Ok(Message::Epoch { epoch, value }) => epoch_ended((epoch, value))?,
                Ok(Message::Over { run, is_stopped, values, seconds }) => {
                    return Ok(Heard::Over { run, is_stopped, values, seconds });
                }
                Ok(Message::StorageFailed { reason }) => {
                    return Ok(Heard::StorageFailed(reason));
                }
                // Other output is ignored.
                Err(_) => {}
            },
            Err(RecvTimeoutError::Timeout) if is_stopping() => return Ok(Heard::Stop),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Ok(Heard::Closed),
        }
    }
}

/// Replies to the message of an epoch; returns whether the trial must stop.
fn answer(
    study: &Study,
    trial: &Trial,
    (epoch, value): (u64, Option<f64>),
    input: &mut ChildStdin,
) -> Result<bool> {
    let decision = match value {
        Some(value) => study.report(trial, epoch, value)?,
        None => PruneDecision::Continue,
    };
    let answer = if decision == PruneDecision::Prune { STOP } else { CONTINUE };
    let _ = writeln!(input, "{answer}");
    Ok(decision == PruneDecision::Prune)
}

/// Why a process ended without a result: its error message, its signal, or its last line.
fn reason(status: ExitStatus, output: &Path) -> String {
    let said = std::fs::read(output).unwrap_or_default();
    let said = String::from_utf8_lossy(&said);
    let line = said.lines().rev().find_map(|line| line.strip_prefix("error: "));
    match (line, signal(status)) {
        (Some(line), _) => line.to_owned(),
        (None, Some(signal)) => format!("its process was killed by signal {signal}"),
        (None, None) => {
            let last = said.lines().rev().find(|line| !line.trim().is_empty());
            format!("{status}: {}", last.unwrap_or("it printed nothing"))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn a_stop_request_ends_a_trial_that_never_pauses() {
        let (sender, received) = channel();
        for epoch in 1..=100 {
            let message = Message::Epoch { epoch, value: Some(0.5) };
            sender.send(serde_json::to_string(&message).expect("JSON")).expect("open");
        }
        // Without a sender, a listener that ignores the request returns, too.
        drop(sender);
        let epochs = Cell::new(0);
        let is_stopping = || epochs.get() == 3;
        let heard = listen(&received, &is_stopping, &mut |_| {
            epochs.set(epochs.get() + 1);
            Ok(())
        });
        assert!(matches!(heard, Ok(Heard::Stop)), "{heard:?}");
        assert_eq!(epochs.get(), 3, "it listened on");
    }

    #[test]
    fn a_storage_that_failed_is_no_failure_of_the_trial() {
        let (sender, received) = channel();
        let failed = Message::StorageFailed { reason: "full".to_owned() };
        sender.send(serde_json::to_string(&failed).expect("JSON")).expect("open");
        let heard = listen(&received, &|| false, &mut |_| Ok(()));
        assert!(
            matches!(&heard, Ok(Heard::StorageFailed(reason)) if reason == "full"),
            "{heard:?}"
        );
    }

    #[test]
    fn a_result_that_is_complete_counts_after_a_stop_request() {
        let (sender, received) = channel();
        let over =
            Message::Over { run: "r".into(), is_stopped: false, values: Vec::new(), seconds: 1.0 };
        sender.send(serde_json::to_string(&over).expect("JSON")).expect("open");
        let heard = listen(&received, &|| true, &mut |_| Ok(()));
        assert!(matches!(heard, Ok(Heard::Over { .. })), "{heard:?}");
    }
}
