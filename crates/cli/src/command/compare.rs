//! `compare`: one config with different settings, on the same seeds, and what the difference is.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, anyhow, bail, ensure};
use clap::Args;
use serde::Serialize;
use serde_json::{Value, json};

use crate::progress::Display;
use crate::stop;

/// Trains a config with different settings on the same seeds and compares their test accuracy.
///
/// Each run is what `train` would do, in a process and a folder of its own. Runs that are complete
/// in the folder already are not repeated, so a comparison that was stopped goes on.
#[derive(Debug, Args)]
pub(crate) struct CompareArgs {
    /// The configuration file
    config: PathBuf,
    /// Settings of one arm, separated by spaces, such as --arm precision=bf16-mixed; the first arm
    /// is what the others are compared with
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
    /// Differences of so many points, beyond twice their standard error, are no failure
    #[arg(long, value_name = "POINTS", default_value_t = 0.5)]
    band: f64,
    /// The folder of the comparison, with a folder of runs for each arm and seed
    #[arg(long, value_name = "DIR", default_value = "runs/compare")]
    runs: PathBuf,
}

/// What is left of a run.
#[derive(Debug, Clone, Copy)]
struct Score {
    /// In per cent.
    accuracy: f64,
    cpu_s: Option<f64>,
    peak_bytes: Option<u64>,
}

/// An arm beside the first.
#[derive(Debug, Serialize)]
struct Compared<'a> {
    settings: &'a str,
    /// Seeds that both arms have.
    seeds: usize,
    /// Test accuracy in per cent, a seed each.
    accuracy: Vec<f64>,
    /// Mean of the arm's accuracy less the first arm's, in points.
    difference: f64,
    /// The standard error of that mean; `None` for a single seed.
    standard_error: Option<f64>,
    /// Whether |difference| is at most the band and twice the standard error.
    within_band: bool,
    cpu_s: Option<f64>,
    peak_bytes: Option<u64>,
}

/// Trains what is missing, seed by seed, and prints the comparison as a table and as JSON.
pub(crate) fn run(args: &CompareArgs) -> Result<()> {
    ensure!(args.seeds > 0, "--seeds is 0; expected at least 1");
    ensure!(args.band >= 0.0, "--band is {}; expected at least 0 points", args.band);
    // Faults of the settings are told before anything is trained.
    for arm in &args.arms {
        super::plan(Some(&args.config), &settings(args, arm, 1))
            .with_context(|| format!("--arm {arm}"))?;
    }
    let display = Display::new(1);
    let mut scores: Vec<Vec<Score>> = vec![Vec::new(); args.arms.len()];
    for seed in 1..=args.seeds {
        for (index, arm) in args.arms.iter().enumerate() {
            if stop::requested() {
                bail!("stopped; the same command goes on with the runs that are missing");
            }
            let folder = args.runs.join(format!("arm-{}-seed-{seed}", index + 1));
            own(args, arm, seed, &folder)?;
            let score = match finished(&folder)? {
                Some(score) => score,
                None => trained(args, arm, seed, &folder)?,
            };
            display.line(&format!("seed {seed}  {:6.2} %  {arm}", score.accuracy));
            scores[index].push(score);
        }
    }
    let compared: Vec<Compared<'_>> = args
        .arms
        .iter()
        .zip(&scores)
        .map(|(arm, these)| compare(arm, these, &scores[0], args.band))
        .collect();
    for arm in &compared {
        crate::print(&arm.line());
    }
    crate::print(&json!({ "version": 1, "band": args.band, "arms": compared }).to_string());
    Ok(())
}

fn settings(args: &CompareArgs, arm: &str, seed: u64) -> Vec<String> {
    let mut settings = args.sets.clone();
    settings.extend(arm.split_whitespace().map(str::to_owned));
    settings.push(format!("seed={seed}"));
    settings
}

/// Writes down what the folder's runs are made of, or refuses a folder with runs of other settings.
fn own(args: &CompareArgs, arm: &str, seed: u64, folder: &Path) -> Result<()> {
    let made_of =
        json!({ "config": args.config, "data": args.data, "settings": settings(args, arm, seed) });
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
        .with_context(|| format!("cannot write `{}`", path.display()))
}

