//! `tune`: hyperparameter search over the keys of a config.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use serde_json::json;
use updraft_run::{Planned, Registry, TunePlan};
use updraft_tune::{Direction, Point, Study, TrialState};

use super::data_digest::DataDigests;
use super::would::{Would, config_of, data_of};
use super::{ConfigArgs, device_of, open};
use crate::Failed;
use crate::json::JsonArgs;
use crate::log::LogFile;
use crate::program::quoted;
use crate::progress::Display;
use crate::report::search_page;
use crate::search::{
    Found, Overhead, Search, keep_weights, run_of, value_text, work, write_configs,
};
use crate::stop::NothingToSave;
use crate::whole_file::write_whole;
use crate::wrap::{counted, hanging};

const EXAMPLES: &str = "\
Examples:
  tune configs/tables-tune.toml   search the keys of its section [tune]
  tune CONFIG --workers 2         run two trials at once
  tune CONFIG --trials 100        100 trials in total, including earlier ones
  tune CONFIG --set 'tune.sampler={kind=\"random\"}'
                                  use another sampler
The same command resumes a study that was stopped, or joins a study that
another process runs, also on another host that shares the folder.
";

/// Searches for the best values of a config's keys.
///
/// Each trial trains like `train`, in a separate process and run folder: a trial that fails does
/// not affect the others. The section `[tune]` of the config lists the keys and the objectives.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct TuneArgs {
    #[command(flatten)]
    config: ConfigArgs,
    /// Trials of the study, including those of earlier calls [default: `tune.trials`]
    #[arg(long, value_name = "N")]
    trials: Option<u64>,
    /// Trials that this process runs at once
    #[arg(long, value_name = "N", default_value_t = 1)]
    workers: usize,
    /// The study's folder [default: runs/tune/NAME, where NAME is the config's `name`]
    #[arg(long, value_name = "DIR")]
    study: Option<PathBuf>,
    #[command(flatten)]
    json: JsonArgs,
}

/// Trains a trial whose plan a study sends over standard input.
#[derive(Debug, Args)]
pub(crate) struct TuneTrialArgs {}

/// What the digest of the data depends on.
#[derive(Debug, Clone, Copy)]
enum Files {
    /// The names and lengths of the files.
    Listed,
    /// Their contents, too.
    Read,
}

impl TuneArgs {
    fn config(&self) -> ConfigArgs {
        let mut config = self.config.clone();
        config.sets.extend(self.trials.map(|trials| format!("tune.trials={trials}")));
        config
    }

    fn read(&self, registry: Registry, is_dry: bool) -> Result<(Planned, TunePlan)> {
        ensure!(
            (1..=256).contains(&self.workers),
            "--workers is {}; it must be 1 to 256",
            self.workers
        );
        let planned = self.config().plan(registry).map_err(|error| match self.trials {
            Some(_) => error.caused_by("--trials", "tune.trials"),
            None => error,
        })?;
        let mut tune = TunePlan::read(&planned).map_err(|error| match self.trials {
            Some(_) => error.caused_by("--trials", "tune.trials"),
            None => error,
        })?;
        self.try_extremes(registry, &tune)?;
        device_of(&planned.plan)?;
        planned.plan.find_inputs(self.config.data.as_deref())?;
        let folder = self.folder(&planned);
        // A dry run reads the contents of all files only to compare them.
        let files = if is_dry && !folder.exists() { Files::Listed } else { Files::Read };
        tune.study.data = self.try_data(registry, &tune, files)?;
        Study::check(&folder, &tune.study)?;
        Ok((planned, tune))
    }

    /// Plans trials with each key at both ends of its range, so that an invalid value is an error
    /// before the first trial.
    fn try_extremes(&self, registry: Registry, tune: &TunePlan) -> Result<()> {
        let points = tune.study.space.extremes();
        points.iter().try_for_each(|point| self.trial_at(registry, tune, point).map(drop))
    }

