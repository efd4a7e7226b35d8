//! The commands, one file each.

mod arm_folder;
pub(crate) mod arm_run;
pub(crate) mod batch_find;
pub(crate) mod batch_sweep;
pub(crate) mod compare;
pub(crate) mod compare_options;
mod comparison;
mod conclusion;
mod data_digest;
pub(crate) mod endure;
pub(crate) mod eval;
pub(crate) mod explain;
pub(crate) mod launch;
pub(crate) mod lr_find;
mod next;
pub(crate) mod pipeline;
mod plan_difference;
pub(crate) mod predict;
mod predict_files;
mod predict_output;
mod predict_table;
pub(crate) mod probe;
pub(crate) mod quantize;
pub(crate) mod report;
mod restart;
pub(crate) mod scale_estimate;
mod setting_words;
pub(crate) mod tasks;
pub(crate) mod train;
pub(crate) mod tune;
pub(crate) mod tune_performance;
pub(crate) mod validate;
mod validated;
pub(crate) mod verify;
pub(crate) mod warm_up;
mod would;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use burn::tensor::Device;
use clap::Args;
use clap::builder::NonEmptyStringValueParser;
use updraft_device::{DeviceSpec, Selection};
use updraft_distributed::{Collective, Shared};
use updraft_run::{
    AnyWorkload, ConfigError, Opening, Plan, Planned, Profile, Registry, RunError, RunFolder,
    Settings, UnusedKey,
};

use crate::device::{choose, choose_for_rank};
use crate::program::quoted;
use crate::progress::Display;
use crate::ranks::{Connected, open_on_ranks};
use crate::stop::NothingToSave;
use crate::terminal::say;
use crate::wrap::hanging;

pub(crate) use next::{files_to_predict, next_on, next_predict};

/// The arguments of every command that reads a configuration.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct ConfigArgs {
    /// The configuration file [default: the built-in quickstart]
    pub(crate) config: Option<PathBuf>,
    /// The folder that holds the data
    #[arg(long, value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,
    /// The device: auto, flex, cuda:0, ... (`probe` lists them)
    #[arg(long, value_parser = NonEmptyStringValueParser::new())]
    pub(crate) device: Option<String>,
    /// Change one value of the config, such as --set train.epochs=3;
    /// KEY= removes a key (repeatable)
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub(crate) sets: Vec<String>,
    /// Use a profile in place of the config's own keys of performance: default, throughput,
    /// low-memory, or a .toml file
    #[arg(long, value_name = "PROFILE")]
    pub(crate) profile: Option<String>,
}

impl ConfigArgs {
    /// Reads the configuration into a plan, and prints the keys of the profile that it does not
    /// read.
    pub(crate) fn plan(&self, registry: Registry) -> Result<Planned, ConfigError> {
        let planned = self.plan_in_silence(registry)?;
        self.report_unused(&planned);
        Ok(planned)
    }

    /// Reads the configuration into a plan.
    pub(crate) fn plan_in_silence(&self, registry: Registry) -> Result<Planned, ConfigError> {
        // First: searches and comparisons add settings of their own, which have the last word.
        let device = self.device.iter().map(|device| format!("device={device}"));
        let mut sets: Vec<String> = device.chain(self.sets.iter().cloned()).collect();
        // Stored in the plan, so that evaluation and resuming find the data.
        if let Some(dir) = &self.data {
            let dir = std::path::absolute(dir)
                .map_err(|cause| ConfigError::Read { path: dir.clone(), cause })?;
            let dir = toml::Value::String(dir.to_string_lossy().into_owned());
            sets.push(format!("data.dir={dir}"));
        }
        let named = |mut error: ConfigError| {
            if self.data.is_some() {
                error = error.caused_by("--data", "data.dir");
            }
            // A setting has the last word.
            let sets_device = |set: &String| set.split('=').next().map(str::trim) == Some("device");
            if self.device.is_some() && !self.sets.iter().any(sets_device) {
                error = error.caused_by("--device", "device");
            }
            error
        };
        planned(registry, self.config.as_deref(), &sets, self.profile.as_deref()).map_err(named)
    }

    /// Prints the keys of the profile that a plan does not read.
    fn report_unused(&self, planned: &Planned) {
        let Some(profile) = &self.profile else { return };
        for UnusedKey { key, reason } in planned.settings.unused_keys() {
            say(&hanging("note     ", &format!("`{key}` of --profile {profile}: {reason}")));
        }
    }

