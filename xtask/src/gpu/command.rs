//! `test-device`: the tests of the code for GPUs on every adapter of a backend.

use std::fs;
use std::path::Path;
use std::process::ExitCode;

use serde_json::Value;

use super::options::{FUSION, Options};
use super::record;
use super::suite::{Run, Suite};
use crate::{complain, print, refuse};

/// Runs the tests of devices and of the code for GPUs, on every device of a backend.
pub(crate) fn test_device(arguments: &[String], dry_run: bool) -> ExitCode {
    match Options::read(arguments) {
        Ok(Options { python: None, to: None, device, fusion, json }) => {
            exit(tests(&device, fusion, json.as_deref(), dry_run))
        }
        Ok(_) => refuse("`cargo xtask test-device` takes --device, --with, --json and --dry-run"),
        Err(message) => refuse(&message),
    }
}

/// The same on `wgpu`, where a machine without an adapter is no error: the part of
/// `cargo xtask check --slow`.
pub(crate) fn check(dry_run: bool) -> Result<(), ExitCode> {
    ended(&run("wgpu", None, false, dry_run)?.into_iter().collect::<Vec<_>>())
}

/// Tests a backend, and writes the record.
pub(super) fn tests(
    device: &str,
    fusion: bool,
    json: Option<&Path>,
    dry_run: bool,
) -> Result<(), ExitCode> {
    let mut runs = Vec::new();
    for with in [None].into_iter().chain(fusion.then_some(Some(FUSION))) {
        runs.extend(run(device, with, true, dry_run)?);
    }
    if let Some(path) = json.filter(|_| !dry_run) {
        let text = Value::from(runs.iter().map(Run::json).collect::<Vec<_>>());
        if let Err(error) = fs::write(path, format!("{text:#}\n")) {
            complain(&format!("error: `{}`: {error}", path.display()));
            return Err(ExitCode::FAILURE);
        }
    }
    ended(&runs)
}

pub(super) fn exit(result: Result<(), ExitCode>) -> ExitCode {
    result.err().unwrap_or(ExitCode::SUCCESS)
}

fn run(
    backend: &str,
    with: Option<&str>,
    needs_adapter: bool,
    dry_run: bool,
) -> Result<Option<Run>, ExitCode> {
    Suite { backend, with, needs_adapter }.run(dry_run)
}

/// An error if a case did not pass; records the runs that passed on an adapter.
fn ended(runs: &[Run]) -> Result<(), ExitCode> {
    let mut is_good = true;
    for run in runs {
        let faults = run.faults();
        faults.iter().for_each(|fault| complain(&format!("error: {fault}")));
        is_good &= faults.is_empty();
        if !faults.is_empty() || run.adapters.is_empty() {
            continue;
        }
        match record::write(run) {
            Ok(path) => print(&format!("recorded in {path}; commit it with the sources")),
            Err(message) => {
                complain(&format!("error: {message}"));
                is_good = false;
            }
        }
    }
    if is_good { Ok(()) } else { Err(ExitCode::FAILURE) }
}
