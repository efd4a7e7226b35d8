//! `pipeline`: from a configuration to a tested int8 model.

use anyhow::{Context, Result, bail};
use clap::Args;
use serde_json::json;
use sha2::{Digest, Sha256};
use updraft_run::{Int8Record, Plan, Registry, RunError, RunFolder};
use updraft_trainer::Ending;

use super::train::{self, TrainArgs};
use super::{OpenedRun, device_of, eval, files_to_predict, next_predict, refused_as, report};
use crate::Stopped;
use crate::json::JsonArgs;
use crate::log::LogFile;
use crate::progress::Display;
use crate::quantization::{QuantizeFlags, Quantizing, steps};
use crate::steps::{Steps, label};

/// The file that `pipeline` writes in addition to those of its steps.
const MANIFEST: &str = "pipeline.json";

/// Trains a model, reloads and evaluates it, quantizes it to int8 and evaluates that.
///
/// The run folder is that of `train`, with the files of `quantize`, the page of `report`, and
/// `pipeline.json`: the steps, their times, and the hash of every file they wrote.
#[derive(Debug, Args)]
pub(crate) struct PipelineArgs {
    #[command(flatten)]
    train: TrainArgs,
    #[command(flatten)]
    flags: QuantizeFlags,
    #[command(flatten)]
    json: JsonArgs,
}

impl PipelineArgs {
    /// The steps in their order.
    fn steps(&self, plan: &Plan) -> Vec<&'static str> {
        let mut all = vec!["train", "reload and test"];
        all.extend(steps(&self.flags.over(&plan.quantize)));
        all.push("report");
        all
    }

    /// Returns an error for a plan whose models cannot be quantized; it names this command.
    fn check(&self, plan: &Plan) -> Result<(), RunError> {
        self.flags.check(plan).map_err(refused_as("pipeline"))
    }
}

/// Prints the steps and the plan.
pub(crate) fn dry_run(registry: Registry, args: &PipelineArgs) -> Result<()> {
    let steps = |plan: &Plan| {
        let all = args.steps(plan);
        let numbered = all.iter().enumerate();
        // Comments, so that the output is still a valid plan.
        numbered.map(|(at, step)| format!("# {}", label(at + 1, all.len(), step))).collect()
    };
    train::dry_run_for(registry, &args.train, steps, &|plan| args.check(plan))
}

/// Runs all steps and prints the table of `quantize`, then the path of the run.
pub(crate) fn run(registry: Registry, args: &PipelineArgs, log: &LogFile) -> Result<()> {
    // Before the training, not after it.
    let plan = args.train.checked_plan(registry, &|plan| args.check(plan))?;
    let mut display = Display::new();
    let mut taken = Steps::new(args.steps(&plan).len());
    let trained = taken.take("train", |label| {
        display.line(label);
        train::train(&args.train, plan, log, &mut display)
    })?;
    if trained.ending == Ending::Stopped {
        bail!(Stopped(train::how_to_resume("pipeline", trained.folder.path())));
    }
    // From here on everything is read from the run folder, as by any later command.
    // Opened again, because the training may have begun at a checkpoint that was named.
    let folder = RunFolder::open(trained.folder.path())?;
    let plan = folder.plan(registry)?;
    let (device, selection) = device_of(&plan)?;
    let device_name = plan.device.to_string();
    let run = OpenedRun { folder, plan, device, selection };
    let workload = run.workload(None, &mut display)?;
    let score = taken.take("reload and test", |label| {
        let score = eval::score(&*workload, &run, &mut display, label)?;
        match trained.test {
            Some(test) if test == score => Ok(score),
            _ => bail!(RunError::NotRestored {
                run: run.folder.path().to_owned(),
                difference: "other scores than the model that was saved there".to_owned(),
            }),
        }
    })?;
    let record = Int8Record::of_served(&run.folder, &run.plan)?;
    let model = workload.into_quantizable(&run.plan, &run.folder, &run.device)?;
    let folder = &run.folder;
    let work = Quantizing { folder, record, model, device_name: &device_name };
    let settings = args.flags.over(&run.plan.quantize);
    let table = work.run(&settings, &mut taken, &mut display)?;
    taken.take("report", |label| {
        display.line(label);
        report::write_page(folder, registry)
    })?;
    let files = left(folder)?;
    let manifest = json!({
        "steps": taken.taken(),
        "test": score,
        "reload": { "same_score": true },
        "files": files,
    });
    folder.write_json(MANIFEST, &manifest)?;
    crate::print(&table)?;
    args.json.print(&json!({ "run": folder.path().to_string_lossy(), "test": score }))?;
    next_predict(folder.path(), files_to_predict(&run.plan), " --int8");
    Ok(())
}

/// The final files of the run: name, size and hash of each.
fn left(folder: &RunFolder) -> Result<Vec<serde_json::Value>> {
    let path = folder.path();
    let failed = || format!("cannot list `{}`", path.display());
    let mut names = Vec::new();
    for entry in std::fs::read_dir(path).with_context(failed)? {
        let entry = entry.with_context(failed)?;
        let name = entry.file_name().to_string_lossy().into_owned();
        // The log is written until the program ends.
        let is_final = !name.starts_with('.') && !["log.jsonl", MANIFEST].contains(&name.as_str());
        if is_final && entry.path().is_file() {
            names.push(name);
        }
    }
    names.sort();
    let described = |name: &String| {
        let bytes = folder.read(name)?;
        let hash = Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect();
        let hash: String = hash;
        Ok(json!({ "name": name, "bytes": bytes.len(), "sha256": hash }))
    };
    names.iter().map(described).collect()
}
