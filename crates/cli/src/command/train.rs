//! `train`: one run, from a configuration to a run folder.

use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result, anyhow, bail};
use burn::module::Module;
use burn::tensor::Device;
use clap::Args;
use serde::Serialize;
use serde_json::json;
use updraft_device::{Selection, applied};
use updraft_trainer::{Control, Ending, Evaluation, Event, Finished, Run, RunData};

use super::AnyPlanned;
use crate::batch_size::Trial;
use crate::classifier::Classifier;
use crate::config::{AutoBatchPlan, Plan, RegressionPlan, Task};
use crate::device::{choose, make_default};
use crate::environment::Environment;
use crate::held::Held;
use crate::log::LogFile;
use crate::network::{passes, segments, training_device};
use crate::progress::{Display, duration, say};
use crate::record::Metrics;
use crate::regression;
use crate::run_folder::RunFolder;
use crate::stop;
use crate::utilization::Utilization;
use crate::workload::{ImageData, SPLIT, open_data, training_loaders};

/// Trains a model and writes a run folder.
#[derive(Debug, Args)]
pub(crate) struct TrainArgs {
    /// The configuration file [default: the built-in quickstart]
    #[arg(conflicts_with = "resume")]
    config: Option<PathBuf>,
    /// The folder that holds the data
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// The device: auto, flex, cuda:0, ... (`probe` lists them)
    #[arg(long, conflicts_with = "resume")]
    device: Option<String>,
    /// Change one value of the config, such as --set train.epochs=3 (repeatable)
    #[arg(long = "set", value_name = "KEY=VALUE", conflicts_with = "resume")]
    sets: Vec<String>,
    /// Go on with a run that was stopped
    #[arg(long, value_name = "RUN")]
    resume: Option<PathBuf>,
    /// The folder that run folders are made in
    #[arg(long, value_name = "DIR", default_value = "runs")]
    runs: PathBuf,
}

/// What a finished run leaves in `summary.json`.
#[derive(Serialize)]
struct Summary<'a> {
    name: &'a str,
    complete: bool,
    steps: u64,
    epochs: u64,
    classes: usize,
    parameters: usize,
    train_images: usize,
    test_images: usize,
    test: Option<Evaluation>,
    /// From the start of the command until the first step had its data.
    first_batch_s: Option<f64>,
    wall_s: f64,
    cpu_s: Option<f64>,
    peak_resident_bytes: Option<u64>,
    checkpoint: &'a Path,
}

impl TrainArgs {
    /// Whether there is a plan to print: a run folder named in a document need not be here.
    pub(crate) fn names_a_plan(&self) -> bool {
        self.resume.as_ref().is_none_or(|path| path.exists())
    }
}

/// Prints the plan and does nothing else.
pub(crate) fn dry_run(args: &TrainArgs) -> Result<()> {
    if args.names_a_plan() {
        let plan = match regression_of(args)? {
            Some(plan) => plan.to_toml(),
            None => plan_of(args)?.to_toml(),
        };
        crate::print(plan.trim_end());
    }
    Ok(())
}

/// What is to be trained: the plan of a configuration, or of the run that goes on.
pub(crate) fn plan_of(args: &TrainArgs) -> Result<Plan> {
    match &args.resume {
        Some(path) => RunFolder::open(path)?.plan(),
        None => planned(args),
    }
}

/// The plan of a regression; `None` for another task.
fn regression_of(args: &TrainArgs) -> Result<Option<RegressionPlan>> {
    if let Some(path) = &args.resume {
        let folder = RunFolder::open(path)?;
        return match folder.task()? {
            Task::TabularRegression => folder.regression_plan().map(Some),
            Task::ImageClassification => Ok(None),
        };
    }
    match super::planned(args.config.as_deref(), &settings(args)?)? {
        AnyPlanned::Table(planned) => Ok(Some(planned.plan)),
        AnyPlanned::Images(_) => Ok(None),
    }
}

/// What training leaves: on disk in its folder, and in memory.
pub(crate) struct Trained {
    pub(crate) folder: RunFolder,
    pub(crate) plan: Plan,
    pub(crate) data: ImageData,
    /// The model to use, on the plain device.
    pub(crate) served: Classifier,
    pub(crate) device: Device,
    pub(crate) ending: Ending,
    pub(crate) score: Option<Evaluation>,
}

/// Trains, from the first step or from a stopped run's last.
pub(crate) fn run(args: &TrainArgs, log: &LogFile) -> Result<()> {
    if let Some(plan) = regression_of(args)? {
        let resumed = args.resume.as_deref().map(RunFolder::open).transpose()?;
        return regression::train(plan, resumed, (&args.runs, args.data.as_deref()), log);
    }
    let trained = train(args, log, &mut Display::new(1))?;
    let path = trained.folder.path();
    if trained.ending == Ending::Stopped {
        let path = path.display();
        say(&format!("stopped and saved; go on with: cargo xtask train --resume {path}"));
        return Ok(());
    }
    say(&format!("next     cargo xtask predict {} IMAGE...", path.display()));
    crate::print(&json!({ "run": path, "test": trained.score }).to_string());
    Ok(())
}

