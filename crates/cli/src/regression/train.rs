//! `train` for a regression: one run, from a plan to a run folder.

use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use burn::tensor::{Device, Tensor};
use serde::Serialize;
use serde_json::json;
use updraft_device::{Selection, applied};
use updraft_trainer::{
    Control, Ending, Evaluation, Event, Finished, Passes, Run, RunData, TrainError,
};

use super::network::{Regressor, With, with_network};
use crate::config::RegressionPlan;
use crate::device::{choose, make_default};
use crate::environment::Environment;
use crate::held::Held;
use crate::log::LogFile;
use crate::progress::{Display, duration, say};
use crate::record::Metrics;
use crate::run_folder::RunFolder;
use crate::stop;
use crate::utilization::Utilization;
use crate::workload::{Scaling, TableData, open_table};

/// The file of a run folder that holds what its columns are scaled by.
pub(super) const SCALING: &str = "scaling.json";

/// What a finished run leaves in `summary.json`.
#[derive(Serialize)]
struct Summary<'a> {
    name: &'a str,
    complete: bool,
    steps: u64,
    epochs: u64,
    parameters: usize,
    train_rows: usize,
    test_rows: usize,
    test: Option<Evaluation>,
    /// In units of the target.
    test_rmse: Option<f64>,
    target: &'a str,
    wall_s: f64,
    cpu_s: Option<f64>,
    peak_resident_bytes: Option<u64>,
    checkpoint: &'a Path,
}

/// The root of the mean squared error, in units of the target.
pub(super) fn rmse(score: Evaluation, scaling: &Scaling) -> f64 {
    score.loss.sqrt() * scaling.target.std
}

/// A score as a person reads it.
pub(super) fn told(score: Evaluation, scaling: &Scaling) -> String {
    let explained = score.r_squared.map_or_else(String::new, |r2| format!(", R² {r2:.4}"));
    let (rmse, target) = (rmse(score, scaling), &scaling.target.name);
    format!("test RMSE {rmse:.4} in units of `{target}`{explained}")
}

/// Trains, from the first step, or from the last of the stopped run `resumed`.
pub(crate) fn run(
    plan: RegressionPlan,
    resumed: Option<RunFolder>,
    (runs, data): (&Path, Option<&Path>),
    log: &LogFile,
) -> Result<()> {
    let began = (Instant::now(), updraft_device::cpu_seconds());
    let (device, selection) = choose(&plan.device)?;
    if resumed.is_some() {
        make_default(&selection)?;
    }
    let data = open_table(&plan, data)?;
    let device = device.autodiff();
    device.seed(plan.seed);
    let inputs = data.scaling.features.len();
    let work =
        Training { plan: &plan, resumed, runs, data, device: &device, selection, log, began };
    with_network(&plan.model, inputs, &device, work)
}

struct Training<'a> {
    plan: &'a RegressionPlan,
    resumed: Option<RunFolder>,
    runs: &'a Path,
    data: TableData,
    device: &'a Device,
    selection: Selection,
    log: &'a LogFile,
    /// The clock and the processor seconds when the command began.
    began: (Instant, Option<f64>),
}