    /// Opens the data of the first of these trials, so that what is wrong with the data for all trials
    /// is an error before the first one, and returns its digest.
    fn try_data(&self, registry: Registry, tune: &TunePlan, files: Files) -> Result<String> {
        let points = tune.study.space.extremes();
        let point = points.first().context("`tune.space` has no values")?;
        let plan = self.trial_at(registry, tune, point)?.plan;
        let (device, _) = device_of(&plan)?;
        let (dir, mut display) = (self.config.data.as_deref(), Display::new());
        let workload = open(&plan, dir, None, &mut display)?;
        workload.check_start(&plan, &device)?;
        match files {
            Files::Listed => Ok(workload.data_digest(&plan)?),
            Files::Read => DataDigests::default().of((&plan, dir), &*workload, &mut display),
        }
    }

    /// The plan of a trial.
    fn trial_at(&self, registry: Registry, tune: &TunePlan, point: &Point) -> Result<Planned> {
        let values = tune.study.space.values(point);
        let values: Vec<String> =
            values.iter().map(|(key, value)| format!("{key}={value}")).collect();
        let mut config = self.config.clone();
        config.sets.extend(values.iter().cloned());
        config.plan_in_silence(registry).with_context(|| {
            format!("`tune.space` contains values that cannot be trained, {}", values.join(" "))
        })
    }

    fn folder(&self, planned: &Planned) -> PathBuf {
        let own = || Path::new("runs").join("tune").join(&planned.plan.name);
        self.study.clone().unwrap_or_else(own)
    }
}

/// Prints the plan and the search without running it.
pub(crate) fn dry_run(registry: Registry, args: &TuneArgs) -> Result<()> {
    let (planned, tune) = args.read(registry, true)?;
    let data = data_of(&planned.plan, args.config.data.as_deref());
    let reads = format!("{} and {data}", config_of(&args.config));
    Would::new(reads, args.folder(&planned).display()).print_before_a_plan()?;
    crate::print(planned.plan.to_toml().trim_end())?;
    let study = &tune.study;
    crate::print(&hanging("# study      ", &args.folder(&planned).display().to_string()))?;
    crate::print(&format!("# trials     {}", study.trials))?;
    for objective in &study.objectives {
        let direction = direction(objective.direction);
        crate::print(&format!("# objective  {}, {direction}", objective.name))?;
    }
    for parameter in study.space.parameters() {
        crate::print(&format!("# searched   {}", parameter.key()))?;
    }
    Ok(())
}

/// Runs trials until the study is complete, and prints the results.
pub(crate) fn run(registry: Registry, args: &TuneArgs) -> Result<()> {
    let (planned, tune) = {
        let _unasked = NothingToSave::begin();
        args.read(registry, false)?
    };
    let study = Study::open(&args.folder(&planned), tune.study)?;
    for trial in Found::of(&study).front {
        let run = run_of(study.folder(), &trial).filter(|run| !run.exists());
        if let Some(run) = run {
            let (number, run) = (trial.number, run.display());
            bail!("`{run}`, the run of trial {number}, is gone; restore it, or use another folder");
        }
    }
    let config = args.config();
    let search =
        Search { registry, config: &config, study: &study, keep: tune.keep, workers: args.workers };
    let worked = search.work();
    keep_weights(&study, tune.keep)?;
    let found = Found::of(&study);
    let page = study.folder().join("report.html");
    // A study that was stopped has a page, too.
    let written = write_whole(&page, &search_page(&study, &found)?);
    let overhead = worked?;
    written?;
    ensure!(!found.front.is_empty(), Failed(no_result(&found, &page)));
    let configs = write_configs(&study, &found)?;
    summary(&study, &found, &overhead, (&configs, &page))?;
    args.json.print(&report(&study, &found, &configs, &page, &overhead))?;
    if let Some(config) = configs.first() {
        crate::program::next(&format!("train {}", quoted(&config.to_string_lossy())));
    }
    Ok(())
}

/// Trains one trial of a study that runs in another process.
pub(crate) fn trial(registry: Registry, _: &TuneTrialArgs, log: &LogFile) -> Result<()> {
    work(registry, log)
}

