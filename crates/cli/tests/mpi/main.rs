//! Commands on several ranks, which `mpirun` and `launch` start.
#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "a test without a harness")]

mod endure;
mod gradients;
mod launch;
mod predict;
mod processes;
mod storage;
mod train;

use crate::processes::{run_of, weights};

/// The argument that runs the tests that take minutes, and no others.
const SLOW: &str = "--slow";

fn main() {
    if std::env::args().any(|argument| argument == SLOW) {
        return endure::endured_for_long();
    }
    let runs = tempfile::tempdir().unwrap();
    let whole = runs.path();
    train::repeated(whole);
    let expected = weights(whole);
    train::killed_and_resumed(&expected);
    gradients::of_one_rank();
    train::timed_out();
    train::refused();
    train::unlike();
    train::unconnected();
    storage::full_on_rank_0(whole, &expected);
    storage::not_shared();
    predict::scores_and_predictions(&run_of(whole).unwrap());
    predict::windows_of_an_image();
    predict::rows_of_a_table();
    launch::killed_twice(&expected);
    launch::killed_before_a_checkpoint(&expected);
    launch::interrupted(&expected);
    launch::restarted_from_an_older_checkpoint(whole);
    launch::exit_codes();
    endure::endured();
}
