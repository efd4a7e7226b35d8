//! Commands on several ranks, which `mpirun` and `launch` start.
#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "a test without a harness")]

mod endure;
mod gradients;
mod launch;
mod predict;
mod processes;
mod train;

use crate::processes::{run_of, weights};

fn main() {
    let runs = tempfile::tempdir().unwrap();
    let whole = runs.path();
    train::repeated(whole);
    let expected = weights(whole);
    train::killed_and_resumed(&expected);
    gradients::of_one_rank();
    train::timed_out();
    train::refused();
    train::unconnected();
    predict::scores_and_predictions(&run_of(whole).unwrap());
    predict::windows_of_an_image();
    predict::rows_of_a_table();
    launch::killed_twice(&expected);
    launch::killed_before_a_checkpoint(&expected);
    launch::interrupted(&expected);
    endure::endured();
}
