//! Every name this crate promises: removing one breaks this file, not a user.

use updraft::{ClassProbability, Outcome, Predicted, Quantity, TrainedModel, run, run_with};

#[test]
fn the_promised_names_are_there() {
    let _ = (size_of::<ClassProbability>(), size_of::<Quantity>(), size_of::<Outcome>());
    let _ = (size_of::<Predicted>(), size_of::<TrainedModel>());
    assert_eq!(run(["updraft", "--version"]), 0);
    assert_eq!(run_with(updraft_run::TASKS, ["updraft", "--version"]), 0);
}