    /// The same without the settings of a key and of the keys in it.
    pub(crate) fn without(&self, key: &str) -> Self {
        let sets_the_key = |set: &&String| {
            let rest = set.trim_start().strip_prefix(key);
            rest.is_some_and(|rest| rest.starts_with(['.', '=', ' ']))
        };
        let sets = self.sets.iter().filter(|set| !sets_the_key(set)).cloned().collect();
        Self { sets, ..self.clone() }
    }

    /// The files that it reads: the configuration, and the profile if it is a file.
    pub(crate) fn files(&self) -> Vec<&Path> {
        let profile = self.profile.as_deref().map(Path::new).filter(|profile| profile.is_file());
        self.config.as_deref().into_iter().chain(profile).collect()
    }

    /// The arguments that give the same configuration again, each after a space.
    pub(crate) fn words(&self) -> String {
        let path = |path: &PathBuf| quoted(&path.to_string_lossy());
        let mut words: Vec<String> = self.config.iter().map(path).collect();
        words.extend(self.data.iter().map(|dir| format!("--data {}", path(dir))));
        words.extend(self.device.iter().map(|device| format!("--device {}", quoted(device))));
        words.extend(self.sets.iter().map(|set| format!("--set {}", quoted(set))));
        words.extend(self.profile.iter().map(|name| format!("--profile {}", quoted(name))));
        words.iter().map(|word| format!(" {word}")).collect()
    }
}

/// The place that errors name for the text of a quickstart.
const QUICKSTART: &str = "the quickstart";

/// Reads a configuration, or the quickstart of the task that is set, into a plan, with a profile if
/// there is one.
pub(crate) fn planned(
    registry: Registry,
    config: Option<&Path>,
    sets: &[String],
    profile: Option<&str>,
) -> Result<Planned, ConfigError> {
    // A file may be a pipe that never ends.
    let _unasked = NothingToSave::begin();
    let profile = profile.map(Profile::open).transpose()?;
    let with_profile = |settings: Settings| match profile {
        Some(profile) => settings.with_profile(profile),
        None => settings,
    };
    match config {
        None => {
            let place = Path::new(QUICKSTART);
            let task = Settings::load("", place, sets)?.peek("task");
            let kind = registry.iter().find(|kind| task.as_deref() == Some(kind.name()));
            let text = kind.unwrap_or(&registry[0]).quickstart();
            let settings = with_profile(Settings::load(text, place, sets)?);
            Plan::of(registry, settings).map_err(without_its_own_keys)
        }
        Some(path) => Plan::of(registry, with_profile(Settings::open(path, sets)?)),
    }
}

/// A key of the quickstart that is not used beside what the user set is not named as the user's.
fn without_its_own_keys(error: ConfigError) -> ConfigError {
    match error {
        ConfigError::Unread { place, key, beside } if place.starts_with(QUICKSTART) => {
            ConfigError::Quickstart { key, beside }
        }
        other => other,
    }
}

/// A run folder with its plan and the requested device.
pub(crate) struct OpenedRun {
    pub(crate) folder: RunFolder,
    pub(crate) plan: Plan,
    pub(crate) device: Device,
    pub(crate) selection: Selection,
}

impl OpenedRun {
    /// Opens a run with a checkpoint whose plan passes a check.
    pub(crate) fn open(
        registry: Registry,
        run: &Path,
        device: &str,
        check: Check<'_>,
    ) -> Result<Self> {
        Self::open_at(registry, (run, None), device, check)
    }

    /// The same with the checkpoint of this step instead of the served one.
    pub(crate) fn open_at(
        registry: Registry,
        (run, checkpoint): (&Path, Option<u64>),
        device: &str,
        check: Check<'_>,
    ) -> Result<Self> {
        let _unasked = NothingToSave::begin();
        let folder = RunFolder::open(run)?.with_checkpoint(checkpoint)?;
        let plan = folder.plan(registry)?;
        check(&plan)?;
        folder.refuse_other_model(&plan)?;
        let (device, selection) = choose(&device_spec(device)?)?;
        folder.served_checkpoint(&plan)?;
        Ok(Self { folder, plan, device, selection })
    }

    /// Connects with the other ranks of a launcher, and chooses the device of this one.
    pub(crate) fn connect(&mut self, device: &str) -> Result<Connected> {
        let ranks = Connected::start(&self.plan.train.distributed, |_| Ok(()))?;
        if let Some(local_rank) = ranks.local_rank() {
            (self.device, self.selection) =
                choose_for_rank(&device_spec(device)?, Some(local_rank))?;
        }
        Ok(ranks)
    }

    /// Opens the run's data and checks that it is the same.
    pub(crate) fn workload(
        &self,
        data: Option<&Path>,
        display: &mut Display,
    ) -> Result<Box<dyn AnyWorkload>> {
        let workload = open(&self.plan, data, Some(&self.folder), display)?;
        workload.check(&self.folder)?;
        Ok(workload)
    }

