//! `verify`: the paths that a training run rests on, tried on this machine and device.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail, ensure};
use burn::module::{Module, ModuleVisitor, Param};
use burn::tensor::{Device, Tensor};
use clap::Args;
use serde::Serialize;
use serde_json::json;
use updraft_data::Loader;
use updraft_precision::{Parity, Policy};
use updraft_trainer::{
    Control, Ema, EmaConfig, Event, Finished, Run, RunData, list_checkpoints, recompute_batch_norms,
};

use crate::classifier::Classifier;
use crate::config::Plan;
use crate::device::choose;
use crate::stop;
use crate::workload::{loaders, open_data};

/// Tries loader, batch norm, EMA, precision and resume on this machine.
///
/// Each path is the one that a training run takes, on a small model and generated images.
#[derive(Debug, Args)]
pub(crate) struct VerifyArgs {
    /// The device: auto, flex, cuda:0, ... (`probe` lists them)
    #[arg(long, default_value = "auto")]
    device: String,
    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,
}

/// Some paths do not do what they should; the table says which.
#[derive(Debug, thiserror::Error)]
#[error(
    "{failed} of {all} paths failed on {device}; train on another device until they are mended"
)]
pub(crate) struct VerifyFailed {
    failed: usize,
    all: usize,
    device: String,
}

/// What was found out about a path.
#[derive(Serialize)]
struct Verdict {
    path: &'static str,
    passed: bool,
    told: String,
}

/// Tries a path and tells what was seen.
type Check = fn(&Bench) -> Result<String>;

/// Differences that rounding in another order leaves, as a share of the largest value.
const ROUNDING: f64 = 1e-4;

/// Prints a verdict a path; an error if one failed.
pub(crate) fn run(args: &VerifyArgs) -> Result<()> {
    let bench = Bench::new(&args.device)?;
    let paths: [(&str, Check); 5] = [
        ("loader", loader),
        ("batch norm", batch_norm),
        ("EMA", ema),
        ("precision", precision),
        ("resume", resume),
    ];
    let verdicts = judge(&bench, &paths)?;
    if args.json {
        crate::print(&json!({ "device": bench.name, "verdicts": verdicts }).to_string());
    } else {
        crate::print(&format!("on {}", bench.name));
        for verdict in &verdicts {
            crate::print(&verdict.line());
        }
    }
    Ok(sum_up(&verdicts, &bench.name)?)
}

impl Verdict {
    fn line(&self) -> String {
        let word = if self.passed { "ok    " } else { "FAILED" };
        format!("{word}  {:10}  {}", self.path, self.told)
    }
}

