//! `test`: every test of the workspace.

use std::process::ExitCode;

use crate::cargo::Cargo;
use crate::{print, updraft};

/// The program first, so that whoever ran `train` before compiles nothing twice.
const STEPS: [Cargo<'_>; 2] = [updraft::BUILD, Cargo::new("test --workspace")];

pub(crate) fn run(dry_run: bool) -> ExitCode {
    for step in STEPS {
        print(&format!("> {}", step.typed()));
        if !dry_run && let Err(code) = step.run() {
            return code;
        }
    }
    ExitCode::SUCCESS
}
