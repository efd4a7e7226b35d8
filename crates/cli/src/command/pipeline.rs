//! `pipeline`: from a configuration to a model in eight bits that was tested both ways.

use anyhow::{Result, ensure};
use burn::tensor::{Tensor, TensorData};
use clap::Args;
use serde_json::json;
use sha2::{Digest, Sha256};
use updraft_trainer::Ending;

use super::train::{self, TrainArgs, Trained};
use super::{eval, quantize, report};
use crate::log::LogFile;
use crate::model::TrainedModel;
use crate::progress::Display;
use crate::quantization::{FILES, QuantizeSettings, Quantizing, steps};
use crate::run_folder::RunFolder;
use crate::steps::{Steps, label};
use crate::workload::{SPLIT, loaders};

/// Trains a model, tests it, reloads it, puts it into eight bits and tests that.
///
/// The run folder is that of `train`, with the files of `quantize`, the page of `report`, and
/// `pipeline.json`: the steps, their times, and the hash of every file that they left.
#[derive(Debug, Args)]
pub(crate) struct PipelineArgs {
    #[command(flatten)]
    train: TrainArgs,
    #[command(flatten)]
    settings: QuantizeSettings,
}

impl PipelineArgs {
    /// The steps in their order.
    fn steps(&self) -> Vec<&'static str> {
        let mut all = vec!["train", "test", "reload"];
        all.extend(steps(&self.settings));
        all.push("report");
        all
    }
}

/// Prints the steps and the plan, and does nothing else.
pub(crate) fn dry_run(args: &PipelineArgs) -> Result<()> {
    let all = args.steps();
    for (index, step) in all.iter().enumerate() {
        // A comment, so that what is printed is still a plan.
        crate::print(&format!("# {}", label(index + 1, all.len(), step)));
    }
    if args.train.names_a_plan() {
        crate::print(train::plan_of(&args.train)?.to_toml().trim_end());
    }
    Ok(())
}

/// Takes all steps and prints the table of `quantize`, then where the run is.
pub(crate) fn run(args: &PipelineArgs, log: &LogFile) -> Result<()> {
    if args.settings.has_outliers() {
        // Before the training, not after it.
        train::plan_of(&args.train)?.network(2).check_outliers()?;
    }
    let mut display = Display::new(1);
    let mut taken = Steps::new(args.steps().len());
    let trained = taken.take("train", |label| {
        display.line(label);
        train::train(&args.train, log, &mut display)
    })?;
    let Trained { folder, plan, data, served, device, ending, .. } = &trained;
    if *ending == Ending::Stopped {
        let path = folder.path().display();
        display
            .line(&format!("stopped and saved; go on with: cargo xtask pipeline --resume {path}"));
        return Ok(());
    }
    let score = taken
        .take("test", |label| eval::score((served, device), plan, data, &mut display, label))?;
    let compared = taken.take("reload", |label| {
        display.line(label);
        reload(&trained)
    })?;
    let network = quantize::stored(folder, plan, device)?;
    let device_name = plan.device.to_string();
    let work = Quantizing { folder, plan, network, device, device_name: &device_name, data };
    let table = work.run(&args.settings, &mut taken, &mut display)?;
    taken.take("report", |label| {
        display.line(label);
        report::write_page(folder)
    })?;
    let divided = data.split.as_ref().map(|_| &SPLIT);
    let names = divided.into_iter().chain(&FILES).chain(&["report.html"]);
    let files = names.map(|name| described(folder, name)).collect::<Result<Vec<_>>>()?;
    let manifest = json!({
        "steps": taken.taken(),
        "test": score,
        "reload": { "images": compared, "same_bits": true },
        "files": files,
    });
    folder.write_whole("pipeline.json", &serde_json::to_vec_pretty(&manifest)?)?;
    crate::print(&table);
    crate::print(&json!({ "run": folder.path(), "test": score }).to_string());
    Ok(())
}

/// Loads what was saved into a fresh model, and compares the answers to the first test images bit
/// for bit; how many images these were.
fn reload(trained: &Trained) -> Result<usize> {
    let Trained { folder, plan, data, served, device, .. } = trained;
    let fresh = TrainedModel::load(folder.path(), &plan.device.to_string())?;
    let (_, test) = loaders(plan, data)?;
    let batch = test.epoch(0).next().expect("a test set was scored before")?;
    let shape = [batch.len(), 3, plan.data.height, plan.data.width];
    let images = TensorData::new(batch.planes().to_vec(), shape);
    let images = Tensor::<4>::from_data(images, device).cast(plan.precision.compute);
    let [kept, loaded] =
        [served, fresh.network()].map(|network| network.forward(images.clone()).into_data());
    ensure!(
        kept.bytes() == loaded.bytes(),
        "the model in `{}` does not give the answers of the one that was saved there; this is a \
         fault of updraft, please report it",
        folder.path().display()
    );
    Ok(batch.len())
}

/// A file of the run: its name, size and hash.
fn described(folder: &RunFolder, name: &str) -> Result<serde_json::Value> {
    let bytes = folder.read(name)?;
    let hash: String = Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(json!({ "name": name, "bytes": bytes.len(), "sha256": hash }))
}