impl With for Training<'_> {
    type Output = Result<()>;

    fn with<M: Regressor>(self, network: M) -> Result<()> {
        let Self { plan, resumed, runs, data, device, selection, log, began } = self;
        let (started, cpu_before) = began;
        if data.train.batches() == 0 {
            let (samples, batch) = (data.train.samples(), data.train.batch());
            return Err(TrainError::NoBatches { samples, batch }.into());
        }
        let model = plan.precision.autocast(network);
        let parameters = model.num_params();
        let optimizer = plan.train.optimizer.init();
        let run = match &resumed {
            Some(folder) => {
                check_scaling(folder, &data.scaling)?;
                Run::resume(&folder.newest_checkpoint()?, model, optimizer)?
            }
            None => Run::new(model, optimizer),
        };
        let folder = match resumed {
            Some(folder) => folder,
            None => {
                let folder = RunFolder::create_for(runs, &plan.name, &plan.to_toml())?;
                folder.write_json(SCALING, &data.scaling)?;
                folder
            }
        };
        log.set(folder.log_file()?);
        folder.write_json("environment.json", &Environment::new(&selection, &applied(device)))?;
        let mut display = Display::of_rows(plan.train.epochs);
        introduce(&display, plan, &selection, &data, (M::KIND, parameters), run.step(), &folder);

        // What a narrow dtype promises is said before the run.
        if plan.precision.compute != plan.precision.param {
            let plain = device.clone().without_autodiff();
            let measured = Utilization::measure(&plain, plan.precision, 0);
            display.line(&Utilization::line(&measured));
        }
        let mut metrics = Metrics::open(&folder, &plan.log, run.step())?;
        let mut held = Held::start(&device.clone().without_autodiff())?;
        let mut failure = None;
        let mut watch = |event: &Event, _: &M| {
            if let Err(error) = note(event, &mut display, &mut metrics, &mut held) {
                failure = Some(error);
            }
            if failure.is_some() || stop::requested() { Control::Stop } else { Control::Continue }
        };
        let finished = run.train_passes(
            &plan.settings(folder.path()),
            RunData { train: &data.train, test: Some(&data.test) },
            device,
            Passes::whole(&|network: &M, x: Tensor<2>| network.outputs(x)),
            &mut watch,
        )?;
        display.clear();
        if let Some(error) = failure {
            return Err(error).context("the run was stopped and saved");
        }
        metrics.flush()?;
        let Finished { steps, test, ending, checkpoint, .. } = finished;
        folder.write_json(
            "summary.json",
            &Summary {
                name: &plan.name,
                complete: ending != Ending::Stopped,
                steps,
                epochs: plan.train.epochs,
                parameters,
                train_rows: data.train.samples(),
                test_rows: data.test.samples(),
                test,
                test_rmse: test.map(|test| rmse(test, &data.scaling)),
                target: &data.scaling.target.name,
                wall_s: started.elapsed().as_secs_f64(),
                cpu_s: cpu_before.zip(updraft_device::cpu_seconds()).map(|(from, to)| to - from),
                peak_resident_bytes: updraft_device::memory().peak_resident_bytes,
                checkpoint: checkpoint.strip_prefix(folder.path()).unwrap_or(&checkpoint),
            },
        )?;
        let path = folder.path().display();
        if ending == Ending::Stopped {
            say(&format!("stopped and saved; go on with: cargo xtask train --resume {path}"));
            return Ok(());
        }
        if ending == Ending::Early {
            display.line("early    epochs stopped getting better; the best one's model is served");
        }
        let score = test.map_or_else(String::new, |test| told(test, &data.scaling) + ", ");
        let wall = duration(started.elapsed().as_secs_f64());
        display.line(&format!("done     {score}{wall}"));
        say(&format!("next     cargo xtask report {path}"));
        let rmse = test.map(|test| rmse(test, &data.scaling));
        let told = json!({ "run": folder.path(), "test": test, "test_rmse": rmse });
        crate::print(&told.to_string());
        Ok(())
    }
}

/// Shows an event and writes it down.
fn note(
    event: &Event,
    display: &mut Display,
    metrics: &mut Metrics,
    held: &mut Held,
) -> Result<()> {
    match event {
        Event::Step(report) => {
            display.step(report);
            metrics.write(event, &[])
        }
        Event::Epoch(report) => {
            display.epoch(report);
            metrics.write(event, &held.epoch()?)
        }
        // A resumed run starts from the checkpoint: its metrics have to reach there.
        Event::Saving { .. } => metrics.flush(),
        _ => Ok(()),
    }
}

/// Refuses data that is not what the run was trained on.
pub(super) fn check_scaling(folder: &RunFolder, found: &Scaling) -> Result<()> {
    let stored: Scaling = folder.read_json(SCALING)?;
    if let Some(column) = found.differs_from(&stored) {
        let path = folder.path().display();
        bail!(
            "the data is not what the run `{path}` was trained on: the training rows have another mean or deviation of `{column}`; name the folder of that data with --data"
        );
    }
    Ok(())
}

/// Says what is about to happen.
fn introduce(
    display: &Display,
    plan: &RegressionPlan,
    selection: &Selection,
    data: &TableData,
    (kind, parameters): (&str, usize),
    step: u64,
    folder: &RunFolder,
) {
    let (train, features) = (&plan.train, data.scaling.features.len());
    let widths: Vec<String> = plan.model.widths(features).iter().map(usize::to_string).collect();
    display.line(&format!("run      {}", folder.path().display()));
    display.line(&format!("device   {}: {}", selection.id, selection.reason));
    display.line(&format!(
        "data     {} training and {} test rows, {features} features to `{}`",
        data.train.samples(),
        data.test.samples(),
        data.scaling.target.name,
    ));
    display.line(&format!(
        "model    {kind} {}, {parameters} parameters, {}",
        widths.join("-"),
        plan.precision,
    ));
    display.line(&format!(
        "train    {} epochs, batches of {}, learning rate {}, seed {}",
        train.epochs, train.batch, train.learning_rate, plan.seed,
    ));
    if step > 0 {
        display.line(&format!("resumed  after step {step}"));
    }
}
