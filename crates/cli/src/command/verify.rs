//! `verify`: checks the parts that a training run depends on, on this machine and device.

use std::path::{Path, PathBuf};

use anyhow::{Result, anyhow};
use burn::tensor::Device;
use clap::Args;
use serde_json::json;
use updraft_device::Selection;
use updraft_run::{
    Ability, CheckResult, Opening, Plan, Registry, TaskKind, TrainedInputs, VerifyInputs,
    verify_trained,
};

use super::would::Would;
use super::{cannot, device_spec};
use crate::device::choose;
use crate::program::next;
use crate::stop;
use crate::wrap::hanging;

/// Checks loader, norms, dropout, EMA, precision, resume, int8 and caches of every task.
///
/// Each check runs the code of a training run or of an evaluation on this machine, with a small
/// model and generated data.
#[derive(Debug, Args)]
pub(crate) struct VerifyArgs {
    /// The task [default: all of them]
    #[arg(long, value_name = "TASK")]
    task: Option<String>,
    /// The device: auto, flex, cuda:0, ... (`probe` lists them)
    #[arg(long, default_value = "auto")]
    device: String,
    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,
}

/// Some parts failed; the table lists them.
#[derive(Debug, thiserror::Error)]
#[error("{failed} of {all} parts failed on {device}; train on another device until they are fixed")]
pub(crate) struct VerifyFailed {
    failed: usize,
    all: usize,
    device: String,
}

/// Prints what would be read and written, and the tasks.
pub(crate) fn dry_run(registry: Registry, args: &VerifyArgs) -> Result<()> {
    choose(&device_spec(&args.device)?)?;
    let mut names = Vec::new();
    for kind in tasks(registry, args)? {
        plan(registry, kind, &args.device, &[])?;
        names.push(kind.name());
    }
    let reads = format!("nothing; the trials of {} have their own data", names.join(", "));
    Would::new(reads, "a temporary folder, which is removed at the end").print()
}

/// Prints one result per task and part; returns an error if one failed.
pub(crate) fn run(registry: Registry, args: &VerifyArgs) -> Result<()> {
    let (device, selection) = choose(&device_spec(&args.device)?)?;
    let name = selection.id.to_string();
    let scratch = Scratch::new()?;
    let mut tried = Vec::new();
    for kind in tasks(registry, args)? {
        for (set, parts) in parts_of(kind)? {
            let plan = plan(registry, kind, &args.device, set)?;
            let with_workers = ["train.workers=0", "train.workers=2"].map(|workers| {
                self::plan(registry, kind, &args.device, &[set, &[workers]].concat())
            });
            let with_workers = with_workers.into_iter().collect::<Result<Vec<_>>>()?;
            let progress = &mut |_: &str, _| {};
            let workload = plan.task.open(&plan, Opening { dir: None, run: None, progress })?;
            let inputs = VerifyInputs {
                plan: &plan,
                with_workers: &with_workers,
                parts,
                device: &device,
                scratch: &scratch.folder(kind.name())?,
                is_stopped: &stop::requested,
            };
            let results = workload.verify(&inputs)?.into_iter();
            tried.extend(results.map(|result| (kind.name(), result)));
        }
        let results = trained(registry, kind, (&args.device, &device, &selection), &scratch)?;
        tried.extend(results.into_iter().map(|result| (kind.name(), result)));
    }
    if args.json {
        let results: Vec<_> = tried
            .iter()
            .map(|(task, result)| {
                let CheckResult { part, passed, message } = result;
                json!({ "task": task, "part": part, "passed": passed, "message": message })
            })
            .collect();
        crate::print_json(&json!({ "device": name, "results": results }))?;
    } else {
        crate::print(&format!("on {name}"))?;
        let mut task = "";
        for (of, result) in &tried {
            if task != *of {
                crate::print(of)?;
                task = of;
            }
            crate::print(&line(result))?;
        }
    }
    let results = tried.iter().map(|(_, result)| result);
    sum_up(results, &name)?;
    if !args.json {
        next(&format!("train --device {name}"));
    }
    Ok(())
}

/// The checks of a trained model.
fn trained(
    registry: Registry,
    kind: &'static dyn TaskKind,
    (name, device, selection): (&str, &Device, &Selection),
    scratch: &Scratch,
) -> Result<Vec<CheckResult>> {
    let plan = plan(registry, kind, name, &[])?;
    let without_cache = match kind.without_cache() {
        [] => None,
        sets => Some(self::plan(registry, kind, name, sets)?),
    };
    Ok(verify_trained(&TrainedInputs {
        plan: &plan,
        without_cache: without_cache.as_ref(),
        device,
        selection,
        scratch: &scratch.folder(&format!("{}-run", kind.name()))?,
        is_stopped: &stop::requested,
    })?)
}

