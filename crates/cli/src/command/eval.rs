//! `eval`: a trained model's score on its test data.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use serde_json::json;
use updraft_data::{Progress, ProgressUnit};
use updraft_run::{AnyWorkload, Registry};
use updraft_trainer::{Control, Evaluation};

use super::{OpenedRun, next_on, stopped};
use crate::progress::{Display, evaluation_text};
use crate::stop;
use crate::wrap::hanging;

/// Evaluates a trained model on its test data.
#[derive(Debug, Args)]
pub(crate) struct EvalArgs {
    /// The run folder
    run: PathBuf,
    /// The folder that holds the data
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// The device: auto, flex, cuda:0, ... (`probe` lists them)
    #[arg(long, default_value = "auto")]
    device: String,
    /// Evaluate the checkpoint of this step instead of the served one
    #[arg(long, value_name = "STEP")]
    checkpoint: Option<u64>,
    /// Print JSON instead of a line
    #[arg(long)]
    json: bool,
}

/// Prints the run's plan.
pub(crate) fn dry_run(registry: Registry, args: &EvalArgs) -> Result<()> {
    let at = (args.run.as_path(), args.checkpoint);
    let plan = OpenedRun::dry_run(registry, at, &args.device, &|_| Ok(()))?;
    Ok(plan.task.find_data(args.data.as_deref())?)
}

/// Prints the score to standard output.
pub(crate) fn run(registry: Registry, args: &EvalArgs) -> Result<()> {
    let at = (args.run.as_path(), args.checkpoint);
    let run = OpenedRun::open_at(registry, at, &args.device, &|_| Ok(()))?;
    let mut display = Display::new();
    let workload = run.workload(args.data.as_deref(), &mut display)?;
    let score = score(&*workload, &run, &mut display, "scoring the test data")?;
    if args.json {
        crate::print_json(&json!(score))?;
    } else {
        let (text, samples) = (evaluation_text(&score), workload.about().samples);
        crate::print(&hanging("test ", &format!("{text}, {} {samples}", score.samples)))?;
    }
    let next = if run.plan.quantizer().is_ok() { "quantize" } else { "report" };
    next_on(next, &args.run);
    Ok(())
}

/// Evaluates a run's model with a progress bar.
pub(crate) fn score(
    workload: &dyn AnyWorkload,
    run: &OpenedRun,
    display: &mut Display,
    activity: &str,
) -> Result<Evaluation> {
    let total = workload.about().test_samples as u64;
    let score = workload.evaluate(&run.plan, &run.folder, &run.device, &mut |samples| {
        let progress = Progress { done: samples as u64, total, unit: ProgressUnit::Samples };
        display.preparing(activity, progress);
        if stop::requested() { Control::Stop } else { Control::Continue }
    })?;
    display.clear();
    score.ok_or_else(|| stopped("all test samples were scored"))
}
