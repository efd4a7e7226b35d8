//! `compare`: trains one config with different settings on the same seeds and compares them.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, anyhow, bail, ensure};
use clap::Args;
use serde_json::{Value, json};
use updraft_data::read_regular;
use updraft_run::{Plan, Registry};
use updraft_trainer::{MetricSpec, Split, Unit};

use super::comparison::{Compared, Score, best, compare, shown};
use super::would::{Would, data_of};
use super::{ConfigArgs, cannot, device_of};
use crate::json::JsonArgs;
use crate::progress::Display;
use crate::stop;
use crate::whole_file::write_whole;
use crate::{BAD_INPUT, Failed};

/// The largest file of a run that is read.
const MOST_BYTES: u64 = 256 << 20;

/// Trains a config with different settings on the same seeds and compares a metric of the test
/// data.
///
/// Each run is the same as with `train`, in a separate process and folder. Complete runs in the
/// folder are not repeated, so a comparison that was stopped continues.
#[derive(Debug, Args)]
pub(crate) struct CompareArgs {
    /// The configuration file
    config: PathBuf,
    /// Settings of one arm, separated by spaces, such as --arm precision=bf16-mixed; at least two;
    /// the others are compared with the first
    #[arg(long = "arm", value_name = "SETTINGS", required = true)]
    arms: Vec<String>,
    /// Number of seeds: 1, 2, ...
    #[arg(long, default_value_t = 5)]
    seeds: u64,
    /// The folder that holds the data
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Change one value in every arm, such as --set train.epochs=3;
    /// KEY= removes a key (repeatable)
    #[arg(long = "set", value_name = "KEY=VALUE")]
    sets: Vec<String>,
    /// Use a profile in place of the config's own keys of performance, in every arm: default,
    /// throughput, low-memory, or a .toml file
    #[arg(long, value_name = "PROFILE")]
    profile: Option<String>,
    /// The metric to compare, such as accuracy [default: that of `train.criterion`, or the loss]
    #[arg(long, value_name = "METRIC")]
    metric: Option<String>,
    /// Tolerance: smaller differences are not a failure; in percentage points for fractions,
    /// otherwise in the metric's unit [default: 0.5 points, or 0]
    #[arg(long, value_name = "DIFFERENCE")]
    band: Option<f64>,
    /// The folder of the comparison, with a folder of runs for each arm and seed
    #[arg(long, value_name = "DIR", default_value = "runs/compare")]
    runs: PathBuf,
    #[command(flatten)]
    json: JsonArgs,
}

impl CompareArgs {
    /// The folder of the runs of an arm and a seed.
    fn folder(&self, arm: usize, seed: u64) -> PathBuf {
        self.runs.join(format!("arm-{}-seed-{seed}", arm + 1))
    }
}

/// Prints what would be read and written, and the plan of each arm.
pub(crate) fn dry_run(registry: Registry, args: &CompareArgs) -> Result<()> {
    let plans = plans(registry, args)?;
    checked(args, &plans)?;
    for seed in 1..=args.seeds {
        for (index, arm) in args.arms.iter().enumerate() {
            let folder = args.folder(index, seed);
            owned(&folder, &made_of(args, arm, seed))?;
        }
    }
    let data = data_of(&plans[0], args.data.as_deref());
    let reads = format!("{} and {data}", args.config.display());
    let runs = args.arms.len() as u64 * args.seeds;
    let writes = format!("{runs} run folders in {}, unless they exist", args.runs.display());
    Would::new(reads, writes).print_before_a_plan()?;
    for (arm, plan) in args.arms.iter().zip(&plans) {
        crate::print(&format!("# --arm {arm}\n{}", plan.to_toml().trim_end()))?;
    }
    plans.iter().try_for_each(|plan| Ok(plan.find_inputs(args.data.as_deref())?))
}

/// The plan of each arm at the first seed: errors in the settings are reported before training.
fn plans(registry: Registry, args: &CompareArgs) -> Result<Vec<Plan>> {
    let count = args.arms.len();
    ensure!(count > 1, "there is one --arm; name at least two, the first to compare with");
    let own = args.sets.iter().chain(&args.arms).flat_map(|text| words(text));
    let seed = own.into_iter().find(|set| set.split('=').next().map(str::trim) == Some("seed"));
    if let Some(seed) = seed {
        bail!(
            "`{seed}` cannot be set here: every arm is trained with the seeds 1, 2, ... of --seeds"
        );
    }
    let plan = |arm: &String| {
        ensure!(
            !arm.trim().is_empty(),
            "an --arm is empty; give its settings, such as precision=f32"
        );
        let (config, profile) = (Some(&*args.config), args.profile.as_deref());
        let planned = super::planned(registry, config, &settings(args, arm, 1), profile);
        let planned = planned.map_err(|error| {
            let (error, of_arm) = (error.set_by("--arm", &words(arm)), format!("--arm {arm}"));
            let names_it = error.to_string().trim_start_matches('`').starts_with("--arm ");
            if names_it { error.into() } else { anyhow::Error::from(error).context(of_arm) }
        });
        Ok(planned?.plan)
    };
    args.arms.iter().map(plan).collect()
}

