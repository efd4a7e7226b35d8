//! `compare`: trains one config with different settings on the same seeds and compares them.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail, ensure};
use clap::Args;
use clap::builder::NonEmptyStringValueParser;
use serde_json::{Value, json};
use updraft_data::read_regular;
use updraft_run::{Plan, Registry, RunLock};
use updraft_trainer::{MetricSpec, Split, Unit};

use super::arm_folder::{MadeOf, is_absent};
use super::arm_run::train_apart;
use super::comparison::{Compared, Score, best, compare, shown};
use super::data_digest::DataDigests;
use super::setting_words::words;
use super::would::{Would, data_of};
use super::{ConfigArgs, cannot, device_of, open};
use crate::json::JsonArgs;
use crate::progress::Display;
use crate::stop::{self, NothingToSave};
use crate::wrap::hanging;
use crate::{Failed, Stopped};

/// The largest file of a run that is read.
const MOST_BYTES: u64 = 256 << 20;

/// The largest number of seeds: each is a training of every arm.
const MOST_SEEDS: u64 = 1000;

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
    /// Number of seeds: 1, 2, ..., at most 1000
    #[arg(long, default_value_t = 5)]
    seeds: u64,
    /// The folder that holds the data
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// The device of every arm: auto, flex, cuda:0, ... (`probe` lists them)
    #[arg(long, value_parser = NonEmptyStringValueParser::new())]
    device: Option<String>,
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
    let made_of: Vec<MadeOf> = plans.iter().map(|plan| MadeOf::of(plan, None)).collect();
    refuse_others(args, &made_of)?;
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
        let config = ConfigArgs {
            config: Some(args.config.clone()),
            data: args.data.clone(),
            device: args.device.clone(),
            sets: settings(args, arm),
            profile: args.profile.clone(),
        };
        let planned = config.plan_in_silence(registry).map_err(|error| {
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
    let seeds = args.seeds;
    ensure!((1..=MOST_SEEDS).contains(&seeds), "--seeds is {seeds}; it must be 1 to {MOST_SEEDS}");
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

/// Returns an error for a folder with runs of another plan or of other data than those of its arm.
fn refuse_others(args: &CompareArgs, made_of: &[MadeOf]) -> Result<()> {
    for seed in 1..=args.seeds {
        for (index, made_of) in made_of.iter().enumerate() {
            made_of.owns(&args.folder(index, seed))?;
        }
    }
    Ok(())
}

/// The plan of each arm, with the digest of its data at the first seed: of the contents of its files,
/// too.
fn all_made_of(args: &CompareArgs, plans: &[Plan], display: &mut Display) -> Result<Vec<MadeOf>> {
    let (mut all, mut digests) = (Vec::new(), DataDigests::default());
    let dir = args.data.as_deref();
    for (arm, plan) in args.arms.iter().zip(plans) {
        let of_arm = || format!("--arm {arm}");
        let workload = open(plan, dir, None, display).with_context(of_arm)?;
        let digest = digests.of((plan, dir), &*workload, display).with_context(of_arm)?;
        all.push(MadeOf::of(plan, Some(digest)));
    }
    Ok(all)
}

/// Checks the data of a complete comparison: what of it can be found must have the digest of its runs.
/// Returns whether the data of each arm was found; a note has the reason why it was not.
fn check_found_data(
    args: &CompareArgs,
    plans: &[Plan],
    display: &mut Display,
) -> Result<Vec<bool>> {
    let _unasked = NothingToSave::begin();
    let dir = args.data.as_deref();
    let (mut digests, mut reasons) = (DataDigests::default(), Vec::new());
    let mut found = Vec::with_capacity(plans.len());
    for (index, (arm, plan)) in args.arms.iter().zip(plans).enumerate() {
        if let Err(reason) = plan.find_inputs(dir) {
            let reason = reason.to_string();
            if !reasons.contains(&reason) {
                reasons.push(reason);
            }
            found.push(false);
            continue;
        }
        let of_arm = || format!("--arm {arm}");
        let workload = open(plan, dir, None, display).with_context(of_arm)?;
        let digest = digests.of((plan, dir), &*workload, display).with_context(of_arm)?;
        let made_of = MadeOf::of(plan, Some(digest));
        for seed in 1..=args.seeds {
            made_of.owns(&args.folder(index, seed))?;
        }
        found.push(true);
    }
    for reason in reasons {
        let said = "the data was not found, so it was not compared with that of these runs";
        display.line(&hanging("note     ", &format!("{said}: {reason}")));
    }
    Ok(found)
}

/// The scores of each arm if all of them are there; no data is read, and only plans are compared.
fn all_finished(
    args: &CompareArgs,
    plans: &[Plan],
    metric: &MetricSpec,
) -> Result<Option<Vec<Vec<Score>>>> {
    let mut scores = vec![Vec::new(); plans.len()];
    for (index, plan) in plans.iter().enumerate() {
        let made_of = MadeOf::of(plan, None);
        for seed in 1..=args.seeds {
            let folder = args.folder(index, seed);
            let is_own = made_of.owns(&folder)?;
            match finished(&folder, metric)?.filter(|_| is_own) {
                Some(score) => scores[index].push(score),
                None => return Ok(None),
            }
        }
    }
    Ok(Some(scores))
}

/// Trains the missing runs, seed by seed; returns the scores of each arm.
fn train_missing(
    registry: Registry,
    args: &CompareArgs,
    plans: &[Plan],
    metric: &MetricSpec,
) -> Result<Vec<Vec<Score>>> {
    let mut display = Display::new();
    let made_of = {
        let _unasked = NothingToSave::begin();
        let made_of = all_made_of(args, plans, &mut display)?;
        refuse_others(args, &made_of)?;
        made_of
    };
    std::fs::create_dir_all(&args.runs).map_err(|cause| cannot("create", &args.runs, cause))?;
    // Two comparisons in one folder would both train the missing runs.
    let _lock = RunLock::take(&args.runs)?;
    let stopped =
        || Stopped("stopped; the same command continues with the missing runs".to_owned());
    let mut scores: Vec<Vec<Score>> = vec![Vec::new(); args.arms.len()];
    for seed in 1..=args.seeds {
        for (index, (arm, plan)) in args.arms.iter().zip(plans).enumerate() {
            let folder = args.folder(index, seed);
            made_of[index].own(&folder)?;
            let score = match finished(&folder, metric)? {
                Some(score) => score,
                None if stop::requested() => bail!(stopped()),
                None => {
                    let of_run = || format!("--arm {arm}, seed {seed}");
                    let plan = at_seed(registry, plan, seed)?;
                    train_apart(&plan, &folder).with_context(of_run)?;
                    match finished(&folder, metric)? {
                        Some(score) => score,
                        None if stop::requested() => bail!(stopped()),
                        None => {
                            let failed = Failed("the run was stopped before its end".to_owned());
                            return Err(anyhow::Error::from(failed).context(of_run()));
                        }
                    }
                }
            };
            show(&display, (seed, arm.as_str()), metric, &score);
            scores[index].push(score);
        }
    }
    Ok(scores)
}

/// Prints the score of a run.
fn show(display: &Display, (seed, arm): (u64, &str), metric: &MetricSpec, score: &Score) {
    display.line(&format!("seed {seed}  {}  {arm}", shown(metric, score.value)));
}

/// Trains the missing runs and prints the comparison as a table and as JSON.
pub(crate) fn run(registry: Registry, args: &CompareArgs) -> Result<()> {
    let plans = plans(registry, args)?;
    let (metric, band) = checked(args, &plans)?;
    let (scores, found) = match all_finished(args, &plans, &metric)? {
        Some(scores) => {
            let mut display = Display::new();
            let found = check_found_data(args, &plans, &mut display)?;
            for seed in 1..=args.seeds {
                for (arm, these) in args.arms.iter().zip(&scores) {
                    show(&display, (seed, arm.as_str()), &metric, &these[seed as usize - 1]);
                }
            }
            (scores, found)
        }
        None => (train_missing(registry, args, &plans, &metric)?, vec![true; plans.len()]),
    };
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
    let best = best(&compared, metric.direction);
    // It could not train without its data.
    if !found[best] {
        return Ok(());
    }
    let config = ConfigArgs {
        config: Some(args.config.clone()),
        data: args.data.clone(),
        device: args.device.clone(),
        sets: [args.sets.clone(), words(&args.arms[best])].concat(),
        profile: args.profile.clone(),
    };
    crate::program::next(&format!("train{}", config.words()));
    Ok(())
}

/// The settings of an arm at the first seed.
fn settings(args: &CompareArgs, arm: &str) -> Vec<String> {
    let mut settings = args.sets.clone();
    settings.extend(words(arm));
    settings.push("seed=1".to_owned());
    settings
}

/// The plan of an arm at another seed: the files that it was read from may have changed since.
fn at_seed(registry: Registry, plan: &Plan, seed: u64) -> Result<Plan> {
    let place = Path::new("the plan of the arm");
    Ok(Plan::read(registry, &plan.to_toml(), place, &[format!("seed={seed}")])?.plan)
}

/// The score of the complete run in a folder of runs.
fn finished(folder: &Path, metric: &MetricSpec) -> Result<Option<Score>> {
    let runs = match std::fs::read_dir(folder) {
        Ok(runs) => runs,
        Err(cause) if is_absent(&cause) => return Ok(None),
        Err(cause) => return Err(cannot("read", folder, cause)),
    };
    for run in runs {
        let path = run.map_err(|cause| cannot("read", folder, cause))?.path();
        let summary = path.join("summary.json");
        let text = match read_regular(&summary, MOST_BYTES) {
            Ok(text) => text,
            // A record, or a run without a result.
            Err(cause) if is_absent(&cause) => continue,
            Err(cause) => return Err(cannot("read", &summary, cause)),
        };
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
            device_peak_bytes: summary["device_peak_in_use_bytes"].as_u64(),
            device_reserved_bytes: summary["device_peak_reserved_bytes"].as_u64(),
        }));
    }
    Ok(None)
}