/// Tries each path; one that fails does not keep the next from being tried.
fn judge(bench: &Bench, paths: &[(&'static str, Check)]) -> Result<Vec<Verdict>> {
    let mut verdicts = Vec::new();
    for &(path, check) in paths {
        if stop::requested() {
            bail!("stopped before all paths were tried");
        }
        let (passed, told) = match check(bench) {
            Ok(told) => (true, told),
            Err(error) => (false, format!("{error:#}")),
        };
        verdicts.push(Verdict { path, passed, told });
    }
    Ok(verdicts)
}

fn sum_up(verdicts: &[Verdict], device: &str) -> Result<(), VerifyFailed> {
    match verdicts.iter().filter(|verdict| !verdict.passed).count() {
        0 => Ok(()),
        failed => Err(VerifyFailed { failed, all: verdicts.len(), device: device.to_owned() }),
    }
}

/// A device with a small task.
struct Bench {
    name: String,
    plan: Plan,
    device: Device,
    train: Loader,
    scratch: Scratch,
}

impl Bench {
    fn new(device: &str) -> Result<Self> {
        let device = toml::Value::String(device.to_owned());
        let settings = [
            format!("device={device}"),
            "data.train_images=96".to_owned(),
            "data.test_images=20".to_owned(),
            "model.channels=4".to_owned(),
            "train.epochs=2".to_owned(),
            "train.batch=24".to_owned(),
            "train.ema_decay=0.9".to_owned(),
            "model.dropout=0.2".to_owned(),
            "augment.flip=true".to_owned(),
        ];
        let plan = super::plan(None, &settings)?.plan;
        let (device, selection) = choose(&plan.device)?;
        let data = open_data(&plan, None, &mut |_, _| {})?;
        let (train, _) = loaders(&plan, &data)?;
        let scratch = Scratch::new()?;
        Ok(Self { name: selection.id.to_string(), plan, device: device.autodiff(), train, scratch })
    }

    /// The small network with the weights that a seed gives.
    fn model(&self, policy: Policy) -> Classifier {
        self.device.seed(self.plan.seed);
        policy.autocast(self.plan.network(CLASSES).init(&self.device))
    }

    fn images(&self) -> Result<Tensor<4>> {
        let batch = self.train.epoch(0).next().context("the loader has a batch")??;
        Ok(batch.to_device(&self.device).0)
    }

    /// Trains in a folder of its own, until the step given.
    fn train(
        &self,
        run: Run<Classifier>,
        folder: &Path,
        stop_after: Option<u64>,
    ) -> Result<Finished<Classifier>> {
        let finished = run.train(
            &self.plan.settings(folder),
            RunData { train: &self.train, test: None },
            &self.device,
            &forward,
            &mut |event, _| match event {
                Event::Step(report) if Some(report.step + 1) == stop_after => Control::Stop,
                _ if stop::requested() => Control::Stop,
                _ => Control::Continue,
            },
        )?;
        Ok(finished)
    }
}

/// The classes of the quickstart's generated images.
const CLASSES: usize = 16;

fn forward(model: &Classifier, images: Tensor<4>) -> Tensor<2> {
    model.forward(images)
}

/// The same batches with and without threads, and from the middle of an epoch.
fn loader(bench: &Bench) -> Result<String> {
    let mut plan = bench.plan.clone();
    let mut streams = Vec::new();
    for workers in ["train.workers=0", "train.workers=2"] {
        let settings =
            ["data.train_images=96", "data.test_images=20", "augment.flip=true", workers];
        let settings: Vec<String> = settings.iter().map(|text| (*text).to_owned()).collect();
        plan.train.workers = super::plan(None, &settings)?.plan.train.workers;
        let data = open_data(&plan, None, &mut |_, _| {})?;
        let (train, _) = loaders(&plan, &data)?;
        let mut epoch = train.epoch(1);
        let mut batches = vec![epoch.next().context("a batch")??];
        let rest = train.resume(&epoch.state())?;
        batches.extend(rest.collect::<Result<Vec<_>, _>>()?);
        streams.push(batches);
    }
    let whole: Vec<_> = bench.train.epoch(1).collect::<Result<_, _>>()?;
    ensure!(streams.iter().all(|stream| *stream == whole), "the batches differ");
    Ok(format!("{} batches, the same bits for 0 and 2 workers and when resumed", whole.len()))
}

/// Recomputed on one batch, the statistics in use are that batch's own.
fn batch_norm(bench: &Bench) -> Result<String> {
    // Without dropout, a forward pass in training normalizes as the recomputed model does.
    let mut plan = bench.plan.clone();
    *plan.model.dropout_mut() = 0.0;
    bench.device.seed(plan.seed);
    let model = plan.network(CLASSES).init(&bench.device);
    let images = bench.images()?;
    let before = numbers(&model.valid());
    let batch: Result<_, std::convert::Infallible> = Ok(images.clone());
    let exact = recompute_batch_norms(&model, &forward, &mut [batch].into_iter(), &mut |_| {
        Control::Continue
    });
    let exact = exact?.context("nobody stopped it")?;
    ensure!(numbers(&model.valid()) == before, "the given model moved");
    let trained = values(model.forward(images.clone()).inner());
    let served = values(exact.forward(images.inner()));
    let parity = Parity::between(&trained, &served)?;
    ensure!(parity.max_rel < 1e-3, "outputs differ by {:.1e} of the largest", parity.max_rel);
    Ok(format!("outputs agree with the batch's own statistics to {:.0e}", parity.max_rel))
}

/// With decay 0 the average is the live model.
fn ema(bench: &Bench) -> Result<String> {
    let model = bench.model(Policy::F32);
    let mut ema = Ema::new(EmaConfig { decay: 0.0 }, &model);
    let folder = bench.scratch.folder("ema")?;
    let moved =
        bench.train(Run::new(model, bench.plan.train.optimizer.init()), &folder, Some(2))?;
    let before = numbers(ema.average());
    ema.update(&moved.model);
    let (live, average) = (numbers(&moved.model.valid()), numbers(ema.average()));
    let parity = Parity::between(&live, &average)?;
    ensure!(before != average, "the average did not move");
    ensure!(parity.max_rel < ROUNDING, "it is off by {:.1e} of the largest", parity.max_rel);
    Ok(format!("follows all {} numbers", live.len()))
}

/// Mixed precision computes nearly what f32 does, and keeps its masters in f32.
fn precision(bench: &Bench) -> Result<String> {
    let (wide, mixed) = (bench.model(Policy::F32), bench.model(Policy::BF16_MIXED));
    let images = bench.images()?;
    let outputs = [(wide, Policy::F32), (mixed, Policy::BF16_MIXED)].map(|(model, policy)| {
        let input = images.clone().inner().cast(policy.compute);
        values(model.valid().forward(input).cast(policy.output))
    });
    let parity = Parity::between(&outputs[0], &outputs[1])?;
    ensure!(parity.cosine > 0.99, "bf16 and f32 point elsewhere: cosine {:.4}", parity.cosine);
    Ok(format!("bf16-mixed keeps {:.0} dB of the signal of f32", parity.sqnr_db))
}

/// A stopped run goes on to the weights of the unbroken one.
fn resume(bench: &Bench) -> Result<String> {
    let new = || Run::new(bench.model(Policy::F32), bench.plan.train.optimizer.init());
    let whole = bench.train(new(), &bench.scratch.folder("whole")?, None)?;
    let folder = bench.scratch.folder("stopped")?;
    bench.train(new(), &folder, Some(3))?;
    let newest = list_checkpoints(&folder.join("checkpoints"))?.pop();
    let newest = newest.ok_or_else(|| anyhow!("the stopped run left no checkpoint"))?;
    let other = bench.model(Policy::F32);
    let run = Run::resume(&newest, other, bench.plan.train.optimizer.init())?;
    let resumed = bench.train(run, &folder, None)?;
    ensure!(resumed.steps == whole.steps, "{} updates, not {}", resumed.steps, whole.steps);
    let pairs = [(&whole.model, &resumed.model), (&whole.served, &resumed.served)];
    let mut told = "to the same bits".to_owned();
    for (whole, resumed) in pairs {
        let (whole, resumed) = (numbers(&whole.valid()), numbers(&resumed.valid()));
        let parity = Parity::between(&whole, &resumed)?;
        ensure!(parity.max_rel < ROUNDING, "it is off by {:.1e} of the largest", parity.max_rel);
        if parity.max_abs > 0.0 {
            told = format!("to {:.0e} of the largest number", parity.max_rel);
        }
    }
    Ok(format!("goes on {told} after a stop in the middle of an epoch"))
}

/// A folder for what the paths write; it goes with the command.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Result<Self> {
        let path = std::env::temp_dir().join(format!("updraft-verify-{}", std::process::id()));
        std::fs::create_dir_all(&path)
            .with_context(|| format!("cannot create `{}`", path.display()))?;
        Ok(Self(path))
    }

    fn folder(&self, name: &str) -> Result<PathBuf> {
        let path = self.0.join(name);
        std::fs::create_dir_all(&path)
            .with_context(|| format!("cannot create `{}`", path.display()))?;
        Ok(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // Left behind, it is in the system's folder for such things.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn values(tensor: Tensor<2>) -> Vec<f32> {
    tensor.into_data().iter::<f32>().collect()
}

/// Every number of a model, statistics included.
fn numbers<M: Module>(model: &M) -> Vec<f32> {
    struct Read(Vec<f32>);
    impl ModuleVisitor for Read {
        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
            self.0.extend(param.base().into_data().iter::<f32>());
        }
    }
    let mut read = Read(Vec::new());
    model.visit(&mut read);
    read.0
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A loader that gives other images than the plan asks for is a fault that only its path sees.
    #[test]
    fn a_planted_fault_fails_its_path_alone_and_the_command() {
        let mut bench = Bench::new("flex").expect("flex is there");
        let elsewhere = Plan { seed: bench.plan.seed + 1, ..bench.plan.clone() };
        let data = open_data(&elsewhere, None, &mut |_, _| {}).expect("generated images");
        bench.train = loaders(&elsewhere, &data).expect("loaders").0;
        let paths: [(&str, Check); 2] = [("loader", loader), ("EMA", ema)];
        let verdicts = judge(&bench, &paths).expect("nobody stopped it");
        let lines: Vec<_> = verdicts.iter().map(Verdict::line).collect();
        assert_eq!(lines[0], "FAILED  loader      the batches differ");
        assert!(lines[1].starts_with("ok      EMA         follows all "), "{}", lines[1]);
        let failed = sum_up(&verdicts, "flex").expect_err("one failed").to_string();
        assert!(failed.starts_with("1 of 2 paths failed on flex"), "{failed}");
        sum_up(&verdicts[1..], "flex").expect("none failed");
    }
}
