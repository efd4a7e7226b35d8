//! `eval`: a trained model's score on its test data.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use serde_json::json;
use updraft_data::{Progress, ProgressUnit};
use updraft_run::{AnyWorkload, Int8Network, Plan, Registry};
use updraft_trainer::{Control, Evaluation};

use super::{Int8Args, OpenedRun, next_on, refused_as, stopped};
use crate::progress::{Display, evaluation_text};
use crate::stop;
use crate::wrap::hanging;

/// The name of the work in the progress bar.
const ACTIVITY: &str = "scoring the test data";

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
    #[command(flatten)]
    int8: Int8Args,
    /// Print JSON instead of a line
    #[arg(long)]
    json: bool,
}

impl EvalArgs {
    /// Opens the run, and its int8 network if that is asked for.
    fn open(&self, registry: Registry) -> Result<(OpenedRun, Option<Int8Network>)> {
        let check = |plan: &Plan| match self.int8.int8 {
            true => plan.quantizer().map(drop).map_err(refused_as("eval --int8")),
            false => Ok(()),
        };
        let at = (self.run.as_path(), self.checkpoint);
        let run = OpenedRun::open_at(registry, at, self.int8.device(&self.device), &check)?;
        let network =
            self.int8.int8.then(|| Int8Network::open(&run.folder, &run.plan)).transpose()?;
        Ok((run, network))
    }
}

/// Prints the run's plan.
pub(crate) fn dry_run(registry: Registry, args: &EvalArgs) -> Result<()> {
    let plan = args.open(registry)?.0.plan;
    crate::print(plan.to_toml().trim_end())?;
    Ok(plan.task.find_data(args.data.as_deref())?)
}

/// Prints the score to standard output.
pub(crate) fn run(registry: Registry, args: &EvalArgs) -> Result<()> {
    let (run, network) = args.open(registry)?;
    let mut display = Display::new();
    let workload = run.workload(args.data.as_deref(), &mut display)?;
    let score = score_of(&*workload, &run, network.as_ref(), &mut display, ACTIVITY)?;
    if args.json {
        crate::print_json(&json!(score))?;
    } else {
        let (text, samples) = (evaluation_text(&score), workload.about().samples);
        crate::print(&hanging("test ", &format!("{text}, {} {samples}", score.samples)))?;
    }
    let is_quantized = run.folder.has(Int8Network::FILE);
    let next = if run.plan.quantizer().is_ok() && !is_quantized { "quantize" } else { "report" };
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
    score_of(workload, run, None, display, activity)
}

/// The same of a run's int8 network, if it is given.
fn score_of(
    workload: &dyn AnyWorkload,
    OpenedRun { folder, plan, device }: &OpenedRun,
    network: Option<&Int8Network>,
    display: &mut Display,
    activity: &str,
) -> Result<Evaluation> {
    let total = workload.about().test_samples as u64;
    let poll = &mut |samples: usize| {
        let progress = Progress { done: samples as u64, total, unit: ProgressUnit::Samples };
        display.preparing(activity, progress);
        if stop::requested() { Control::Stop } else { Control::Continue }
    };
    let score = match network {
        None => workload.evaluate(plan, folder, device, poll),
        Some(network) => workload.evaluate_int8(plan, folder, network, device, poll),
    }?;
    display.clear();
    score.ok_or_else(|| stopped("all test samples were scored"))
}
