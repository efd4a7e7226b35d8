//! Every name this crate promises: removing one breaks this file, not a user.

use updraft::{Prediction, TrainedModel, run};

#[test]
fn the_promised_names_are_there() {
    let _ = (size_of::<Prediction>(), size_of::<TrainedModel>());
    assert_eq!(run(["updraft", "--version"]), 0);
}
