//! A teacher and a run to prune that see other images are refused before the data is read.

use std::fs;

use crate::command::{succeed, with_sets};
use crate::dry_run::fault;

const IMAGES: &str = "data = { height = 16, width = 16, train_images = 96, test_images = 20 }\n\
    model = { kind = \"separable\", channels = 4 }\ntrain = { epochs = 1, batch = 24 }\n";

#[test]
fn runs_that_see_other_images_are_refused_by_a_dry_run_too() {
    let dir = tempfile::tempdir().expect("temporary folder");
    fs::write(dir.path().join("images.toml"), IMAGES).expect("written");
    let arguments = with_sets(&["train", "images.toml", "--runs", "others"], &["data.height=24"]);
    let other = succeed(dir.path(), &arguments).run_folder();
    let other = other.to_str().expect("text");
    let words =
        "a run whose `data.height` is 24; it must be one whose `data.height` is 16, as here";
    let taught = format!("train.teacher={other:?}");
    let pruned = format!("model.pruned_from={other:?}");
    let mut faults = Vec::new();
    for sets in [&[taught.as_str()][..], &[pruned.as_str(), "model.prune_ratio=0.5"]] {
        faults.extend(fault(dir.path(), &(with_sets(&["train", "images.toml"], sets), words)));
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}