/// The metric to compare: the requested one, or that of the first arm's criterion if it is measured
/// on test data, or the loss.
fn metric(args: &CompareArgs, plan: &Plan) -> Result<MetricSpec> {
    let criterion = &plan.train.criterion;
    let name = match &args.metric {
        Some(name) => name.as_str(),
        None if criterion.split == Split::Test => &criterion.metric,
        None => "loss",
    };
    metric_of(name, plan)
}

/// The metric of this name.
fn metric_of(name: &str, plan: &Plan) -> Result<MetricSpec> {
    let metrics = plan.task.metrics();
    let found = metrics.iter().find(|metric| metric.name == name).cloned();
    found.ok_or_else(|| {
        let names: Vec<_> = metrics.iter().map(|metric| format!("`{}`", metric.name)).collect();
        anyhow!("--metric is `{name}`; it must be one of {}", names.join(", "))
    })
}

/// The metric and the tolerance, for arms that can be compared.
fn checked(args: &CompareArgs, plans: &[Plan]) -> Result<(MetricSpec, f64)> {
    ensure!(args.seeds > 0, "--seeds is 0; it must be at least 1");
    // What no arm has is no fault of an arm.
    let metric = metric(args, &plans[0])?;
    for (arm, plan) in args.arms.iter().zip(plans) {
        metric_of(&metric.name, plan)
            .with_context(|| format!("--arm {arm} has another metric than the first"))?;
        device_of(plan).with_context(|| format!("--arm {arm}"))?;
    }
    let standard = if metric.unit == Unit::Share { 0.5 } else { 0.0 };
    let band = args.band.unwrap_or(standard);
    ensure!(band >= 0.0, "--band is {band}; it must be at least 0");
    Ok((metric, band))
}

/// Trains the missing runs, seed by seed, and prints the comparison as a table and as JSON.
pub(crate) fn run(registry: Registry, args: &CompareArgs) -> Result<()> {
    let (metric, band) = checked(args, &plans(registry, args)?)?;
    let display = Display::new();
    let mut scores: Vec<Vec<Score>> = vec![Vec::new(); args.arms.len()];
    for seed in 1..=args.seeds {
        for (index, arm) in args.arms.iter().enumerate() {
            if stop::requested() {
                let said = "stopped; the same command continues with the missing runs";
                bail!(Failed(said.to_owned()));
            }
            let folder = args.folder(index, seed);
            own(args, arm, seed, &folder)?;
            let score = match finished(&folder, &metric)? {
                Some(score) => score,
                None => trained(args, arm, seed, &folder, &metric)?,
            };
            let value = shown(&metric, score.value);
            display.line(&format!("seed {seed}  {value}  {arm}"));
            scores[index].push(score);
        }
    }
    let compared: Vec<Compared<'_>> = args
        .arms
        .iter()
        .zip(&scores)
        .map(|(arm, these)| compare(arm, these, &scores[0], band, metric.direction))
        .collect();
    for arm in &compared {
        crate::print(&arm.line(&metric))?;
    }
    let report = json!({ "version": 3, "metric": metric.name, "direction": metric.direction,
                         "band": band, "arms": compared });
    args.json.print(&report)?;
    let config = ConfigArgs {
        config: Some(args.config.clone()),
        data: args.data.clone(),
        sets: [args.sets.clone(), words(&args.arms[best(&compared, metric.direction)])].concat(),
        profile: args.profile.clone(),
    };
    crate::program::next(&format!("train{}", config.words()));
    Ok(())
}

fn settings(args: &CompareArgs, arm: &str, seed: u64) -> Vec<String> {
    let mut settings = args.sets.clone();
    settings.extend(words(arm));
    settings.push(format!("seed={seed}"));
    settings
}

/// Splits settings at spaces outside quotes, brackets and braces.
fn words(text: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let (mut quote, mut depth) = (None, 0_usize);
    for c in text.chars() {
        match (quote, c) {
            (Some(open), _) if open == c => quote = None,
            (None, '"' | '\'') => quote = Some(c),
            (None, '[' | '{') => depth += 1,
            (None, ']' | '}') => depth = depth.saturating_sub(1),
            (None, _) if depth == 0 && c.is_whitespace() => {
                words.push(String::new());
                continue;
            }
            _ => {}
        }
        words.last_mut().expect("there is a word").push(c);
    }
    words.retain(|word| !word.is_empty());
    words
}

