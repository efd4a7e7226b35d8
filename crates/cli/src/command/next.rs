//! The next command that a command prints.

use std::path::{Path, PathBuf};

use updraft_run::Plan;

use crate::program::{self, quoted};

/// Prints a next command on the same run.
pub(crate) fn next_on(command: &str, run: &Path) {
    program::next(&format!("{command} {}", run_argument(run)));
}

/// The arguments of `predict` after the run of a plan; `None` for a task that cannot load models.
pub(crate) fn files_to_predict(plan: &Plan) -> Option<&'static str> {
    let predictor = plan.task.predictor().ok()?;
    // A task that predicts no samples predicts a file into another one.
    Some(if predictor.check_samples().is_ok() { "FILE..." } else { "FILE --out FILE" })
}

/// Prints `predict` on a run as the next command; `report` if there is nothing to predict.
pub(crate) fn next_predict(run: &Path, files: Option<&str>, options: &str) {
    match files {
        None => next_on("report", run),
        Some(files) => {
            let run = run_argument(run);
            program::next(&format!("predict {run} {files}{options}"));
        }
    }
}

/// A run as an argument, without `.` inside or at the end of its path.
fn run_argument(run: &Path) -> String {
    quoted(&run.components().collect::<PathBuf>().to_string_lossy())
}
