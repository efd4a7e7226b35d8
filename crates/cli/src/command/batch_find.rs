//! `batch-find`: the largest batch whose training step fits into memory.

use std::io::Read;
use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context, Result, anyhow};
use clap::Args;
use serde_json::json;
use updraft_trainer::Fit;

use crate::batch_size::{Trial, try_batch};
use crate::config::{AutoBatchPlan, Plan};
use crate::progress::Display;

/// Finds the largest batch whose training step stays within a number of bytes.
///
/// Each size is tried in a process of its own: two updates and an evaluation on noise. The config
/// key `train.auto_batch` does the same at the start of a run.
#[derive(Debug, Args)]
pub(crate) struct BatchFindArgs {
    /// The configuration file [default: the built-in quickstart]
    config: Option<PathBuf>,
    /// Change one value of the config, such as --set model.channels=32 (repeatable)
    #[arg(long = "set", value_name = "KEY=VALUE")]
    sets: Vec<String>,
    /// MiB that a process may hold in RAM [default: what is available]
    #[arg(long, value_name = "MIB")]
    budget_mib: Option<u64>,
    /// The classes of the data
    #[arg(long, default_value_t = 10)]
    classes: usize,
    /// Also try the sizes up to 5 % around the one found, one by one
    #[arg(long)]
    scan: bool,
}

/// Tries a batch size in this process; `batch-find` starts one for each size.
#[derive(Debug, Args)]
pub(crate) struct BatchProbeArgs {
    #[arg(long)]
    batch: usize,
    #[arg(long)]
    classes: usize,
}

/// Prints what was found as JSON.
pub(crate) fn run(args: &BatchFindArgs) -> Result<()> {
    let started = Instant::now();
    let plan = super::plan(args.config.as_deref(), &args.sets)?.plan;
    let auto = plan.train.auto_batch.unwrap_or_default();
    let auto = AutoBatchPlan { budget_mib: args.budget_mib.or(auto.budget_mib), ..auto };
    let trial = Trial { plan: &plan, classes: args.classes, budget_bytes: auto.budget_bytes()? };
    let display = Display::new(1);
    let mut told = |batch: usize, fit: Fit| {
        let word = if fit == Fit::Fits { "fits" } else { "too large" };
        display.line(&format!("batch {batch:6}  {word}"));
    };
    let found = trial.search(&auto.search(), &mut told)?;
    let found = found.ok_or_else(|| auto.nothing_fits(trial.budget_bytes))?;
    let seconds = started.elapsed().as_secs_f64();
    let mut scanned = None;
    if args.scan {
        let around = found.largest / 20;
        // At most about ten sizes on each side.
        let sizes = (found.largest - around..=found.largest + around + 1)
            .step_by((found.largest / 200).max(1));
        for batch in sizes {
            let fit = trial.fits(batch)?;
            told(batch, fit);
            if fit == Fit::Fits {
                scanned = Some(batch);
            }
        }
    }
    crate::print(
        &json!({
            "batch": found.batch,
            "largest": found.largest,
            "too_large": found.too_large,
            "probes": found.probes,
            "budget_bytes": trial.budget_bytes,
            "seconds": seconds,
            "largest_of_scan": scanned,
        })
        .to_string(),
    );
    Ok(())
}

/// Reads a plan from standard input, tries the batch and prints what it took.
pub(crate) fn probe(args: &BatchProbeArgs) -> Result<()> {
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text).context("cannot read the plan")?;
    let plan: Plan = toml::from_str(&text).map_err(|error| anyhow!("no plan: {error}"))?;
    crate::print(&try_batch(&plan, args.classes, args.batch)?);
    Ok(())
}
