//! `predict`: predictions of a trained model.

use std::ops::ControlFlow;
use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::Args;
use updraft_data::is_link_loop;
use updraft_distributed::{Collective, Shared};
use updraft_run::{
    Int8Network, LayerTimes, Plan, PredictionTrace, Registry, RunError, RunFolder, TrainedModel,
};

use super::predict_files::{check_parts, predict_divided};
use super::predict_output::{OutputArgs, Request, run_to_file};
use super::predict_table::run_to_table;
use super::would::{Would, model_of};
use super::{Int8Args, OpenedRun, next_on, refused_as};
use crate::captured::show_captured;
use crate::layer_table;
use crate::predictions::{PartFailed, listed};
use crate::progress::Display;
use crate::stop::NothingToSave;

/// Predicts the samples of files with a trained model.
#[derive(Debug, Args)]
pub(crate) struct PredictArgs {
    /// The run folder
    run: PathBuf,
    /// The files with the samples, in the format of the run's data; a folder stands for its files, and
    /// with --out there is one file
    #[arg(required = true, value_name = "FILE")]
    pub(super) files: Vec<PathBuf>,
    /// Keep finished parts in this folder, and print at the end: the same command continues with the
    /// rest
    #[arg(long, value_name = "DIR", conflicts_with_all = ["out", "trace_steps"])]
    pub(super) parts: Option<PathBuf>,
    /// Number of classes to print for each sample, the most probable first [default: 1]
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..), conflicts_with = "out")]
    pub(super) top: Option<u16>,
    /// The device: auto, flex, cuda:0, ... (`probe` lists them)
    #[arg(long, default_value = "auto")]
    pub(super) device: String,
    /// Use the checkpoint of this step instead of the served one
    #[arg(long, value_name = "STEP")]
    checkpoint: Option<u64>,
    #[command(flatten)]
    pub(super) int8: Int8Args,
    /// Trace the first N files or batches of windows: trace-predict.json in the run folder for Chrome
    /// and Perfetto, and the slowest layers
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..),
          conflicts_with = "int8")]
    trace_steps: Option<u64>,
    /// Record the forward pass once and replay it for inputs of the same shape, with the same results;
    /// a device that records nothing computes as usual, and the reason is printed
    #[arg(long, conflicts_with_all = ["int8", "parts", "trace_steps"])]
    captured: bool,
    /// Print one JSON object per sample
    #[arg(long)]
    pub(super) json: bool,
    #[command(flatten)]
    output: OutputArgs,
}

impl PredictArgs {
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

    /// Whether the same command continues a prediction that was stopped.
    pub(super) fn continues(&self) -> bool {
        self.parts.is_some() || self.output.out.is_some() && self.output.table().is_none()
    }

    /// Opens a run whose task predicts what is asked for, and looks for the files.
    fn open(&self, registry: Registry) -> Result<OpenedRun> {
        let request = self.output.request(&self.files)?;
        let check = |plan: &Plan| {
            let predictor = plan.predictor()?;
            match &request {
                Some(Request::Image(request)) => predictor.check_file(request)?,
                Some(Request::Table(request)) => predictor.check_table(request)?,
                None => predictor.check_samples()?,
            }
            if self.int8.int8 {
                let quantizer = plan.quantizer().map_err(refused_as("predict --int8"))?;
                if let Some(Request::Image(request)) = &request {
                    quantizer.check_file_int8(request)?;
                }
            }
            if self.top.is_some() && !predictor.predicts_classes() {
                let run = self.run.display();
                let reason =
                    format!("--top is for classes, and `{run}` predicts none; leave it out");
                return Err(RunError::Unusable { reason });
            }
            Ok(())
        };
        let at = (self.run.as_path(), self.checkpoint);
        let device = self.int8.device(&self.device);
        let run = OpenedRun::open_at(registry, at, device, &check)
            .map_err(|error| self.int8.advised(&self.run, error))?;
        self.output.check_places(&self.files)?;
        let compared = self.output.truth.iter().chain(&self.output.compare_with);
        for file in self.files.iter().chain(compared.clone()) {
            if file.as_os_str() == "-" && !file.exists() {
                bail!("cannot read `-`: name a file, or `/dev/stdin` for standard input");
            }
            if is_link_loop(file) {
                bail!(
                    "cannot read `{}`: its symbolic links form a loop; name the file itself",
                    file.display()
                );
            }
            if !file.exists() {
                bail!(
                    "cannot read `{}`: there is no such file; name a file with samples like those \
                     that the run was trained on",
                    file.display()
                );
            }
            // A picture or table to compare with is read in any order, which a pipe cannot be.
            let is_compared = compared.clone().any(|it| it == file);
            if is_compared && !file.is_file() && !file.is_dir() {
                bail!(
                    "cannot read `{}`: it is not a regular file; save its content as one, and name \
                     that",
                    file.display()
                );
            }
            if file.is_dir() && request.is_some() {
                bail!("cannot read `{}`: it is a folder; name one of its files", file.display());
            }
        }
        Ok(run)
    }

