//! `eval`: a trained model's score on its test data.

use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::{Args, ValueEnum};
use serde_json::json;
use updraft_data::{Progress, ProgressUnit, Views};
use updraft_device::{Backend, DeviceSpec};
use updraft_distributed::{Alone, Collective, Shared};
use updraft_run::{
    Ability, AnyWorkload, EvaluatedForm, Int8Network, LayerTimes, Plan, RankEvaluation, Registry,
};
use updraft_trainer::{CaptureReport, Control, Evaluation};

use super::would::{Would, data_of, model_of};
use super::{Int8Args, OpenedRun, device_spec, next_on, refused_as, stopped};
use crate::captured::show_captured;
use crate::device::choose_for_rank;
use crate::progress::{Display, evaluation_text};
use crate::stop::NothingToSave;
use crate::wrap::hanging;
use crate::{contribution_table, layer_table, stop};

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
    /// Use the int8 network that `quantize` wrote: on the CPU, or on the GPU that --device names
    #[arg(long, conflicts_with = "checkpoint")]
    int8: bool,
    /// Also evaluate the mean of the outputs over views of each sample (test-time augmentation);
    /// `tasks` lists the tasks that have views
    #[arg(long, value_name = "VIEWS", conflicts_with = "int8")]
    tta: Option<ViewsArg>,
    /// Trace the first N batches: trace-eval.json in the run folder for Chrome and Perfetto, and the
    /// slowest layers
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..),
          conflicts_with_all = ["int8", "tta"])]
    trace_steps: Option<u64>,
    /// Record the forward pass once and replay it for batches of the same shape, with the same score;
    /// a device that records nothing computes as usual, and the reason is printed
    #[arg(long, conflicts_with_all = ["int8", "tta", "trace_steps"])]
    captured: bool,
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
    /// Returns an error for options that several ranks do not support.
    pub(super) fn refuse_on_ranks(&self, ranks: usize) -> Result<()> {
        if ranks > 1 && self.trace_steps.is_some() {
            bail!("`--trace-steps` needs a single rank");
        }
        if ranks > 1 && self.captured {
            bail!("`--captured` needs a single rank");
        }
        Ok(())
    }

    /// Opens the run, and its int8 network if that is asked for.
    fn open(&self, registry: Registry) -> Result<(OpenedRun, Option<Int8Network>)> {
        let int8 = Int8Args::of(self.int8);
        let check = |plan: &Plan| match (self.int8, self.tta) {
            (true, _) => plan.quantizer().map(drop).map_err(refused_as("eval --int8")),
            (_, Some(_)) => plan.check_ability(Ability::Averaging),
            (false, None) => Ok(()),
        };
        let at = (self.run.as_path(), self.checkpoint);
        let run = OpenedRun::open_at(registry, at, int8.device(&self.device), &check)
            .map_err(|error| int8.advised(&self.run, error))?;
        let network = self.int8.then(|| Int8Network::open(&run.folder, &run.plan)).transpose()?;
        Ok((run, network))
    }

    /// The int8 network on the GPU that `--device` names, for a rank by its number on its machine;
    /// on the CPU if it names none.
    fn placed(&self, network: Int8Network, local_rank: Option<usize>) -> Result<Int8Network> {
        let spec = device_spec(&self.device)?;
        if matches!(spec, DeviceSpec::Auto | DeviceSpec::Cpu) {
            return Ok(network);
        }
        let (device, selection) = choose_for_rank(&spec, local_rank)?;
        match selection.id.backend {
            Backend::Flex => Ok(network),
            _ => Ok(network.on_device(&device)?),
        }
    }
}

