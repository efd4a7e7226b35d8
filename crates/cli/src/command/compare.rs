//! `compare`: one config with different settings, on the same seeds, and what the difference is.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, anyhow, bail, ensure};
use clap::Args;
use serde::Serialize;
use serde_json::{Value, json};
use updraft_run::{Plan, Registry};
use updraft_trainer::{Direction, MetricSpec, Split, Unit};

use super::{ConfigArgs, cannot};
use crate::json::JsonArgs;
use crate::progress::{Display, metric_text};
use crate::stop;
use crate::wrap::hanging;
use crate::{BAD_INPUT, Failed};

/// Trains a config with different settings on the same seeds and compares a metric of the test
/// data.
///
/// Each run is what `train` would do, in a process and a folder of its own. Runs that are complete
/// in the folder already are not repeated, so a comparison that was stopped goes on.
#[derive(Debug, Args)]
pub(crate) struct CompareArgs {
    /// The configuration file
    config: PathBuf,
    /// Settings of one arm, separated by spaces, such as --arm precision=bf16-mixed; at least two,
    /// of which the first is what the others are compared with
    #[arg(long = "arm", value_name = "SETTINGS", required = true)]
    arms: Vec<String>,
    /// How many seeds: 1, 2, ...
    #[arg(long, default_value_t = 5)]
    seeds: u64,
    /// The folder that holds the data
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Change one value in every arm, such as --set train.epochs=3 (repeatable)
    #[arg(long = "set", value_name = "KEY=VALUE")]
    sets: Vec<String>,
    /// The metric to compare, such as accuracy [default: that of `train.criterion`, else loss]
    #[arg(long, value_name = "METRIC")]
    metric: Option<String>,
    /// Differences of so much, beyond twice their standard error, are no failure: in points of per
    /// cent for shares, else in the metric's unit [default: 0.5 points, or 0]
    #[arg(long, value_name = "DIFFERENCE")]
    band: Option<f64>,
    /// The folder of the comparison, with a folder of runs for each arm and seed
    #[arg(long, value_name = "DIR", default_value = "runs/compare")]
    runs: PathBuf,
    #[command(flatten)]
    json: JsonArgs,
}

/// What is left of a run.
#[derive(Debug, Clone, Copy)]
struct Score {
    /// In per cent for shares, else in the metric's unit.
    value: f64,
    cpu_s: Option<f64>,
    peak_bytes: Option<u64>,
}

/// An arm beside the first.
#[derive(Debug, Serialize)]
struct Compared<'a> {
    settings: &'a str,
    /// Seeds that both arms have.
    seeds: usize,
    /// The metric on the test data, a seed each; shares in per cent.
    values: Vec<f64>,
    /// Mean of the arm's values less the first arm's; of shares in points.
    difference: f64,
    /// The standard error of that mean; `None` for a single seed.
    standard_error: Option<f64>,
    verdict: Verdict,
    cpu_s: Option<f64>,
    peak_bytes: Option<u64>,
}

/// An arm's metric beside the first arm's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Verdict {
    /// |difference| is at most the band and twice the standard error.
    WithinBand,
    Better,
    Worse,
}

/// Prints the plan of each arm and does nothing else.
pub(crate) fn dry_run(registry: Registry, args: &CompareArgs) -> Result<()> {
    let plans = plans(registry, args)?;
    checked(args, &plans)?;
    for (arm, plan) in args.arms.iter().zip(&plans) {
        crate::print(&format!("# --arm {arm}\n{}", plan.to_toml().trim_end()))?;
    }
    plans.iter().try_for_each(|plan| Ok(plan.task.find_data(args.data.as_deref())?))
}

/// The plan of each arm at the first seed: faults of the settings are reported before anything is
/// trained.
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
        let planned = super::planned(registry, Some(&args.config), &settings(args, arm, 1));
        Ok(planned.with_context(|| format!("--arm {arm}"))?.plan)
    };
    args.arms.iter().map(plan).collect()
}

