//! `quantize`: a trained model in int8, with its costs and gains.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use updraft_run::{Plan, Registry};

use super::{OpenedRun, next_on};
use crate::progress::Display;
use crate::quantization::{QuantizeSettings, Quantizing, steps};
use crate::steps::Steps;

/// Quantizes a trained model to int8 and reports the cost in accuracy, size and latency.
#[derive(Debug, Args)]
pub(crate) struct QuantizeArgs {
    /// The run folder
    run: PathBuf,
    /// The folder that holds the data
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    #[command(flatten)]
    settings: QuantizeSettings,
    /// The device that burn's f32 runs on: auto, flex, cuda:0, ...
    #[arg(long, default_value = "auto")]
    device: String,
}

/// Prints the run's plan.
pub(crate) fn dry_run(registry: Registry, args: &QuantizeArgs) -> Result<()> {
    let check = |plan: &Plan| args.settings.check(plan);
    let plan = OpenedRun::dry_run(registry, (&args.run, None), &args.device, &check)?;
    Ok(plan.task.find_data(args.data.as_deref())?)
}

/// Writes `model.int8`, `model.onnx` and `quant.json` into the run folder and prints a table.
pub(crate) fn run(registry: Registry, args: &QuantizeArgs) -> Result<()> {
    let check = |plan: &Plan| args.settings.check(plan);
    let run = OpenedRun::open(registry, &args.run, &args.device, &check)?;
    // The written files belong to the checkpoint that is read.
    let _held = run.folder.lock()?;
    let mut display = Display::new();
    let mut taken = Steps::new(1 + steps(&args.settings).len());
    let model = taken.take("open the data", |label| {
        display.line(label);
        let workload = run.workload(args.data.as_deref(), &mut display)?;
        Ok(workload.into_quantizable(&run.plan, &run.folder, &run.device)?)
    })?;
    let work = Quantizing { folder: &run.folder, model, device_name: &args.device };
    crate::print(&work.run(&args.settings, &mut taken, &mut display)?)?;
    next_on("report", &args.run);
    Ok(())
}