/// The same, for whoever goes on with what was trained.
pub(crate) fn train(args: &TrainArgs, log: &LogFile, display: &mut Display) -> Result<Trained> {
    let started = Instant::now();
    let cpu_before = updraft_device::cpu_seconds();
    let resumed = args.resume.as_deref().map(RunFolder::open).transpose()?;
    let mut plan = plan_of(args)?;
    let (device, selection) = choose(&plan.device)?;
    if resumed.is_some() {
        make_default(&selection)?;
    }
    display.expect_epochs(plan.train.epochs);
    let data = open_data(&plan, args.data.as_deref(), resumed.as_ref(), &mut |step, progress| {
        display.preparing(step, progress);
    })?;
    display.clear();
    for note in &data.notes {
        display.line(&format!("cache    {note}"));
    }
    let classes = data.train.classes().to_vec();
    // A resumed run goes on with the batch that its first part found.
    if let Some(auto) = plan.train.auto_batch.filter(|_| resumed.is_none()) {
        plan.train.batch = fitting_batch(&plan, auto, classes.len(), data.train.len(), display)?;
    }
    let (train, test) = training_loaders(&plan, &data)?;

    let plain = device.clone();
    let device = training_device(&plan, device);
    device.seed(plan.seed);
    let network = plan.network(classes.len());
    network.validate()?;
    let model = plan.precision.autocast(network.init(&device));
    let (parameters, segments, kind) = (model.num_params(), segments(&model), model.kind());
    let multiply_adds = model.multiply_adds([plan.data.height, plan.data.width]);
    let optimizer = plan.train.optimizer.init();
    let run = match &resumed {
        Some(folder) => {
            if folder.classes()? != classes {
                bail!("the data has other classes than the run `{}`", folder.path().display());
            }
            Run::resume(&folder.newest_checkpoint()?, model, optimizer)?
        }
        None => Run::new(model, optimizer),
    };
    let folder = match resumed {
        Some(folder) => folder,
        None => RunFolder::create(&args.runs, &plan, &classes)?,
    };
    if let Some(divided) = &data.split {
        divided.split.write(&divided.set, folder.path().join(SPLIT))?;
    }
    log.set(folder.log_file()?);
    folder.write_json("environment.json", &Environment::new(&selection, &applied(&device)))?;
    introduce(display, &plan, &selection, &data, (kind, parameters), run.step(), folder.path());

    // What a narrow dtype promises is said before the run, whatever is written down.
    let is_narrow = plan.precision.compute != plan.precision.param;
    let measured = (plan.log.utilization || is_narrow)
        .then(|| Utilization::measure(&plain, plan.precision, multiply_adds));
    if let Some(measured) = &measured {
        display.line(&Utilization::line(measured));
    }
    let utilization = if plan.log.utilization { measured.transpose()? } else { None };
    let mut metrics = Metrics::open(&folder, &plan.log, run.step())?;
    let mut held = Held::start(&plain)?;
    let mut failure = None;
    let mut first_batch_s = None;
    let before_training = started.elapsed().as_secs_f64();
    let mut watch = |event: &Event, model: &Classifier| {
        let written = match event {
            Event::Step(report) => {
                first_batch_s.get_or_insert_with(|| {
                    before_training + (report.at_us + report.times.data_wait_us) as f64 * 1e-6
                });
                display.step(report);
                let share = utilization.as_ref();
                let share = share.map(|it| it.fields(report.samples as f64, report.step_us));
                metrics.write(event, share.as_ref().map_or(&[], |share| share))
            }
            Event::Epoch(report) => {
                display.epoch(report);
                let weights = serde_json::to_value(model.integration_weights()).unwrap_or_default();
                let mut extra = vec![("integration_weights", weights)];
                if let Some(utilization) = &utilization {
                    let images = report.samples_per_s * report.train_us as f64 * 1e-6;
                    extra.extend(utilization.fields(images, report.train_us));
                }
                held.epoch().and_then(|memory| {
                    extra.extend(memory);
                    metrics.write(event, &extra)
                })
            }
            // A resumed run starts from the checkpoint: its metrics have to reach there.
            Event::Saving { .. } => metrics.flush(),
            _ => Ok(()),
        };
        if let Err(error) = written {
            failure = Some(error);
        }
        if failure.is_some() || stop::requested() { Control::Stop } else { Control::Continue }
    };
    let finished = run.train_passes(
        &plan.settings(folder.path()),
        RunData { train: &train, test: Some(&test) },
        &device,
        passes(&plan, &segments),
        &mut watch,
    )?;
    display.clear();
    if let Some(error) = failure {
        return Err(error).context("the run was stopped and saved");
    }
    metrics.flush()?;
    let Finished { served, steps, test: score, ending, checkpoint, .. } = finished;
    folder.write_json(
        "summary.json",
        &Summary {
            name: &plan.name,
            complete: ending != Ending::Stopped,
            steps,
            epochs: plan.train.epochs,
            classes: classes.len(),
            parameters,
            train_images: data.train.len(),
            test_images: data.test.len(),
            test: score,
            first_batch_s,
            wall_s: started.elapsed().as_secs_f64(),
            cpu_s: cpu_before.zip(updraft_device::cpu_seconds()).map(|(from, to)| to - from),
            peak_resident_bytes: updraft_device::memory().peak_resident_bytes,
            checkpoint: checkpoint.strip_prefix(folder.path()).unwrap_or(&checkpoint),
        },
    )?;
    conclude(display, ending, score, started, cpu_before);
    Ok(Trained { folder, plan, data, served, device: plain, ending, score })
}

