//! `eval`: a trained model's score on its test data.

use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, ValueEnum};
use serde_json::json;
use updraft_data::{Progress, ProgressUnit, Views};
use updraft_run::{Ability, AnyWorkload, Int8Network, LayerTimes, Plan, Registry};
use updraft_trainer::{Control, Evaluation};

use super::would::{Would, data_of, model_of};
use super::{Int8Args, OpenedRun, next_on, refused_as, stopped};
use crate::progress::{Display, evaluation_text};
use crate::wrap::hanging;
use crate::{layer_table, stop};

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
    /// Also evaluate the mean of the outputs over views of each sample (test-time augmentation);
    /// `tasks` lists the tasks that have views
    #[arg(long, value_name = "VIEWS", conflicts_with = "int8")]
    tta: Option<ViewsArg>,
    /// Trace the first N batches: trace-eval.json in the run folder for Chrome and Perfetto, and the
    /// slowest layers
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..),
          conflicts_with_all = ["int8", "tta"])]
    trace_steps: Option<u64>,
    /// Print JSON instead of a line
    #[arg(long)]
    json: bool,
}

/// The values of `--tta`.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum ViewsArg {
    /// The sample and its horizontal flip
    Flip,
    /// Also both shifted by one pixel up and left, and down and right, with half of the weight
    FlipTranslate,
}

impl From<ViewsArg> for Views {
    fn from(views: ViewsArg) -> Self {
        match views {
            ViewsArg::Flip => Self::Flip,
            ViewsArg::FlipTranslate => Self::FlipTranslate,
        }
    }
}

impl EvalArgs {
    /// Opens the run, and its int8 network if that is asked for.
    fn open(&self, registry: Registry) -> Result<(OpenedRun, Option<Int8Network>)> {
        let check = |plan: &Plan| match (self.int8.int8, self.tta) {
            (true, _) => plan.quantizer().map(drop).map_err(refused_as("eval --int8")),
            (_, Some(_)) => plan.check_ability(Ability::Averaging),
            (false, None) => Ok(()),
        };
        let at = (self.run.as_path(), self.checkpoint);
        let run = OpenedRun::open_at(registry, at, self.int8.device(&self.device), &check)?;
        let network =
            self.int8.int8.then(|| Int8Network::open(&run.folder, &run.plan)).transpose()?;
        Ok((run, network))
    }
}

/// Prints what would be read and written.
pub(crate) fn dry_run(registry: Registry, args: &EvalArgs) -> Result<()> {
    let (OpenedRun { folder, plan, .. }, network) = args.open(registry)?;
    let model = match network {
        Some(_) => format!("the int8 network in {}", folder.path().display()),
        None => model_of(&folder, &plan)?,
    };
    let reads = format!("{model} and {}", data_of(&plan, args.data.as_deref()));
    let writes = match args.trace_steps {
        Some(_) => format!("{}", folder.path().join("trace-eval.json").display()),
        None => "nothing; the metrics are printed".to_owned(),
    };
    Would::new(reads, writes).print()?;
    Ok(plan.task.find_data(args.data.as_deref())?)
}

/// Prints the score to standard output.
pub(crate) fn run(registry: Registry, args: &EvalArgs) -> Result<()> {
    let (run, network) = args.open(registry)?;
    let mut display = Display::new();
    let workload = run.workload(args.data.as_deref(), &mut display)?;
    let scored = match (&network, args.trace_steps) {
        (Some(network), _) => Scored::Int8(network),
        (None, Some(steps)) => Scored::Traced(steps),
        (None, None) => Scored::Model,
    };
    let score = score_of(&*workload, &run, scored, &mut display, ACTIVITY)?;
    let averaged = args.tta.map(|views| {
        let views = Views::from(views);
        let scored = Scored::Averaged(views);
        Ok::<_, anyhow::Error>((views, score_of(&*workload, &run, scored, &mut display, ACTIVITY)?))
    });
    let averaged = averaged.transpose()?;
    if args.json {
        let mut printed = json!(score);
        if let Some((views, score)) = &averaged {
            printed["tta"] = json!({ "views": views, "score": score });
        }
        crate::print_json(&printed)?;
    } else {
        let samples = workload.about().samples;
        let line =
            |score: &Evaluation| format!("{}, {} {samples}", evaluation_text(score), score.samples);
        crate::print(&hanging("test ", &line(&score)))?;
        if let Some((views, score)) = &averaged {
            crate::print(&hanging(&format!("tta {views} "), &line(score)))?;
        }
    }
    if args.trace_steps.is_some() {
        layer_table::show(&run.folder, LayerTimes::OF_EVALUATION, "batch", &display)?;
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
    score_of(workload, run, Scored::Model, display, activity)
}

/// What is evaluated.
enum Scored<'a> {
    /// The run's model.
    Model,
    /// The same, with a trace of the first batches.
    Traced(u64),
    /// Its outputs averaged over several views of each input.
    Averaged(Views),
    /// The int8 network of the run.
    Int8(&'a Int8Network),
}

/// The same, of what is given.
fn score_of(
    workload: &dyn AnyWorkload,
    OpenedRun { folder, plan, device }: &OpenedRun,
    scored: Scored<'_>,
    display: &mut Display,
    activity: &str,
) -> Result<Evaluation> {
    let total = workload.about().test_samples as u64;
    let poll = &mut |samples: usize| {
        let progress = Progress { done: samples as u64, total, unit: ProgressUnit::Samples };
        display.preparing(activity, progress);
        if stop::requested() { Control::Stop } else { Control::Continue }
    };
    let score = match scored {
        Scored::Model => workload.evaluate(plan, folder, device, poll),
        Scored::Traced(steps) => workload.trace_evaluation(plan, folder, steps, device, poll),
        Scored::Averaged(views) => workload.evaluate_averaged(plan, folder, views, device, poll),
        Scored::Int8(network) => workload.evaluate_int8(plan, folder, network, device, poll),
    }?;
    display.clear();
    score.ok_or_else(|| stopped("all test samples were scored"))
}