fn no_result(found: &Found, page: &Path) -> String {
    let reason = found.trials.iter().rev().find_map(|trial| trial.reason.as_deref());
    let reason = reason.map_or_else(String::new, |reason| format!(", the last because {reason}"));
    let all = counted(found.trials.len() as u64, "trial");
    format!("none of {all} finished{reason}; `{}` lists them", page.display())
}

const fn direction(direction: Direction) -> &'static str {
    match direction {
        Direction::Minimize => "lower is better",
        Direction::Maximize => "higher is better",
    }
}

/// Prints the results in lines of at most 80 columns, if paths and names are short enough.
fn summary(
    study: &Study,
    found: &Found,
    overhead: &Overhead,
    (configs, page): (&[PathBuf], &Path),
) -> Result<()> {
    let settings = study.settings();
    let line = |name: &str, text: &str| crate::print(&hanging(&format!("{name:11}"), text));
    let count = |state| found.count(state);
    line(
        "study",
        &format!(
            "{}, {}: {} finished, {} pruned, {} failed",
            study.folder().display(),
            counted(found.trials.len() as u64, "trial"),
            count(TrialState::Finished),
            count(TrialState::Pruned),
            count(TrialState::Failed),
        ),
    )?;
    for (at, trial) in found.front.iter().enumerate() {
        let both = settings.objectives.iter().zip(&trial.values);
        let values = both.map(|(it, value)| format!("{} {}", it.name, value_text(*value)));
        let name = match (at, settings.objectives.len()) {
            (0, 1) => "best",
            (0, _) => "front",
            _ => "",
        };
        line(name, &format!("trial {}: {}", trial.number, values.collect::<Vec<_>>().join(", ")))?;
    }
    if let ([best], 1) = (&found.front[..], settings.objectives.len()) {
        for (key, value) in settings.space.values(&best.point) {
            line("", &format!("{key} = {value}"))?;
        }
    }
    for (objective, shares) in settings.objectives.iter().zip(&found.importance) {
        let shares = shares.iter().map(|(key, share)| format!("{key} {:.0} %", 100.0 * share));
        let shares = shares.collect::<Vec<_>>().join(", ");
        if !shares.is_empty() {
            line("importance", &format!("for {}: {shares}", objective.name))?;
        }
    }
    if let Some(milliseconds) = overhead.median_ms() {
        let trials = counted(overhead.trials() as u64, "trial");
        let text = format!(
            "{milliseconds:.1} ms a trial for sampler, journal and process, median of {trials}"
        );
        line("overhead", &text)?;
    }
    line("page", &page.display().to_string())?;
    configs.iter().try_for_each(|config| line("config", &config.display().to_string()))
}

/// The results in JSON.
fn report(
    study: &Study,
    found: &Found,
    configs: &[PathBuf],
    page: &Path,
    overhead: &Overhead,
) -> serde_json::Value {
    let space = &study.settings().space;
    let front = found.front.iter().zip(configs).map(|(trial, config)| {
        let values: serde_json::Map<String, serde_json::Value> = space
            .values(&trial.point)
            .into_iter()
            .map(|(key, value)| (key.to_owned(), json!(value)))
            .collect();
        json!({
            "trial": trial.number,
            "objectives": trial.values,
            "values": values,
            "config": config.to_string_lossy(),
            "run": run_of(study.folder(), trial).map(|run| run.to_string_lossy().into_owned()),
        })
    });
    let importance = found.importance.iter().map(|shares| {
        serde_json::Value::Object(shares.iter().map(|(key, it)| (key.clone(), json!(it))).collect())
    });
    json!({
        "version": 1,
        "study": study.folder().to_string_lossy(),
        "page": page.to_string_lossy(),
        "objectives": study.settings().objectives,
        "trials": found.trials.len(),
        "finished": found.count(TrialState::Finished),
        "pruned": found.count(TrialState::Pruned),
        "failed": found.count(TrialState::Failed),
        "front": front.collect::<Vec<_>>(),
        "importance": importance.collect::<Vec<_>>(),
        "overhead_ms": overhead.median_ms(),
    })
}