/// Prints what would be read and written.
pub(crate) fn dry_run(registry: Registry, args: &EvalArgs) -> Result<()> {
    let (OpenedRun { folder, plan, .. }, network) = args.open(registry)?;
    let model = match network {
        Some(network) => {
            args.placed(network, None)?;
            format!("the int8 network in {}", folder.path().display())
        }
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
    let (mut run, network) = args.open(registry)?;
    let ranks = run.connect(Int8Args::of(args.int8).device(&args.device))?;
    let placed = network.map(|network| args.placed(network, ranks.local_rank()));
    let network = placed.transpose()?;
    let mut display = Display::new();
    let scored = evaluate(args, &run, network.as_ref(), &mut ranks.collective(), &mut display);
    let is_first = ranks.collective().rank() == 0;
    let Scores { samples, score, averaged } = ranks.finish(scored)?;
    if !is_first {
        return Ok(());
    }
    if args.json {
        let mut printed = json!(score);
        if let Some((views, score)) = &averaged {
            printed["tta"] = json!({ "views": views, "score": score });
        }
        crate::print_json(&printed)?;
    } else {
        let line =
            |score: &Evaluation| format!("{}, {} {samples}", evaluation_text(score), score.samples);
        crate::print(&hanging("test ", &line(&score)))?;
        if let Some((views, score)) = &averaged {
            crate::print(&hanging(&format!("tta {views} "), &line(score)))?;
        }
        // An int8 network has other weights than those that were recorded.
        if network.is_none() {
            contribution_table::show(&run.folder, &run.plan, args.checkpoint, &display);
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

/// What is printed.
struct Scores {
    /// The name of samples.
    samples: &'static str,
    score: Evaluation,
    averaged: Option<(Views, Evaluation)>,
}

/// Evaluates what is asked for, together with the other ranks.
fn evaluate(
    args: &EvalArgs,
    run: &OpenedRun,
    network: Option<&Int8Network>,
    ranks: &mut Shared,
    display: &mut Display,
) -> Result<Scores> {
    args.refuse_on_ranks(ranks.size())?;
    // A rank that stops leaves the others without a score: the signal ends all of them.
    let _unasked = (ranks.size() > 1).then(NothingToSave::begin);
    let workload = run.workload_on(ranks, args.data.as_deref(), display)?;
    let mut report = CaptureReport::default();
    let scored = match (network, args.trace_steps) {
        (Some(network), _) => Scored::Form(EvaluatedForm::Int8(network), None),
        (None, Some(steps)) => Scored::Traced(steps),
        (None, None) => Scored::Form(EvaluatedForm::Served, args.captured.then_some(&mut report)),
    };
    let mut score = |scored| score_of(&*workload, (run, ranks), scored, display, ACTIVITY);
    let all = score(scored)?;
    let averaged = args.tta.map(Views::from);
    let averaged = averaged.map(|views| {
        anyhow::Ok((views, score(Scored::Form(EvaluatedForm::Averaged(views), None))?))
    });
    let averaged = averaged.transpose()?;
    if args.captured {
        show_captured(&report);
    }
    Ok(Scores { samples: workload.about().samples, score: all, averaged })
}

/// Evaluates a run's model with a progress bar.
pub(crate) fn score(
    workload: &dyn AnyWorkload,
    run: &OpenedRun,
    display: &mut Display,
    activity: &str,
) -> Result<Evaluation> {
    let scored = Scored::Form(EvaluatedForm::Served, None);
    score_of(workload, (run, &mut Shared::new(Alone)), scored, display, activity)
}

/// What is evaluated.
enum Scored<'a> {
    /// The run's model or its int8 network; with a report, the forward pass is captured.
    Form(EvaluatedForm<'a>, Option<&'a mut CaptureReport>),
    /// The run's model, with a trace of the first batches.
    Traced(u64),
}

/// The same, of what is given, on ranks that divide the batches.
fn score_of(
    workload: &dyn AnyWorkload,
    (OpenedRun { folder, plan, device, selection }, ranks): (&OpenedRun, &mut Shared),
    scored: Scored<'_>,
    display: &mut Display,
    activity: &str,
) -> Result<Evaluation> {
    let total = workload.about().test_samples as u64;
    let (is_first, size) = (ranks.rank() == 0, ranks.size());
    let poll = &mut |samples: usize| {
        if is_first {
            // The ranks have equally many batches, or one fewer.
            let done = total.min((samples * size) as u64);
            let progress = Progress { done, total, unit: ProgressUnit::Samples };
            display.preparing(activity, progress);
        }
        if stop::requested() { Control::Stop } else { Control::Continue }
    };
    let score = match scored {
        Scored::Traced(steps) => workload.trace_evaluation(plan, folder, steps, device, poll),
        Scored::Form(form, captured) => {
            let collective: &mut dyn Collective = ranks;
            let evaluation =
                RankEvaluation { plan, folder, form, device, selection, collective, captured };
            workload.evaluate_on_ranks(evaluation, poll)
        }
    }?;
    display.clear();
    score.ok_or_else(|| stopped("all test samples were scored"))
}
