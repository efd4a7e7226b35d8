//! `check`: everything that can be known without running a test, cheapest first.

use std::process::ExitCode;
use std::time::Instant;

use crate::cargo::Cargo;
use crate::tidy::DeviceRecord;
use crate::{api, deny, gpu, package, print, tidy};

const FORMAT: Cargo<'_> = Cargo::new("fmt --all --check");

/// Clippy on everything that the tests build, then the documents, then the other feature sets.
///
/// The libraries are checked without features, where a missing `cfg` shows.
const BUILDS: [Cargo<'_>; 7] = [
    Cargo::new("clippy --workspace --all-targets --quiet -- -D warnings"),
    Cargo {
        arguments: "doc --workspace --no-deps --document-private-items --quiet",
        environment: &[("RUSTDOCFLAGS", "-D warnings")],
    },
    Cargo::new("check -p updraft-data --features burn-dataloader --tests --quiet"),
    Cargo::new(FEATURELESS[0]),
    Cargo::new(FEATURELESS[1]),
    Cargo::new(FEATURELESS[2]),
    Cargo::new(FEATURELESS[3]),
];

/// Clippy with burn's backends for GPUs, which take longer to compile than all other steps.
///
/// It has the features of all crates; `DOCS_RS` skips the download of LLVM that `cuda` otherwise
/// needs. The tests on the adapters that `wgpu` finds follow, the graphics backend that compiles
/// without further libraries.
const SLOW: Cargo<'_> = Cargo {
    arguments: "clippy --workspace --all-targets --features updraft/cuda,updraft/wgpu,\
                updraft/fusion,updraft/autotune,updraft-bench/cuda,updraft-bench/wgpu,\
                updraft-bench/fusion,updraft-bench/autotune,updraft-conv/every-kernel,\
                updraft-kan/every-kernel,updraft-optim/every-kernel,\
                updraft-precision/every-kernel,updraft-quant/every-kernel \
                --quiet -- -D warnings",
    environment: &[("DOCS_RS", "1")],
};

/// Caches of kernels on files, with the database in which burn keeps them.
const KERNEL_CACHES: Cargo<'_> = Cargo::new(
    "test -p updraft-device --features persistence --lib --test it --quiet kernel_cache",
);

/// Checks without features, each of several crates that have the same features as if checked alone,
/// and burn as well: so its crates are checked once for a group and not for each member.
///
/// `updraft` turns on the feature `tracing` of `updraft-data`, `updraft-kan`, `updraft-run` and
/// `updraft-trainer`; but for `updraft-run`, they are checked without it in other groups.
const FEATURELESS: [&str; 4] = [
    "check -p updraft-data -p updraft-distributed -p updraft-conv -p updraft-kan -p updraft-quant \
     -p updraft-device -p updraft-transformer --no-default-features --quiet",
    "check -p updraft-integration -p updraft-models -p updraft-data -p updraft-distributed \
     --no-default-features --quiet",
    "check -p updraft-precision -p updraft-optim -p updraft-trainer --no-default-features --quiet",
    "check -p updraft-run -p updraft --no-default-features --quiet",
];

/// Every step; those for GPUs only if they are asked for.
pub(crate) fn run(slow: bool, dry_run: bool) -> ExitCode {
    let started = Instant::now();
    let record = if slow { DeviceRecord::Ignore } else { DeviceRecord::Compare };
    let all = timed(&FORMAT.typed(), dry_run, || FORMAT.run())
        .and_then(|()| timed("cargo xtask tidy", dry_run, || tidy::check(record)))
        .and_then(|()| timed("cargo xtask deny", dry_run, deny::check))
        .and_then(|()| {
            BUILDS.iter().try_for_each(|build| timed(&build.typed(), dry_run, || build.run()))
        })
        .and_then(|()| timed("cargo xtask api", dry_run, || api::check(api::Difference::Refuse)))
        .and_then(|()| timed("cargo xtask package", dry_run, package::check))
        .and_then(|()| if slow { on_devices(dry_run) } else { Ok(()) });
    match all {
        Err(code) => code,
        Ok(()) if dry_run => ExitCode::SUCCESS,
        Ok(()) => {
            print(&format!("checked in {:.0} s", started.elapsed().as_secs_f64()));
            ExitCode::SUCCESS
        }
    }
}

/// The code for GPUs: clippy, then the tests on devices.
fn on_devices(dry_run: bool) -> Result<(), ExitCode> {
    for step in [SLOW, KERNEL_CACHES] {
        timed(&step.typed(), dry_run, || step.run())?;
    }
    // Prints what it does, also in a dry run.
    gpu::check(dry_run)
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::process::Command;

    use super::*;
    use crate::cargo::program;
    use crate::root;

    /// The crates of burn and of this workspace with their features, for a check of some packages.
    fn features(packages: &[&str]) -> BTreeSet<String> {
        let mut command = Command::new(program());
        command.args(["tree", "--no-default-features", "--offline", "--edges", "normal"]);
        command.args(["--prefix", "none", "--format", "{p} {f}"]);
        for package in packages {
            command.args(["-p", package]);
        }
        let output = command.current_dir(root()).output().expect("cargo starts");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let text = String::from_utf8(output.stdout).expect("text");
        let is_named = |line: &&str| line.starts_with("burn") || line.starts_with("updraft");
        // Marked where the tree repeats a crate.
        let plain = |line: &str| line.trim_end_matches(" (*)").trim_end().to_owned();
        text.lines().filter(is_named).map(plain).collect()
    }

    #[test]
    fn crates_that_are_checked_together_have_the_features_of_a_check_alone() {
        for group in FEATURELESS {
            let words: Vec<&str> = group.split(' ').collect();
            let named = words.windows(2).filter(|pair| pair[0] == "-p").map(|pair| pair[1]);
            let packages: Vec<&str> = named.collect();
            let together = features(&packages);
            for package in packages {
                let alone = features(&[package]);
                for line in alone.difference(&together) {
                    let of_tracing =
                        ["updraft-data ", "updraft-kan ", "updraft-run ", "updraft-trainer "];
                    let is_tracing = of_tracing.iter().any(|name| line.starts_with(name))
                        && package == "updraft-run";
                    assert!(is_tracing, "`{package}` alone has {line}");
                }
            }
        }
    }
}
