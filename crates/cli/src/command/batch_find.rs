//! `batch-find`: the largest batch whose training step fits into memory.

use std::io::Read;
use std::time::Instant;

use anyhow::{Context, Result};
use clap::Args;
use serde_json::json;
use updraft_run::{Planned, Registry};
use updraft_trainer::Fit;

use super::would::dry_run_of;
use super::{ConfigArgs, device_of, open};
use crate::batch_size::{Trial, try_batch};
use crate::json::JsonArgs;
use crate::progress::Display;
use crate::terminal::say;

/// Finds the largest batch whose training step fits into a memory budget.
///
/// Each size is tried in a separate process: two updates and an evaluation on example data. A size
/// that comes within 5 % of the budget has to fit twice. With `train.batch = "auto"` a run does the
/// same at its start; `train.auto_batch` has the settings.
#[derive(Debug, Args)]
pub(crate) struct BatchFindArgs {
    #[command(flatten)]
    pub(crate) config: ConfigArgs,
    /// Memory budget in MiB, of the process or of the GPU [default: the available memory]
    #[arg(long, value_name = "MIB")]
    budget_mib: Option<u64>,
    /// Also try every size within 5 % of the result
    #[arg(long)]
    scan: bool,
    #[command(flatten)]
    json: JsonArgs,
}

/// Tries a batch size in this process; `batch-find` starts one for each size.
#[derive(Debug, Args)]
pub(crate) struct BatchProbeArgs {
    #[arg(long)]
    batch: usize,
}

/// Prints what would be read and written.
pub(crate) fn dry_run(registry: Registry, args: &BatchFindArgs) -> Result<()> {
    dry_run_of(registry, &args.config, |_| "nothing; the batch size is printed".to_owned())
}

/// Prints the size that was found.
pub(crate) fn run(registry: Registry, args: &BatchFindArgs) -> Result<()> {
    let started = Instant::now();
    let plan = args.config.plan(registry)?.plan;
    // The device of the processes that try the sizes.
    let (_, selection) = device_of(&plan)?;
    let mut display = Display::new();
    let workload = open(&plan, args.config.data.as_deref(), None, &mut display)?;
    let trial = Trial::new(&plan, &*workload, &selection, args.budget_mib)?;
    drop(workload);
    let mut note = |batch: usize, fit: Fit| {
        let word = if fit == Fit::Fits { "fits" } else { "too large" };
        display.line(&format!("batch {batch:6}  {word}"));
    };
    let found = trial.search(&mut note)?;
    let seconds = started.elapsed().as_secs_f64();
    let mut scanned = None;
    if args.scan {
        let around = found.largest / 20;
        // At most about ten sizes on each side.
        let last = (found.largest + around + 1).min(trial.samples);
        let sizes = (found.largest - around..=last).step_by((found.largest / 200).max(1));
        // The search measured its own result.
        scanned = Some(found.largest);
        for batch in sizes.filter(|size| *size != found.largest) {
            let fit = trial.fits(batch)?;
            note(batch, fit);
            if fit == Fit::Fits {
                scanned = scanned.max(Some(batch));
            }
        }
    }
    display.line(&format!("batch {:6}  found{}", found.batch, trial.bound(&found)));
    args.json.print(&json!({
        "batch": found.batch,
        "largest": found.largest,
        "too_large": found.too_large,
        "probes": found.probes,
        "budget_bytes": trial.budget_bytes,
        "needed_bytes": trial.needed_bytes(found.batch),
        "train_samples": trial.samples,
        "seconds": seconds,
        "largest_of_scan": scanned,
    }))?;
    print_next(registry, &args.config, found.batch);
    Ok(())
}

/// Prints how to train with the batch: with `train.auto_batch` in the config, `train` would search.
fn print_next(registry: Registry, config: &ConfigArgs, batch: usize) {
    let config = config.without("train.auto_batch");
    let given = |planned: Planned| {
        let train = planned.plan.table().get("train").and_then(toml::Value::as_table);
        train.is_some_and(|train| train.contains_key("auto_batch"))
    };
    if config.plan_in_silence(registry).is_ok_and(given) {
        say(&format!(
            "next     replace `train.auto_batch` by `train.batch = {batch}` in the config"
        ));
    } else {
        crate::program::next(&format!("train{} --set train.batch={batch}", config.words()));
    }
}

/// Reads a plan from standard input, tries the batch and prints its memory.
pub(crate) fn probe(registry: Registry, args: &BatchProbeArgs) -> Result<()> {
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text).context("cannot read the plan")?;
    crate::print(&try_batch(registry, &text, args.batch)?)?;
    Ok(())
}
