//! `eval`: a trained model's score on its test data.

use std::path::PathBuf;

use anyhow::{Result, anyhow};
use burn::tensor::Device;
use clap::Args;
use serde_json::json;
use updraft_trainer::{Control, Evaluation, evaluate};

use crate::classifier::Classifier;
use crate::config::{Plan, Task};
use crate::model::TrainedModel;
use crate::progress::Display;
use crate::regression;
use crate::run_folder::RunFolder;
use crate::stop;
use crate::workload::{ImageData, loaders, open_data};

/// Scores a trained model on its test data.
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
    /// Print JSON instead of a line
    #[arg(long)]
    json: bool,
}

/// Prints the score to standard output.
pub(crate) fn run(args: &EvalArgs) -> Result<()> {
    let folder = RunFolder::open(&args.run)?;
    if folder.task()? == Task::TabularRegression {
        return regression::eval(&folder, args.data.as_deref(), &args.device, args.json);
    }
    let trained = TrainedModel::load(&args.run, &args.device)?;
    let mut display = Display::new(1);
    let (plan, dir) = (trained.plan(), args.data.as_deref());
    let data = open_data(plan, dir, Some(&folder), &mut |step, progress| {
        display.preparing(step, progress);
    })?;
    let network = (trained.network(), trained.device());
    let score = score(network, plan, &data, &mut display, "scoring test images")?;
    if args.json {
        crate::print(&json!(score).to_string());
    } else {
        crate::print(&format!(
            "test accuracy {:.2} %, loss {:.4}, {} images",
            100.0 * score.accuracy.unwrap_or(f64::NAN),
            score.loss,
            score.samples,
        ));
    }
    Ok(())
}

/// The score of a network on a plan's test data.
pub(crate) fn score(
    (network, device): (&Classifier, &Device),
    plan: &Plan,
    data: &ImageData,
    display: &mut Display,
    activity: &str,
) -> Result<Evaluation> {
    let (_, test) = loaders(plan, data)?;
    let score = evaluate(
        network,
        &|model, images| model.forward(images),
        &test,
        device,
        plan.precision,
        &mut |samples| {
            let progress = updraft_data::Progress {
                done: samples as u64,
                total: test.samples() as u64,
                unit: updraft_data::ProgressUnit::Images,
            };
            display.preparing(activity, progress);
            if stop::requested() { Control::Stop } else { Control::Continue }
        },
    )?;
    display.clear();
    score.ok_or_else(|| anyhow!("stopped before all test images were scored"))
}
