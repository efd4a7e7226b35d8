//! `gpu-report`: a card tested, then timed beside PyTorch.

use std::path::Path;
use std::process::{Command, ExitCode};

use super::command::{exit, tests};
use super::options::Options;
use crate::{bench, complain, print, refuse, root};

/// The benchmarks of a report: KAN layers at a batch for GPUs, and training steps.
const FILTERS: [(&str, &str); 2] = [("kan", "kan/*-b8192-*"), ("train", "train/*")];

/// What NVIDIA's driver reports of a card.
const CARD: &str = "name,driver_version,memory.total,clocks.sm,clocks.max.sm,clocks.mem,\
                    temperature.gpu,power.draw,utilization.gpu";

/// Tests a card, then times it beside PyTorch, and writes a folder with the results.
pub(crate) fn report(arguments: &[String], dry_run: bool) -> ExitCode {
    let Options { device, python, to, .. } = match Options::read(arguments) {
        Ok(Options { fusion: true, .. } | Options { json: Some(_), .. }) => {
            return refuse("`cargo xtask gpu-report` takes --device, --python, --to and --dry-run");
        }
        Ok(options) => options,
        Err(message) => return refuse(&message),
    };
    let to = to.unwrap_or_else(|| root().join("target").join("gpu-report").join(&device));
    exit(write_report(&device, python.as_deref(), &to, dry_run))
}

fn write_report(
    device: &str,
    python: Option<&str>,
    to: &Path,
    dry_run: bool,
) -> Result<(), ExitCode> {
    tests(device, false, None, dry_run)?;
    for (name, filter) in FILTERS {
        let run = to.join(name).to_string_lossy().into_owned();
        let with = format!("{device},fusion,autotune");
        let mut arguments =
            vec![filter, "--with", &with, "--device", device, "--peers", "--save-to", &run];
        arguments.extend(python.into_iter().flat_map(|python| ["--python", python]));
        print(&format!("> cargo xtask bench {}", arguments.join(" ")));
        if dry_run {
            continue;
        }
        let card = card();
        let arguments: Vec<_> = arguments.into_iter().map(str::to_owned).collect();
        succeeded(bench::run(&arguments))?;
        succeeded(bench::run(&["report".to_owned(), run.clone()]))?;
        if let (Some(before), Some(after)) = (card, self::card()) {
            let text = format!("{CARD}\nbefore: {before}\nafter: {after}\n");
            if let Err(error) = std::fs::write(to.join(name).join("card.txt"), text) {
                complain(&format!("error: `{run}/card.txt`: {error}"));
                return Err(ExitCode::FAILURE);
            }
        }
    }
    let done = if dry_run { "would be written to" } else { "written to" };
    print(&format!("{done} {}", to.display()));
    Ok(())
}

fn succeeded(code: ExitCode) -> Result<(), ExitCode> {
    if code == ExitCode::SUCCESS { Ok(()) } else { Err(code) }
}

/// Clocks, temperature, power and utilization, if the driver is NVIDIA's.
fn card() -> Option<String> {
    let query = format!("--query-gpu={CARD}");
    let output =
        Command::new("nvidia-smi").args([&query, "--format=csv,noheader"]).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
