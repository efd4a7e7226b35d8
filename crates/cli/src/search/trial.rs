//! The trial's side of the protocol with its study, over standard input and output.
//!
//! The study sends the plan as a line of JSON. The trial sends a line after each epoch and waits
//! for a reply, so that pruning always takes effect at that epoch. The input is closed when the
//! study's process ends; the trial then exits.

use std::cell::RefCell;
use std::io::{BufRead, stdin};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, channel};

use anyhow::{Context, Result, anyhow};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use updraft_run::{Plan, Registry};
use updraft_trainer::{Control, Criterion, Ending, Event, Split};

use crate::child::says_storage_failed;
use crate::command::train::{TrainArgs, train_watched};
use crate::log::LogFile;
use crate::progress::Display;

/// The study's reply after an epoch if the trial continues.
pub(super) const CONTINUE: &str = "continue";
/// The study's reply if the trial must stop.
pub(super) const STOP: &str = "stop";

/// The exit code of a trial whose study ended.
const LEFT_ALONE: i32 = 3;

/// The first line that the study sends: the run to train.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Order {
    /// The plan in TOML.
    pub(super) plan: String,
    /// The folder for the run folder.
    pub(super) runs: PathBuf,
    /// Names of the study's objectives.
    pub(super) objectives: Vec<String>,
}

/// A line that a trial sends.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Message {
    /// An epoch is over; the trial waits for a reply.
    Epoch {
        /// The epoch, counted from 1.
        epoch: u64,
        /// The first objective, if it is a metric with a finite value.
        value: Option<f64>,
    },
    /// The run is over.
    Over {
        /// Its folder.
        run: PathBuf,
        /// Whether it was stopped early.
        is_stopped: bool,
        /// The objectives; `None` for one that is not a number.
        values: Vec<Option<f64>>,
        /// Wall time of the run in seconds.
        seconds: f64,
    },
    /// The storage of the study is full or does not work: no fault of this trial.
    StorageFailed {
        /// The error.
        reason: String,
    },
}

/// Trains the run that the study sends.
pub(crate) fn work(registry: Registry, log: &LogFile) -> Result<()> {
    let answers = answers();
    let worked = train(registry, log, &answers);
    if let Err(error) = &worked {
        let reason = format!("{error:#}");
        // Sent, because a full storage keeps no standard error, either.
        if says_storage_failed(&reason) {
            send(&Message::StorageFailed { reason })?;
        }
    }
    worked
}

fn train(registry: Registry, log: &LogFile, answers: &Receiver<String>) -> Result<()> {
    let order = answers.recv().context("the study sent no plan")?;
    let order: Order = serde_json::from_str(&order).context("the study sent no plan")?;
    let place = Path::new("the plan of the trial");
    let plan = Plan::read(registry, &order.plan, place, &[])?.plan;
    let first: Option<Criterion> = order.objectives[0].parse().ok();
    let last_epoch = RefCell::new(None);
    let mut failure = None;
    let mut watch = |event: &Event| {
        let Event::Epoch(report) = event else { return Control::Continue };
        *last_epoch.borrow_mut() = Some(report.clone());
        let value = first.as_ref().and_then(|it| it.value(report));
        let value = value.filter(|value| value.is_finite());
        match send(&Message::Epoch { epoch: report.epoch + 1, value }) {
            Ok(()) if answers.recv().is_ok_and(|answer| answer == CONTINUE) => Control::Continue,
            Ok(()) => Control::Stop,
            Err(error) => {
                failure = Some(error);
                Control::Stop
            }
        }
    };
    let args = TrainArgs::in_folder(order.runs);
    let trained = train_watched(&args, plan, log, &mut Display::new(), &mut watch)?;
    if let Some(error) = failure {
        return Err(error);
    }
    let summary: Value = trained.folder.read_json("summary.json")?;
    let last_epoch = last_epoch.into_inner();
    let value = |name: &String| match name.parse::<Criterion>() {
        Ok(criterion) if criterion.split == Split::Train => {
            last_epoch.as_ref().and_then(|report| criterion.value(report))
        }
        Ok(criterion) => summary["test"][&criterion.metric].as_f64(),
        Err(_) if name == "seconds" => summary["wall_s"].as_f64(),
        Err(_) => summary[name].as_f64(),
    };
    send(&Message::Over {
        run: trained.folder.path().to_owned(),
        is_stopped: trained.ending == Ending::Stopped,
        values: order.objectives.iter().map(value).collect(),
        seconds: trained.wall_s,
    })
}

fn send(message: &Message) -> Result<()> {
    let line = serde_json::to_string(message).map_err(|error| anyhow!("a message: {error}"))?;
    crate::print(&line)
}

/// Receives the lines of standard input. The process exits when the input is closed.
fn answers() -> Receiver<String> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        for line in stdin().lock().lines() {
            if line.ok().and_then(|line| sender.send(line).ok()).is_none() {
                break;
            }
        }
        std::process::exit(LEFT_ALONE);
    });
    receiver
}
