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

#[test]
fn damaged_runs_that_keys_name_are_refused_by_a_dry_run_too() {
    let dir = tempfile::tempdir().expect("temporary folder");
    fs::write(dir.path().join("images.toml"), IMAGES).expect("written");
    let other = succeed(dir.path(), &["train", "images.toml", "--runs", "others"]).run_folder();
    let checkpoints = dir.path().join(&other).join("checkpoints");
    let mut folders = fs::read_dir(checkpoints).expect("a folder").flatten();
    let model = folders.next().expect("a checkpoint").path().join("model.bpk");
    let mut bytes = fs::read(&model).expect("a model");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&model, bytes).expect("written");
    let other = other.to_str().expect("text");
    let taught = format!("train.teacher={other:?}");
    let pruned = format!("model.pruned_from={other:?}");
    let mut faults = Vec::new();
    for (sets, key) in [
        (&[taught.as_str()][..], "train.teacher"),
        (&[pruned.as_str(), "model.prune_ratio=0.5"], "model.pruned_from"),
    ] {
        let words = format!("`{key}` is `{other}`; it must be a trained run: `");
        let arguments = with_sets(&["train", "images.toml"], sets);
        faults.extend(fault(dir.path(), &(arguments, words.as_str())));
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}
