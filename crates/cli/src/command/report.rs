//! `report`: a run as one HTML page.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;

use crate::record::read_lines;
use crate::report::page;
use crate::run_folder::RunFolder;

/// Writes a run's curves, times, plan and environment as one HTML page.
#[derive(Debug, Args)]
pub(crate) struct ReportArgs {
    /// The run folder
    run: PathBuf,
}

/// Writes `report.html` into the run folder and prints its path.
pub(crate) fn run(args: &ReportArgs) -> Result<()> {
    let page = write_page(&RunFolder::open(&args.run)?)?;
    crate::print(&page.display().to_string());
    Ok(())
}

/// Writes the page of a run, and tells where it is.
pub(crate) fn write_page(folder: &RunFolder) -> Result<PathBuf> {
    let metrics: Vec<_> = read_lines(folder.path())?.into_iter().map(|(_, value)| value).collect();
    // A run that is still going on has no summary yet.
    let summary: Option<serde_json::Value> = folder.read_json("summary.json").ok();
    // Not every run was put into eight bits.
    let quant: Option<serde_json::Value> = match folder.path().join("quant.json").exists() {
        true => Some(folder.read_json("quant.json")?),
        false => None,
    };
    let text = |name| std::fs::read_to_string(folder.path().join(name)).ok();
    let texts = ["plan.toml", "environment.json"];
    let texts: Vec<_> = texts.iter().filter_map(|name| Some((*name, text(name)?))).collect();
    let name = folder.path().file_name().map_or_else(
        || folder.path().display().to_string(),
        |name| name.to_string_lossy().into_owned(),
    );
    let page = page(&name, &metrics, summary.as_ref(), quant.as_ref(), &texts)?;
    folder.write_whole("report.html", page.as_bytes())?;
    Ok(folder.path().join("report.html"))
}