/// The metric to compare: the one that was asked for, that of the first arm's criterion if it is
/// measured on test data, else the loss.
fn metric(args: &CompareArgs, plan: &Plan) -> Result<MetricSpec> {
    let metrics = plan.task.metrics();
    let criterion = &plan.train.criterion;
    let name = match &args.metric {
        Some(name) => name.as_str(),
        None if criterion.split == Split::Test => &criterion.metric,
        None => "loss",
    };
    let found = metrics.iter().find(|metric| metric.name == name).cloned();
    found.ok_or_else(|| {
        let names: Vec<_> = metrics.iter().map(|metric| format!("`{}`", metric.name)).collect();
        anyhow!("--metric is `{name}`; it must be one of {}", names.join(", "))
    })
}

/// The metric and the band, of arms that can be compared.
fn checked(args: &CompareArgs, plans: &[Plan]) -> Result<(MetricSpec, f64)> {
    ensure!(args.seeds > 0, "--seeds is 0; it must be at least 1");
    let mut metrics = Vec::new();
    for (arm, plan) in args.arms.iter().zip(plans) {
        metrics.push(metric(args, plan).with_context(|| format!("--arm {arm}"))?);
    }
    let metric = metrics.swap_remove(0);
    let standard = if metric.unit == Unit::Share { 0.5 } else { 0.0 };
    let band = args.band.unwrap_or(standard);
    ensure!(band >= 0.0, "--band is {band}; it must be at least 0");
    Ok((metric, band))
}

/// Trains what is missing, seed by seed, and prints the comparison as a table and as JSON.
pub(crate) fn run(registry: Registry, args: &CompareArgs) -> Result<()> {
    let (metric, band) = checked(args, &plans(registry, args)?)?;
    let display = Display::new();
    let mut scores: Vec<Vec<Score>> = vec![Vec::new(); args.arms.len()];
    for seed in 1..=args.seeds {
        for (index, arm) in args.arms.iter().enumerate() {
            if stop::requested() {
                let said = "stopped; the same command goes on with the runs that are missing";
                bail!(Failed(said.to_owned()));
            }
            let folder = args.runs.join(format!("arm-{}-seed-{seed}", index + 1));
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
    };
    crate::program::next(&format!("train{}", config.words()));
    Ok(())
}

/// The arm with the best mean.
fn best(compared: &[Compared<'_>], direction: Direction) -> usize {
    let better = |a: f64, b: f64| match direction {
        Direction::HigherIsBetter => a > b,
        Direction::LowerIsBetter => a < b,
    };
    let mut best = 0;
    for (index, arm) in compared.iter().enumerate() {
        if better(arm.difference, compared[best].difference) {
            best = index;
        }
    }
    best
}

/// A value of the metric, of which shares are in per cent.
fn shown(metric: &MetricSpec, value: f64) -> String {
    match metric.unit {
        Unit::Share => format!("{value:6.2} %"),
        _ => format!("{:>8}", metric_text(metric, Some(value))),
    }
}

/// A difference of values of the metric: points with two decimals, else three digits.
fn apart(metric: &MetricSpec, value: f64) -> String {
    match metric.unit {
        Unit::Share => format!("{value:.2}"),
        _ if value == 0.0 => "0".to_owned(),
        _ if !(1e-4..1e5).contains(&value) => format!("{value:.2e}"),
        _ => {
            let decimals = (2.0 - value.log10().floor()).max(0.0) as usize;
            format!("{value:.decimals$}")
        }
    }
}

fn settings(args: &CompareArgs, arm: &str, seed: u64) -> Vec<String> {
    let mut settings = args.sets.clone();
    settings.extend(words(arm));
    settings.push(format!("seed={seed}"));
    settings
}

/// The settings of a text: divided by spaces that are in no quotes, brackets or braces.
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

/// Writes down what the folder's runs are made of, or refuses a folder with runs of other settings.
fn own(args: &CompareArgs, arm: &str, seed: u64, folder: &Path) -> Result<()> {
    let text = |path: &Path| path.to_string_lossy().into_owned();
    let made_of = json!({ "config": text(&args.config), "data": args.data.as_deref().map(text),
                "settings": settings(args, arm, seed) });
    let path = folder.join("compare.json");
    if path.exists() {
        let text = std::fs::read_to_string(&path)
            .with_context(|| format!("cannot read `{}`", path.display()))?;
        let found: Option<Value> = serde_json::from_str(&text).ok();
        ensure!(
            found == Some(made_of),
            "`{}` holds runs of other settings; name another folder with --runs",
            folder.display()
        );
        return Ok(());
    }
    std::fs::create_dir_all(folder)
        .and_then(|()| std::fs::write(&path, made_of.to_string()))
        .map_err(|cause| cannot("write", &path, cause))
}

/// Runs `train` in a process of its own: nothing of one run reaches the next.
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
    let output = command.stdout(Stdio::null()).stderr(Stdio::piped()).output();
    let output = output.context("cannot start a run")?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        let said = said.lines().next_back().unwrap_or("it said nothing");
        let said = said.strip_prefix("error: ").unwrap_or(said);
        let said = format!("--arm {arm}, seed {seed}: {said}");
        // What would mend the run mends the comparison.
        bail!(match output.status.code() {
            Some(code) if code == i32::from(BAD_INPUT) => anyhow!(said),
            _ => Failed(said).into(),
        });
    }
    let stopped = || Failed("stopped; the same command goes on".to_owned()).into();
    finished(folder, metric)?.ok_or_else(stopped)
}

