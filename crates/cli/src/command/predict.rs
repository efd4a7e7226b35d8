//! `predict`: the predictions of a trained model for each sample of the files.

use std::path::PathBuf;

use anyhow::{Result, ensure};
use clap::Args;
use serde_json::json;
use updraft_run::{Outcome, Predicted, Registry, RunFolder, TrainedModel};

use super::{device_spec, dry_run_on, next_on};
use crate::stop::NothingToSave;
use crate::terminal::name;

/// Predicts the samples of files with a trained model.
#[derive(Debug, Args)]
pub(crate) struct PredictArgs {
    /// The run folder
    run: PathBuf,
    /// The files, of a format that the run's task reads: images, or tables with the run's features
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// How many classes to print for each sample, the most probable first [default: 1]
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..))]
    top: Option<u16>,
    /// The device: auto, flex, cuda:0, ... (`probe` lists them)
    #[arg(long, default_value = "auto")]
    device: String,
    /// Use the checkpoint of this step instead of the one that the run serves
    #[arg(long, value_name = "STEP")]
    checkpoint: Option<u64>,
    /// Print one JSON object a sample
    #[arg(long)]
    json: bool,
}

/// Prints the run's plan and does nothing else.
pub(crate) fn dry_run(registry: Registry, args: &PredictArgs) -> Result<()> {
    device_spec(&args.device)?;
    dry_run_on(registry, &args.run, &|plan| plan.predictor().map(drop)).map(drop)
}

/// Prints a line a sample and class, or a line a sample and number, to standard output.
pub(crate) fn run(registry: Registry, args: &PredictArgs) -> Result<()> {
    device_spec(&args.device)?;
    // What was printed is all that there is: a signal ends the process between two lines or in one.
    let _unasked = NothingToSave::begin();
    let folder = RunFolder::open(&args.run)?.with_checkpoint(args.checkpoint)?;
    let model = TrainedModel::load_from(registry, &folder, &args.device)?;
    ensure!(
        args.top.is_none() || !model.classes().is_empty(),
        "--top is for classes, and `{}` predicts numbers; leave it out",
        args.run.display()
    );
    for file in &args.files {
        for mut predicted in model.predict(file)? {
            if let Outcome::Classes(classes) = &mut predicted.outcome {
                classes.truncate(usize::from(args.top.unwrap_or(1)));
            }
            if args.json {
                crate::print(&json!(predicted).to_string())?;
            } else {
                lines(&predicted).iter().try_for_each(|line| crate::print(line))?;
            }
        }
    }
    next_on("report", &args.run);
    Ok(())
}

/// A line a class or a number.
fn lines(predicted: &Predicted) -> Vec<String> {
    let sample = name(&predicted.sample);
    match &predicted.outcome {
        Outcome::Classes(classes) => classes
            .iter()
            .map(|class| {
                format!("{sample}  {}  {:.1} %", name(&class.class), 100.0 * class.probability)
            })
            .collect(),
        Outcome::Quantities(quantities) => quantities
            .iter()
            .map(|quantity| format!("{sample}  {}  {:.6}", name(&quantity.name), quantity.value))
            .collect(),
        other => vec![format!("{sample}  {}", json!(other))],
    }
}
