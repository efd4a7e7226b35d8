//! `quantize`: a trained model in int8, with its costs and gains.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use updraft_run::{Int8Record, Plan, Registry};

use super::would::{Would, data_of, model_of};
use super::{OpenedRun, files_to_predict, next_predict, without_checkpoint_option};
use crate::progress::Display;
use crate::quantization::{QuantizeFlags, Quantizing, steps};
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
    flags: QuantizeFlags,
    /// The device that burn's f32 runs on: auto, flex, cuda:0, ...
    #[arg(long, default_value = "auto")]
    device: String,
}

/// Prints what would be read and written.
pub(crate) fn dry_run(registry: Registry, args: &QuantizeArgs) -> Result<()> {
    let check = |plan: &Plan| args.flags.check(plan);
    let OpenedRun { folder, plan, .. } = OpenedRun::open(registry, &args.run, &args.device, &check)
        .map_err(|error| without_checkpoint_option(&args.run, error))?;
    let data = data_of(&plan, args.data.as_deref());
    let reads = format!("{} and {data}", model_of(&folder, &plan)?);
    let place = folder.path().display();
    Would::new(reads, format!("model.int8, model.onnx and quant.json in {place}")).print()?;
    Ok(plan.task.find_data(args.data.as_deref())?)
}

/// Writes `model.int8`, `model.onnx` and `quant.json` into the run folder and prints a table.
pub(crate) fn run(registry: Registry, args: &QuantizeArgs) -> Result<()> {
    quantize(registry, args).map_err(|error| without_checkpoint_option(&args.run, error))
}

fn quantize(registry: Registry, args: &QuantizeArgs) -> Result<()> {
    let check = |plan: &Plan| args.flags.check(plan);
    let run = OpenedRun::open(registry, &args.run, &args.device, &check)?;
    // The written files belong to the checkpoint that is read.
    let _held = run.folder.lock()?;
    let mut display = Display::new();
    let settings = args.flags.over(&run.plan.quantize);
    let mut taken = Steps::new(1 + steps(&settings).len());
    let record = Int8Record::of_served(&run.folder, &run.plan)?;
    let model = taken.take("open the data", |label| {
        display.line(label);
        let workload = run.workload(args.data.as_deref(), &mut display)?;
        Ok(workload.into_quantizable(&run.plan, &run.folder, &run.device)?)
    })?;
    let (folder, device_name) = (&run.folder, &args.device[..]);
    let work = Quantizing { folder, record, model, device_name };
    crate::print(&work.run(&settings, &mut taken, &mut display)?)?;
    next_predict(&args.run, files_to_predict(&run.plan), " --int8");
    Ok(())
}
