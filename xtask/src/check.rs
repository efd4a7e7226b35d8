//! `check`: everything that can be known without running a test, cheapest first.

use std::process::ExitCode;
use std::time::Instant;

use crate::cargo::Cargo;
use crate::{api, deny, package, print, tidy};

const FORMAT: Cargo<'_> = Cargo::new("fmt --all --check");

/// Clippy on everything that the tests build, then the documents, then the other feature sets.
///
/// The libraries are checked alone and without features, where a missing `cfg` shows. `wgpu` is
/// the graphics backend that compiles without further libraries; `cuda` is checked with it and with
/// `DOCS_RS`, which skips the download of LLVM. Last, the tests of devices and of the
/// kernels for GPUs run on the adapters that wgpu finds, in a profile of their own.
const BUILDS: [Cargo<'_>; 19] = [
    Cargo::new("clippy --workspace --all-targets --quiet -- -D warnings"),
    Cargo {
        arguments: "doc --workspace --no-deps --document-private-items --quiet",
        environment: &[("RUSTDOCFLAGS", "-D warnings")],
    },
    Cargo::new("check -p updraft-device --no-default-features --quiet"),
    Cargo::new("check -p updraft-precision --no-default-features --quiet"),
    Cargo::new("check -p updraft-optim --no-default-features --quiet"),
    Cargo::new("check -p updraft-transformer --no-default-features --quiet"),
    Cargo::new("check -p updraft-data --no-default-features --quiet"),
    Cargo::new("check -p updraft-data --features burn-dataloader --tests --quiet"),
    Cargo::new("check -p updraft-distributed --no-default-features --quiet"),
    Cargo::new("check -p updraft-conv --no-default-features --quiet"),
    Cargo::new("check -p updraft-kan --no-default-features --quiet"),
    Cargo::new("check -p updraft-quant --no-default-features --quiet"),
    Cargo::new("check -p updraft-integration --no-default-features --quiet"),
    Cargo::new("check -p updraft-models --no-default-features --quiet"),
    Cargo::new("check -p updraft-trainer --no-default-features --quiet"),
    Cargo::new("check -p updraft-run --no-default-features --quiet"),
    Cargo::new("check -p updraft --no-default-features --quiet"),
    Cargo {
        arguments: "check -p updraft --features cuda,wgpu,fusion,autotune --quiet",
        environment: &[("DOCS_RS", "1")],
    },
    Cargo::new(
        "test --profile gpu -p updraft-device -p updraft-kan --features updraft-device/wgpu,\
         updraft-kan/wgpu,updraft-kan/autodiff,updraft-kan/flex,updraft-kan/reference --lib --test it --quiet",
    ),
];

pub(crate) fn run(dry_run: bool) -> ExitCode {
    let started = Instant::now();
    let all = timed(&FORMAT.typed(), dry_run, || FORMAT.run())
        .and_then(|()| timed("cargo xtask tidy", dry_run, tidy::check))
        .and_then(|()| timed("cargo xtask deny", dry_run, deny::check))
        .and_then(|()| {
            BUILDS.iter().try_for_each(|build| timed(&build.typed(), dry_run, || build.run()))
        })
        .and_then(|()| timed("cargo xtask api", dry_run, || api::check(api::Difference::Refuse)))
        .and_then(|()| timed("cargo xtask package", dry_run, package::check));
    match all {
        Err(code) => code,
        Ok(()) if dry_run => ExitCode::SUCCESS,
        Ok(()) => {
            print(&format!("checked in {:.0} s", started.elapsed().as_secs_f64()));
            ExitCode::SUCCESS
        }
    }
}

fn timed(
    name: &str,
    dry_run: bool,
    step: impl FnOnce() -> Result<(), ExitCode>,
) -> Result<(), ExitCode> {
    print(&format!("> {name}"));
    if dry_run {
        return Ok(());
    }
    let started = Instant::now();
    step()?;
    print(&format!("  {:.1} s", started.elapsed().as_secs_f64()));
    Ok(())
}