    /// Loads the model that predicts.
    pub(super) fn load(
        &self,
        registry: Registry,
        run: &OpenedRun,
        device: &str,
    ) -> Result<TrainedModel, RunError> {
        if self.int8.int8 {
            return TrainedModel::load_int8_from(registry, &run.folder);
        }
        let mut model = TrainedModel::load_from(registry, &run.folder, device)?;
        if self.captured {
            model.capture()?;
        }
        Ok(model)
    }

    /// Prints how captured forward passes were computed.
    pub(super) fn show_captured(model: &TrainedModel) {
        if let Some(report) = model.capture_report() {
            show_captured(&report);
        }
    }

    pub(super) fn trace(
        &self,
        model: &TrainedModel,
        folder: &RunFolder,
    ) -> Result<Option<PredictionTrace>> {
        Ok(self.trace_steps.map(|steps| model.trace(folder, steps)).transpose()?)
    }
}

/// Prints what would be read and written.
pub(crate) fn dry_run(registry: Registry, args: &PredictArgs) -> Result<()> {
    let run = args.open(registry)?;
    if args.int8.int8 {
        Int8Network::open(&run.folder, &run.plan)?;
    }
    let model = match args.int8.int8 {
        true => format!("the int8 network in {}", run.folder.path().display()),
        false => model_of(&run.folder, &run.plan)?,
    };
    let files: Vec<String> = args.files.iter().map(|file| file.display().to_string()).collect();
    let reads = format!("{model} and {}", files.join(", "));
    match &args.output.out {
        Some(out) => Would::new(reads, out.display()).print(),
        None => {
            check_parts(args, &run, &listed(&args.files)?)?;
            let writes = match &args.parts {
                Some(parts) => format!("parts of the predictions in {}", parts.display()),
                None => "nothing; the predictions are printed".to_owned(),
            };
            Would::new(reads, writes).print()
        }
    }
}

/// Prints one line per sample and class, or per sample and number, to standard output.
pub(crate) fn run(registry: Registry, args: &PredictArgs) -> Result<()> {
    let mut run = args.open(registry)?;
    let ranks = run.connect(args.int8.device(&args.device))?;
    let is_first = ranks.collective().rank() == 0;
    let predicted = predict(registry, args, &run, &mut ranks.collective());
    // Rank 0 reports a part that failed, after it has printed those before it.
    let predicted = match predicted {
        Err(error) if !is_first && error.is::<PartFailed>() => Ok(()),
        predicted => predicted,
    };
    ranks.finish(predicted)?;
    if is_first {
        next_on("report", &args.run);
    }
    Ok(())
}

fn predict(
    registry: Registry,
    args: &PredictArgs,
    run: &OpenedRun,
    ranks: &mut Shared,
) -> Result<()> {
    args.refuse_on_ranks(ranks.size())?;
    match args.output.request(&args.files)? {
        Some(Request::Image(request)) => {
            return run_to_file(registry, args, (run, ranks), &request);
        }
        Some(Request::Table(request)) => {
            return run_to_table(registry, args, (run, ranks), &request);
        }
        None => {}
    }
    // There is nothing to save: a signal ends the process at once.
    let _unasked = NothingToSave::begin();
    let files = listed(&args.files)?;
    if ranks.size() > 1 || args.parts.is_some() {
        let device = device_of(args, run, ranks.size());
        return predict_divided(args, || args.load(registry, run, &device), (run, ranks), files);
    }
    let model = args.load(registry, run, &args.device)?;
    let mut trace = args.trace(&model, &run.folder)?;
    for file in &files {
        let mut printed = Ok(());
        model.predict_each(file, &mut |predicted| {
            printed = args.rendered(predicted).iter().try_for_each(|line| crate::print(line));
            match printed {
                Ok(()) => ControlFlow::Continue(()),
                Err(_) => ControlFlow::Break(()),
            }
        })?;
        printed?;
        trace.as_mut().map_or(Ok(()), PredictionTrace::add)?;
    }
    PredictArgs::show_captured(&model);
    show_layers(trace, &run.folder, "file")
}

/// The device of a rank: among several, the one chosen by the number of the rank on its machine.
pub(super) fn device_of(args: &PredictArgs, run: &OpenedRun, ranks: usize) -> String {
    match ranks {
        1 => args.device.clone(),
        _ => run.selection.id.to_string(),
    }
}

/// Completes a trace and prints the slowest layers.
pub(super) fn show_layers(
    trace: Option<PredictionTrace>,
    folder: &RunFolder,
    step: &str,
) -> Result<()> {
    if let Some(mut trace) = trace {
        trace.finish()?;
        layer_table::show(folder, LayerTimes::OF_PREDICTION, step, &Display::new())?;
    }
    Ok(())
}