fn tasks(registry: Registry, args: &VerifyArgs) -> Result<Vec<&'static dyn TaskKind>> {
    let Some(name) = &args.task else { return Ok(registry.to_vec()) };
    let found = registry.iter().find(|kind| kind.name() == name);
    let names: Vec<_> = registry.iter().map(|kind| kind.name()).collect();
    let found = found
        .ok_or_else(|| anyhow!("there is no task `{name}`; the tasks are {}", names.join(", ")))?;
    Ok(vec![*found])
}

/// The parts that are checked with each set of settings.
fn parts_of(
    kind: &'static dyn TaskKind,
) -> Result<Vec<(&'static [&'static str], &'static [&'static str])>> {
    let mut all: Vec<(&[&str], &[&str])> = vec![(&[], &["loader", "EMA", "precision", "resume"])];
    if !kind.refusals()?.iter().any(|(refused, _)| *refused == Ability::BatchNorms) {
        all.push((kind.without_dropout(), &["batch norm"]));
    }
    if !kind.with_dropout().is_empty() {
        all.push((kind.with_dropout(), &["dropout"]));
    }
    Ok(all)
}

fn plan(registry: Registry, kind: &dyn TaskKind, device: &str, sets: &[&str]) -> Result<Plan> {
    let device = toml::Value::String(device.to_owned());
    let mut all = vec![format!("task={}", kind.name()), format!("device={device}")];
    all.extend(sets.iter().map(|&set| set.to_owned()));
    Ok(Plan::read(registry, kind.trial(), Path::new("the task's trial"), &all)?.plan)
}

fn line(result: &CheckResult) -> String {
    let word = if result.passed { "ok    " } else { "FAILED" };
    hanging(&format!("{word}  {:10}  ", result.part), &result.message)
}

fn sum_up<'a>(
    results: impl Iterator<Item = &'a CheckResult> + Clone,
    device: &str,
) -> Result<(), VerifyFailed> {
    let all = results.clone().count();
    match results.filter(|result| !result.passed).count() {
        0 => Ok(()),
        failed => Err(VerifyFailed { failed, all, device: device.to_owned() }),
    }
}

/// A temporary folder, deleted at the end of the command.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Result<Self> {
        let name = format!("updraft-verify-{}", std::process::id());
        made(std::env::temp_dir().join(name)).map(Self)
    }

    fn folder(&self, name: &str) -> Result<PathBuf> {
        made(self.0.join(name))
    }
}

fn made(path: PathBuf) -> Result<PathBuf> {
    std::fs::create_dir_all(&path).map_err(|cause| cannot("create", &path, cause))?;
    Ok(path)
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // If it remains, it is in the system's temporary folder.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use updraft_run::TASKS;

    use super::*;

    /// A plan with another seed has other batches: a fault that only the loader's check detects.
    #[test]
    fn a_planted_fault_fails_its_part_alone_and_the_command() {
        for kind in TASKS {
            let trial = plan(TASKS, *kind, "flex", &[]).expect("a plan");
            let elsewhere = plan(TASKS, *kind, "flex", &["seed=2"]).expect("a plan");
            let progress = &mut |_: &str, _| {};
            let opening = Opening { dir: None, run: None, progress };
            let workload = trial.task.open(&trial, opening).expect("generated data");
            let scratch = Scratch::new().expect("a folder");
            let (device, _) = choose(&trial.device).expect("flex is there");
            let results = workload.verify(&VerifyInputs {
                plan: &trial,
                with_workers: &[elsewhere],
                parts: &["loader", "EMA"],
                device: &device,
                scratch: &scratch.folder(kind.name()).expect("a folder"),
                is_stopped: &|| false,
            });
            let results = results.expect("nobody stopped it");
            assert_eq!(line(&results[0]), "FAILED  loader      the batches differ");
            let ema = line(&results[1]);
            assert!(ema.starts_with("ok      EMA         follows all "), "{ema}");
            let failed = sum_up(results.iter(), "flex").expect_err("one failed").to_string();
            assert!(failed.starts_with("1 of 2 parts failed on flex"), "{failed}");
            sum_up(results[1..].iter(), "flex").expect("none failed");
        }
    }
}
