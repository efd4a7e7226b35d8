//! `test`: every test of the workspace.

use std::process::ExitCode;

use crate::cargo::Cargo;
use crate::{arm, is_here, print, updraft};

/// The program first, so that nothing is compiled twice after `train`.
const STEPS: [Cargo<'_>; 2] = [updraft::BUILD, Cargo::new("test --workspace")];

/// Tests that run only if the programs that they need are installed.
const OPTIONAL: [(&str, &[&str], Cargo<'_>); 2] = [
    // With the features of the whole workspace, so that nothing else is compiled again.
    (
        "JPEG decoding by libjpeg-turbo",
        if cfg!(target_arch = "x86_64") { &["cmake", "nasm"] } else { &["cmake"] },
        Cargo::new("test --workspace --features updraft-data/turbojpeg --test turbojpeg"),
    ),
    (
        "ranks over MPI",
        &["mpirun", "mpicc"],
        Cargo::new("test --workspace --features updraft/mpi,updraft-trainer/mpi --test mpi"),
    ),
];

pub(crate) fn run(dry_run: bool) -> ExitCode {
    let mut steps = STEPS.to_vec();
    for (name, needs, step) in OPTIONAL {
        let missing: Vec<_> = needs.iter().copied().filter(|tool| !is_here(tool)).collect();
        if missing.is_empty() {
            steps.push(step);
        } else {
            print(&format!("not tested: {name}, which needs {}", missing.join(" and ")));
        }
    }
    for step in steps {
        print(&format!("> {}", step.typed()));
        if !dry_run && let Err(code) = step.run() {
            return code;
        }
    }
    match arm::missing() {
        Some(missing) => {
            print(&format!("not tested: kernels on aarch64, which need {missing}"));
            ExitCode::SUCCESS
        }
        None => arm::run(dry_run),
    }
}