/// The score of the complete run in a folder of runs.
fn finished(folder: &Path, metric: &MetricSpec) -> Result<Option<Score>> {
    let Ok(runs) = std::fs::read_dir(folder) else { return Ok(None) };
    for run in runs {
        let path = run.with_context(|| format!("cannot read `{}`", folder.display()))?.path();
        let Ok(text) = std::fs::read_to_string(path.join("summary.json")) else { continue };
        let summary: Value = serde_json::from_str(&text)
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

fn compare<'a>(
    settings: &'a str,
    these: &[Score],
    first: &[Score],
    band: f64,
    direction: Direction,
) -> Compared<'a> {
    let differences: Vec<f64> =
        these.iter().zip(first).map(|(this, first)| this.value - first.value).collect();
    let (difference, standard_error) = mean_and_error(&differences);
    let verdict = match direction.gain(difference, 0.0) {
        gain if gain.abs() <= band + 2.0 * standard_error.unwrap_or(0.0) => Verdict::WithinBand,
        gain if gain > 0.0 => Verdict::Better,
        _ => Verdict::Worse,
    };
    let cpu: Option<Vec<f64>> = these.iter().map(|score| score.cpu_s).collect();
    Compared {
        settings,
        seeds: differences.len(),
        values: these.iter().map(|score| score.value).collect(),
        difference,
        standard_error,
        verdict,
        cpu_s: cpu.map(|cpu| mean_and_error(&cpu).0),
        peak_bytes: these.iter().filter_map(|score| score.peak_bytes).max(),
    }
}

/// The mean, and its standard error `s/√n` with `s² = Σ(x − mean)²/(n − 1)`.
fn mean_and_error(values: &[f64]) -> (f64, Option<f64>) {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (mean, (values.len() > 1).then(|| (squares / (count - 1.0) / count).sqrt()))
}

