//! `quantize`: a trained model in eight bits, with what that costs and what it gains.

use std::path::PathBuf;

use anyhow::{Context, Result};
use burn::module::Module;
use burn::tensor::Device;
use clap::Args;
use updraft_trainer::load_model;

use crate::classifier::Classifier;
use crate::config::Plan;
use crate::device::choose;
use crate::progress::Display;
use crate::quantization::{QuantizeSettings, Quantizing, steps};
use crate::run_folder::RunFolder;
use crate::steps::Steps;
use crate::workload::open_data;

/// Puts a trained model into eight bits and says what that costs.
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

/// Writes `model.int8`, `model.onnx` and `quant.json` into the run folder and prints a table.
pub(crate) fn run(args: &QuantizeArgs) -> Result<()> {
    let folder = RunFolder::open(&args.run)?;
    let plan = folder.plan()?;
    let spec = args.device.parse().with_context(|| format!("device `{}`", args.device))?;
    let (device, _) = choose(&spec)?;
    let mut display = Display::new(1);
    let mut taken = Steps::new(1 + steps(&args.settings).len());
    let network = stored(&folder, &plan, &device)?;
    let data = taken.take("open the data", |label| {
        display.line(label);
        open_data(&plan, args.data.as_deref(), Some(&folder), &mut |step, progress| {
            display.preparing(step, progress);
        })
    })?;
    let (plan, device, device_name) = (&plan, &device, args.device.as_str());
    let work = Quantizing { folder: &folder, plan, network, device, device_name, data: &data };
    crate::print(&work.run(&args.settings, &mut taken, &mut display)?);
    Ok(())
}

/// The served network with its parameters as they are stored, in f32, whatever precision the run
/// computed in.
pub(crate) fn stored(folder: &RunFolder, plan: &Plan, device: &Device) -> Result<Classifier> {
    let network = plan.network(folder.classes()?.len());
    network.validate()?;
    Ok(load_model(&folder.served_checkpoint(plan)?, network.init(device))?.valid())
}
