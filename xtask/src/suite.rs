//! `test`: every test of the workspace.

use std::process::ExitCode;

use crate::cargo::Cargo;
use crate::{is_here, print, updraft};

/// The program first, so that whoever ran `train` before compiles nothing twice.
const STEPS: [Cargo<'_>; 2] = [updraft::BUILD, Cargo::new("test --workspace")];

/// The data crate's other JPEG decoder, with the features of the whole workspace, so that nothing
/// else is compiled again.
const TURBOJPEG: Cargo<'_> =
    Cargo::new("test --workspace --features updraft-data/turbojpeg --test turbojpeg");

/// What builds libjpeg-turbo from source.
const TURBOJPEG_NEEDS: &[&str] =
    if cfg!(target_arch = "x86_64") { &["cmake", "nasm"] } else { &["cmake"] };

pub(crate) fn run(dry_run: bool) -> ExitCode {
    let mut steps = STEPS.to_vec();
    let missing: Vec<_> = TURBOJPEG_NEEDS.iter().copied().filter(|tool| !is_here(tool)).collect();
    if missing.is_empty() {
        steps.push(TURBOJPEG);
    } else {
        print(&format!("without {}, `turbojpeg` is not tested", missing.join(" and ")));
    }
    for step in steps {
        print(&format!("> {}", step.typed()));
        if !dry_run && let Err(code) = step.run() {
            return code;
        }
    }
    ExitCode::SUCCESS
}