/// The batch size that `train.auto_batch` finds; no larger than the training data.
fn fitting_batch(
    plan: &Plan,
    auto: AutoBatchPlan,
    classes: usize,
    images: usize,
    display: &Display,
) -> Result<usize> {
    let auto = AutoBatchPlan { most: auto.most.min(images).max(auto.least), ..auto };
    let trial = Trial { plan, classes, budget_bytes: auto.budget_bytes()? };
    let found = trial.search(&auto.search(), &mut |_, _| {})?;
    let found = found.ok_or_else(|| auto.nothing_fits(trial.budget_bytes))?;
    display.line(&format!(
        "batch    {}: {} fit into {} MiB, {} sizes tried",
        found.batch,
        found.largest,
        trial.budget_bytes >> 20,
        found.probes,
    ));
    Ok(found.batch)
}

fn planned(args: &TrainArgs) -> Result<Plan> {
    Ok(super::plan(args.config.as_deref(), &settings(args)?)?.plan)
}

/// The settings of the command line, as if all had been given with `--set`.
fn settings(args: &TrainArgs) -> Result<Vec<String>> {
    let mut sets = args.sets.clone();
    if let Some(device) = &args.device {
        sets.push(format!("device={device}"));
    }
    if let Some(dir) = &args.data {
        // Kept in the plan, so that evaluating and resuming find the data again.
        let dir = std::path::absolute(dir)
            .with_context(|| format!("the data folder `{}`", dir.display()))?;
        let dir = dir
            .to_str()
            .ok_or_else(|| anyhow!("the data folder `{}` is no text in UTF-8", dir.display()))?;
        sets.push(format!("data.dir={}", toml::Value::String(dir.to_owned())));
    }
    Ok(sets)
}

/// Says what is about to happen, in lines of at most 80 columns where the paths allow.
fn introduce(
    display: &Display,
    plan: &Plan,
    selection: &Selection,
    data: &ImageData,
    (kind, parameters): (&str, usize),
    step: u64,
    folder: &Path,
) {
    let train = &plan.train;
    display.line(&format!("run      {}", folder.display()));
    display.line(&format!("device   {}: {}", selection.id, selection.reason));
    display.line(&format!(
        "data     {} training and {} test images of {} classes, {} x {}",
        data.train.len(),
        data.test.len(),
        data.train.classes().len(),
        plan.data.height,
        plan.data.width,
    ));
    display.line(&format!("model    {kind}, {parameters} parameters, {}", plan.precision));
    display.line(&format!(
        "train    {} epochs, batches of {}, learning rate {}, seed {}",
        train.epochs, train.batch, train.learning_rate, plan.seed,
    ));
    if step > 0 {
        display.line(&format!("resumed  after step {step}"));
    }
}

fn conclude(
    display: &Display,
    ending: Ending,
    score: Option<Evaluation>,
    started: Instant,
    cpu_before: Option<f64>,
) {
    if ending == Ending::Stopped {
        return;
    }
    if ending == Ending::Early {
        display.line("early    epochs stopped getting better; the best one's model is served");
    }
    let accuracy = score.and_then(|score| score.accuracy);
    let accuracy = accuracy
        .map_or_else(String::new, |accuracy| format!("test accuracy {:.2} %, ", 100.0 * accuracy));
    let cpu = cpu_before
        .zip(updraft_device::cpu_seconds())
        .map_or_else(String::new, |(from, to)| format!(", {} on all cores", duration(to - from)));
    let wall = duration(started.elapsed().as_secs_f64());
    display.line(&format!("done     {accuracy}{wall}{cpu}"));
}