impl Compared<'_> {
    fn line(&self, metric: &MetricSpec) -> String {
        let mean = shown(metric, mean_and_error(&self.values).0);
        let points = if metric.unit == Unit::Share { " points" } else { "" };
        let sign = if self.difference < 0.0 { '-' } else { '+' };
        let difference = apart(metric, self.difference.abs());
        let error = match self.standard_error {
            None => "one seed".to_owned(),
            Some(error) => format!("standard error {}", apart(metric, error)),
        };
        let cpu = self.cpu_s.map_or_else(String::new, |cpu| format!(", {cpu:.0} CPU-s"));
        let verdict = match self.verdict {
            Verdict::WithinBand => "within the band",
            Verdict::Better => "BETTER, outside the band",
            Verdict::Worse => "WORSE, outside the band",
        };
        let text =
            format!("{sign}{difference}{points}, {error}, {verdict}{cpu}  {}", self.settings);
        hanging(&format!("{mean}  "), &text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scores(values: &[f64]) -> Vec<Score> {
        let score = |&value: &f64| Score { value, cpu_s: Some(2.0), peak_bytes: None };
        values.iter().map(score).collect()
    }

    #[test]
    fn the_paired_difference_and_its_error_have_their_values_by_hand() {
        // Differences 1, 2 and 3: mean 2, s = 1, error 1/√3.
        let of = |band, direction| {
            let (these, first) = (scores(&[51.0, 62.0, 43.0]), scores(&[50.0, 60.0, 40.0]));
            compare("x", &these, &first, band, direction)
        };
        let compared = of(0.5, Direction::HigherIsBetter);
        assert!((compared.difference - 2.0).abs() < 1e-12);
        let error = compared.standard_error.expect("three seeds");
        assert!((error - 1.0 / 3.0_f64.sqrt()).abs() < 1e-12, "{error}");
        // 2 is above 0.5 + 2·0.577, and not above 1 + 2·0.577.
        assert_eq!(compared.verdict, Verdict::Better);
        assert_eq!(of(0.5, Direction::LowerIsBetter).verdict, Verdict::Worse);
        assert_eq!(of(1.0, Direction::HigherIsBetter).verdict, Verdict::WithinBand);
        assert_eq!(compared.cpu_s, Some(2.0));
    }

    #[test]
    fn one_seed_has_no_error_and_an_arm_differs_from_itself_by_nothing() {
        let metric = MetricSpec::new("accuracy", Unit::Share, Direction::HigherIsBetter);
        let one = scores(&[50.0]);
        let compared = compare("x", &one, &one, 0.0, metric.direction);
        assert_eq!((compared.difference, compared.standard_error), (0.0, None));
        assert_eq!(compared.verdict, Verdict::WithinBand);
        assert_eq!(
            compared.line(&metric),
            " 50.00 %  +0.00 points, one seed, within the band, 2 CPU-s  x"
        );
    }

    #[test]
    fn differences_have_the_digits_that_tell_them_apart() {
        let rmse = MetricSpec::new("rmse", Unit::Of("y".into()), Direction::LowerIsBetter);
        let texts = [0.001_234, 0.5, 12.345, 1234.5, 2e-7, 0.0].map(|value| apart(&rmse, value));
        assert_eq!(texts, ["0.00123", "0.500", "12.3", "1234", "2.00e-7", "0"]);
        let (these, first) = (scores(&[0.6421, 0.6433]), scores(&[0.6398, 0.6399]));
        let line = compare("model.hidden=[4]", &these, &first, 0.0, rmse.direction).line(&rmse);
        assert!(
            line.contains("+0.00285, standard error 0.000550, WORSE, outside the band"),
            "{line}"
        );
        assert!(line.lines().all(|line| line.chars().count() <= 80), "{line}");
    }

    #[test]
    fn settings_are_divided_by_spaces_outside_quotes_and_brackets() {
        let text = r#"a.b=1  name="two words" t={ kind = "x y", n = [1, 2] } c='d "e'"#;
        let expected =
            ["a.b=1", r#"name="two words""#, r#"t={ kind = "x y", n = [1, 2] }"#, r#"c='d "e'"#];
        assert_eq!(words(text), expected);
        assert_eq!(words("  "), [""; 0]);
    }
}