/// The file that records the settings of a folder's runs.
const SETTINGS: &str = "compare.json";

/// What the runs of an arm and a seed are made of.
fn made_of(args: &CompareArgs, arm: &str, seed: u64) -> Value {
    let text = |path: &Path| path.to_string_lossy().into_owned();
    json!({ "config": text(&args.config), "data": args.data.as_deref().map(text),
            "settings": settings(args, arm, seed), "profile": args.profile })
}

/// Whether a folder has runs of these settings; returns an error for runs of others.
fn owned(folder: &Path, made_of: &Value) -> Result<bool> {
    let path = folder.join(SETTINGS);
    if !path.exists() {
        return Ok(false);
    }
    let text = read_regular(&path, MOST_BYTES)
        .with_context(|| format!("cannot read `{}`", path.display()))?;
    let found: Option<Value> = serde_json::from_slice(&text).ok();
    ensure!(
        found.as_ref() == Some(made_of),
        "`{}` holds runs of other settings; name another folder with --runs",
        folder.display()
    );
    Ok(true)
}

/// Records the settings of a folder's runs, or returns an error for runs of other settings.
fn own(args: &CompareArgs, arm: &str, seed: u64, folder: &Path) -> Result<()> {
    let made_of = made_of(args, arm, seed);
    if owned(folder, &made_of)? {
        return Ok(());
    }
    let path = folder.join(SETTINGS);
    std::fs::create_dir_all(folder).map_err(|cause| cannot("create", folder, cause))?;
    write_whole(&path, &made_of.to_string())
}

/// Runs `train` in a separate process, so that runs do not influence each other.
fn trained(
    args: &CompareArgs,
    arm: &str,
    seed: u64,
    folder: &Path,
    metric: &MetricSpec,
) -> Result<Score> {
    let program = std::env::current_exe().context("the program cannot find itself")?;
    let mut command = Command::new(program);
    command.arg("train").arg(&args.config).arg("--runs").arg(folder);
    if let Some(data) = &args.data {
        command.arg("--data").arg(data);
    }
    for setting in settings(args, arm, seed) {
        command.arg("--set").arg(setting);
    }
    command.args(args.profile.iter().flat_map(|profile| ["--profile", profile]));
    let output = command.stdout(Stdio::null()).stderr(Stdio::piped()).output();
    let output = output.context("cannot start a run")?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        let said = said.lines().next_back().unwrap_or("it said nothing");
        let said = said.strip_prefix("error: ").unwrap_or(said);
        let said = format!("--arm {arm}, seed {seed}: {said}");
        // An error that the user can fix in the run is one that the user can fix in the comparison.
        bail!(match output.status.code() {
            Some(code) if code == i32::from(BAD_INPUT) => anyhow!(said),
            _ => Failed(said).into(),
        });
    }
    let stopped = || Failed("stopped; the same command continues".to_owned()).into();
    finished(folder, metric)?.ok_or_else(stopped)
}

/// The score of the complete run in a folder of runs.
fn finished(folder: &Path, metric: &MetricSpec) -> Result<Option<Score>> {
    let Ok(runs) = std::fs::read_dir(folder) else { return Ok(None) };
    for run in runs {
        let path = run.with_context(|| format!("cannot read `{}`", folder.display()))?.path();
        let Ok(text) = read_regular(path.join("summary.json"), MOST_BYTES) else { continue };
        let summary: Value = serde_json::from_slice(&text)
            .with_context(|| format!("`{}` has a damaged summary.json", path.display()))?;
        if summary["complete"] != true {
            continue;
        }
        let name = metric.name.as_ref();
        let value = summary["test"][name]
            .as_f64()
            .ok_or_else(|| anyhow!("`{}` has no test {name} that is a number", path.display()))?;
        let factor = if metric.unit == Unit::Share { 100.0 } else { 1.0 };
        return Ok(Some(Score {
            value: factor * value,
            cpu_s: summary["cpu_s"].as_f64(),
            peak_bytes: summary["peak_resident_bytes"].as_u64(),
        }));
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_divided_by_spaces_outside_quotes_and_brackets() {
        let text = r#"a.b=1  name="two words" t={ kind = "x y", n = [1, 2] } c='d "e'"#;
        let expected =
            ["a.b=1", r#"name="two words""#, r#"t={ kind = "x y", n = [1, 2] }"#, r#"c='d "e'"#];
        assert_eq!(words(text), expected);
        assert_eq!(words("  "), [""; 0]);
    }
}
