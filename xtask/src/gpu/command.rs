//! `test-device`: the tests of the code for GPUs on every adapter of a backend.

use std::fs;
use std::path::Path;
use std::process::ExitCode;

use serde_json::Value;

use super::driver::{missing, not_tested};
use super::extent::Extent;
use super::options::Options;
use super::record;
use super::suite::{Run, Suite, WithoutAdapter};
use crate::{complain, print, refuse};

/// Runs the tests of devices and of the code for GPUs, on every device of a backend.
pub(crate) fn test_device(arguments: &[String], dry_run: bool) -> ExitCode {
    match Options::read(arguments) {
        Ok(Options {
            python: None,
            to: None,
            size: None,
            ignores_checks: false,
            device,
            with,
            quick,
            json,
        }) => {
            let extent = if quick { Extent::Quick } else { Extent::All };
            exit(tests(&device, &with, extent, json.as_deref(), dry_run))
        }
        Ok(_) => refuse(
            "`cargo xtask test-device` takes --device, --with, --quick, --json and --dry-run",
        ),
        Err(message) => refuse(&message),
    }
}

/// The same on `wgpu`, where a machine without an adapter is no error: the part of
/// `cargo xtask check --slow`.
pub(crate) fn check(dry_run: bool) -> Result<(), ExitCode> {
    let without_adapter = WithoutAdapter::Run;
    let suite = Suite { backend: "wgpu", with: None, extent: Extent::All, without_adapter };
    ended(suite.run(dry_run)?.as_slice())
}

/// A quick run on `wgpu`, of which a machine without a device prints that it does not run: the part
/// of `cargo xtask test`.
pub(crate) fn quick(dry_run: bool) -> Result<(), ExitCode> {
    if let Some(why) = missing() {
        print(&not_tested(&why));
        return Ok(());
    }
    let without_adapter = WithoutAdapter::Skip;
    let suite = Suite { backend: "wgpu", with: None, extent: Extent::Quick, without_adapter };
    ended(suite.run(dry_run)?.as_slice())
}

/// Tests a backend, then builds with one more feature each, and writes the record if all tests ran.
fn tests(
    device: &str,
    with: &[&str],
    extent: Extent,
    json: Option<&Path>,
    dry_run: bool,
) -> Result<(), ExitCode> {
    let mut runs = Vec::new();
    for with in [None].into_iter().chain(with.iter().copied().map(Some)) {
        runs.extend(tested(device, with, extent, dry_run)?);
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

/// The tests of a build for a backend, which has to find an adapter; `None` in a dry run.
pub(super) fn tested(
    device: &str,
    with: Option<&str>,
    extent: Extent,
    dry_run: bool,
) -> Result<Option<Run>, ExitCode> {
    let without_adapter = WithoutAdapter::Fail;
    Suite { backend: device, with, extent, without_adapter }.run(dry_run)
}

pub(super) fn exit(result: Result<(), ExitCode>) -> ExitCode {
    result.err().unwrap_or(ExitCode::SUCCESS)
}

/// An error if a case did not pass; records the runs of all tests that passed on an adapter.
pub(super) fn ended(runs: &[Run]) -> Result<(), ExitCode> {
    let mut is_good = true;
    for run in runs {
        let faults = run.faults();
        faults.iter().for_each(|fault| complain(&format!("error: {fault}")));
        is_good &= faults.is_empty();
        if !faults.is_empty() || run.adapters.is_empty() || run.extent == Extent::Quick {
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
