//! The command line with one more task.

use std::process::ExitCode;

use updraft_example_task::Largest;
use updraft_run::{Registry, TASKS};

fn main() -> ExitCode {
    const WITH_ONE_MORE: Registry = &[&Largest, TASKS[0], TASKS[1]];
    updraft::run_with(WITH_ONE_MORE, std::env::args_os()).into()
}
