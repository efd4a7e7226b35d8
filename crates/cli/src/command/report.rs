//! `report`: a run as one HTML page.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use serde_json::Value;
use updraft_run::{
    Contributions, Int8Network, Int8Record, LayerTimes, Registry, RunError, RunFolder, RunSchema,
    read_metrics,
};

use super::would::Would;
use crate::folder_name::folder_name;
use crate::report::{Run, page};
use crate::stop::NothingToSave;
use crate::terminal::say;

/// Writes a run's curves, pictures, times, plan and environment as one HTML page.
#[derive(Debug, Args)]
pub(crate) struct ReportArgs {
    /// The run folder
    run: PathBuf,
}

/// Prints what would be read and written.
pub(crate) fn dry_run(registry: Registry, args: &ReportArgs) -> Result<()> {
    let folder = RunFolder::open(&args.run)?;
    folder.plan(registry)?;
    recorded(&folder, registry)?;
    let reads = format!("the records in {}", folder.path().display());
    Would::new(reads, folder.path().join("report.html").display()).print()
}

/// Writes `report.html` into the run folder and prints its path. No command follows.
pub(crate) fn run(registry: Registry, args: &ReportArgs) -> Result<()> {
    let _unasked = NothingToSave::begin();
    let page = write_page(&RunFolder::open(&args.run)?, registry)?;
    crate::print(&page.display().to_string())?;
    Ok(())
}

/// Writes the page of a run and returns its path.
pub(crate) fn write_page(folder: &RunFolder, registry: Registry) -> Result<PathBuf> {
    folder.write("report.html", page(&recorded(folder, registry)?)?.as_bytes())?;
    Ok(folder.path().join("report.html"))
}

/// The record of a run.
fn recorded(folder: &RunFolder, registry: Registry) -> Result<Run> {
    let optional = |name| match folder.has(name) {
        true => folder.read_json(name).map(Some),
        false => Ok(None),
    };
    let text = |name| Some(String::from_utf8_lossy(&folder.read(name).ok()?).into_owned());
    let texts = ["plan.toml", "environment.json"];
    let recorded = read_metrics(folder)?;
    if let Some(damage) = recorded.damage() {
        say(&format!("warning: {damage}"));
    }
    Ok(Run {
        name: folder_name(folder.path()),
        schema: RunSchema::read(folder)?,
        metrics: recorded.lines,
        // A run in progress has no summary yet.
        summary: optional("summary.json").map_err(|error| error.to_string()).transpose(),
        // Not every run was quantized.
        quantized: match folder.has(Int8Network::REPORT) {
            true => quantized(folder, registry)?,
            false => None,
        },
        layers: match folder.has(LayerTimes::OF_TRAINING) {
            true => Some(folder.read_json(LayerTimes::OF_TRAINING)?),
            false => None,
        },
        pictures: folder.pictures()?,
        // Not every network has pathways.
        contributions: match folder.has(Contributions::FILE) {
            true => contributions(folder, registry),
            false => None,
        },
        texts: texts.iter().filter_map(|name| Some((*name, text(name)?))).collect(),
    })
}

/// The contributions of a run's pathways; without those of another model, with a warning.
fn contributions(folder: &RunFolder, registry: Registry) -> Option<Contributions> {
    let found = folder.plan(registry).and_then(|plan| folder.contributions(&plan));
    found.unwrap_or_else(|error| {
        say(&format!("warning: the page has no section about contributions: {error}"));
        None
    })
}

/// The report of a run's quantization; without one that is of another model, with a warning.
fn quantized(folder: &RunFolder, registry: Registry) -> Result<Option<Value>, RunError> {
    let report = folder.read_json(Int8Network::REPORT)?;
    let record: Int8Record = folder.read_json(Int8Network::REPORT)?;
    let checked = folder.plan(registry).and_then(|plan| {
        let file = folder.read(Int8Network::FILE)?;
        record.check(folder, &plan, &file)
    });
    Ok(match checked {
        Ok(()) => Some(report),
        Err(error) => {
            say(&format!("warning: the page has no section about int8: {error}"));
            None
        }
    })
}