/// Runs `train` in a process of its own: nothing of one run reaches the next.
fn trained(args: &CompareArgs, arm: &str, seed: u64, folder: &Path) -> Result<Score> {
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
        let said = said.lines().next_back().unwrap_or_default().to_owned();
        bail!("seed {seed} of arm `{arm}` failed: {said}");
    }
    finished(folder)?.ok_or_else(|| anyhow!("stopped; the same command goes on"))
}

/// The score of the complete run in a folder of runs.
fn finished(folder: &Path) -> Result<Option<Score>> {
    let Ok(runs) = std::fs::read_dir(folder) else { return Ok(None) };
    for run in runs {
        let path = run.with_context(|| format!("cannot read `{}`", folder.display()))?.path();
        let Ok(text) = std::fs::read_to_string(path.join("summary.json")) else { continue };
        let summary: Value = serde_json::from_str(&text)
            .with_context(|| format!("`{}` has a damaged summary.json", path.display()))?;
        if summary["complete"] != true {
            continue;
        }
        let accuracy = summary["test"]["accuracy"].as_f64();
        let accuracy =
            accuracy.ok_or_else(|| anyhow!("`{}` was not scored on test data", path.display()))?;
        return Ok(Some(Score {
            accuracy: 100.0 * accuracy,
            cpu_s: summary["cpu_s"].as_f64(),
            peak_bytes: summary["peak_resident_bytes"].as_u64(),
        }));
    }
    Ok(None)
}

fn compare<'a>(settings: &'a str, these: &[Score], first: &[Score], band: f64) -> Compared<'a> {
    let differences: Vec<f64> =
        these.iter().zip(first).map(|(this, first)| this.accuracy - first.accuracy).collect();
    let (difference, standard_error) = mean_and_error(&differences);
    let cpu: Option<Vec<f64>> = these.iter().map(|score| score.cpu_s).collect();
    Compared {
        settings,
        seeds: differences.len(),
        accuracy: these.iter().map(|score| score.accuracy).collect(),
        difference,
        standard_error,
        within_band: difference.abs() <= band + 2.0 * standard_error.unwrap_or(0.0),
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
    fn line(&self) -> String {
        let mean = mean_and_error(&self.accuracy).0;
        let error = self
            .standard_error
            .map_or_else(|| "one seed".to_owned(), |error| format!("standard error {error:.2}"));
        let cpu = self.cpu_s.map_or_else(String::new, |cpu| format!(", {cpu:.0} CPU-s"));
        let word = if self.within_band { "within" } else { "OUTSIDE" };
        format!(
            "{mean:6.2} %  {:+.2} points, {error}, {word} the band{cpu}  {}",
            self.difference, self.settings
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scores(accuracies: &[f64]) -> Vec<Score> {
        let score = |&accuracy: &f64| Score { accuracy, cpu_s: Some(2.0), peak_bytes: None };
        accuracies.iter().map(score).collect()
    }

    #[test]
    fn the_paired_difference_and_its_error_have_their_values_by_hand() {
        // Differences 1, 2 and 3: mean 2, s = 1, error 1/√3.
        let compared =
            compare("x", &scores(&[51.0, 62.0, 43.0]), &scores(&[50.0, 60.0, 40.0]), 0.5);
        assert!((compared.difference - 2.0).abs() < 1e-12);
        let error = compared.standard_error.expect("three seeds");
        assert!((error - 1.0 / 3.0_f64.sqrt()).abs() < 1e-12, "{error}");
        // 2 is above 0.5 + 2·0.577, and not above 1 + 2·0.577.
        assert!(!compared.within_band);
        assert!(
            compare("x", &scores(&[51.0, 62.0, 43.0]), &scores(&[50.0, 60.0, 40.0]), 1.0)
                .within_band
        );
        assert_eq!(compared.cpu_s, Some(2.0));
    }

    #[test]
    fn one_seed_has_no_error_and_an_arm_differs_from_itself_by_nothing() {
        let one = scores(&[50.0]);
        let compared = compare("x", &one, &one, 0.0);
        assert_eq!((compared.difference, compared.standard_error), (0.0, None));
        assert!(compared.within_band && compared.line().contains("one seed"));
    }
}