    /// The same on one of several ranks, of which the first prints.
    pub(crate) fn workload_on(
        &self,
        ranks: &mut Shared,
        data: Option<&Path>,
        display: &mut Display,
    ) -> Result<Box<dyn AnyWorkload>> {
        let is_first = ranks.rank() == 0;
        open_on_ranks(ranks, self.plan.task.writes_caches(), || {
            if is_first {
                return self.workload(data, display);
            }
            let workload = open_in_silence(&self.plan, data, Some(&self.folder))?;
            workload.check(&self.folder)?;
            Ok(workload)
        })
    }
}

/// Opens the data of a plan with a progress bar; a signal in the meantime ends the process.
pub(crate) fn open(
    plan: &Plan,
    dir: Option<&Path>,
    run: Option<&RunFolder>,
    display: &mut Display,
) -> Result<Box<dyn AnyWorkload>> {
    let _unasked = NothingToSave::begin();
    match run {
        Some(_) => plan.task.find_data(dir)?,
        None => plan.find_inputs(dir)?,
    }
    let progress = &mut |step: &str, progress| display.preparing(step, progress);
    let opened = plan.task.open(plan, Opening { dir, run, progress })?;
    display.clear();
    Ok(opened)
}

/// The same on a rank that prints nothing.
pub(crate) fn open_in_silence(
    plan: &Plan,
    dir: Option<&Path>,
    run: Option<&RunFolder>,
) -> Result<Box<dyn AnyWorkload>, RunError> {
    plan.task.open(plan, Opening { dir, run, progress: &mut |_, _| {} })
}

/// The device of a plan, opened.
pub(crate) fn device_of(plan: &Plan) -> Result<(Device, Selection)> {
    choose(&plan.device)
}

/// The same for one of several ranks of a machine, by its number there.
pub(crate) fn device_of_rank(
    plan: &Plan,
    local_rank: Option<usize>,
) -> Result<(Device, Selection)> {
    choose_for_rank(&plan.device, local_rank)
}

/// Names this command or option in an error about one that the task does not support.
pub(crate) fn refused_as(what: &'static str) -> impl Fn(RunError) -> RunError {
    move |error| match error {
        RunError::NotForTask { task, reason, .. } => {
            RunError::NotForTask { what: what.to_owned(), task, reason }
        }
        other => other,
    }
}

/// The error of a command that has no `--checkpoint`, with advice that it can follow.
pub(crate) fn without_checkpoint_option(run: &Path, error: anyhow::Error) -> anyhow::Error {
    let is_advised = matches!(
        error.downcast_ref::<RunError>(),
        Some(RunError::Damaged { .. } | RunError::NotFinite { .. })
    );
    if !is_advised {
        return error;
    }
    match error.downcast::<RunError>() {
        Ok(error) => error.without_choice(run).into(),
        Err(error) => error,
    }
}

/// The argument that uses the int8 network of a run.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct Int8Args {
    /// Use the int8 network that `quantize` wrote, on the CPU
    #[arg(long, conflicts_with_all = ["device", "checkpoint"])]
    pub(crate) int8: bool,
}

impl Int8Args {
    /// The same of a command whose network may run on the GPU that `--device` names.
    pub(crate) const fn of(int8: bool) -> Self {
        Self { int8 }
    }

    /// The error of opening a run: `--int8` excludes `--checkpoint`.
    pub(crate) fn advised(&self, run: &Path, error: anyhow::Error) -> anyhow::Error {
        if self.int8 { without_checkpoint_option(run, error) } else { error }
    }

    /// The device of everything but the int8 network.
    pub(crate) fn device<'a>(&self, device: &'a str) -> &'a str {
        if self.int8 { "cpu" } else { device }
    }
}

/// Returns an error for what the task of a plan does not support, before any work.
pub(crate) type Check<'a> = &'a dyn Fn(&Plan) -> Result<(), RunError>;

/// The device that `--device` names.
pub(crate) fn device_spec(device: &str) -> Result<DeviceSpec> {
    device.parse().with_context(|| format!("--device {device}"))
}

/// The error of interrupted work.
pub(crate) fn stopped(what: &'static str) -> anyhow::Error {
    RunError::Stopped { what }.into()
}

/// The error of a file or folder that the command could not read or write.
pub(crate) fn cannot(action: &'static str, path: &Path, cause: std::io::Error) -> anyhow::Error {
    RunError::Io { action, path: path.to_owned(), cause }.into()
}
