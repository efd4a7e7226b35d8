//! Commands that are stopped before their result exists: none ends with exit code 0.

use std::fs;
use std::path::Path;

use crate::command::{tiny, with_sets};
use crate::resume::wait_for_step;
use crate::signals::{ended, signal, start, terminate_at, wait_for};
use crate::tune::{CONFIG, folder};

#[test]
fn a_pipeline_that_is_stopped_in_its_training_has_no_result() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let mut arguments = tiny(&["--set", "train.epochs=100000"]);
    arguments[0] = "pipeline";
    let child = start(dir.path(), &arguments);
    wait_for_step(dir.path(), 6);
    signal(&child, "-INT");
    let said = ended(child);
    assert_eq!((said.code, said.stdout.as_str()), (130, ""), "{}", said.stderr);
    let last = said.stderr.lines().last().expect("a last line");
    let words = "error: stopped and saved; continue with: updraft pipeline --resume ";
    assert!(last.starts_with(words), "{last}");
}

#[test]
fn a_search_that_is_stopped_has_no_result() {
    let dir = folder(&CONFIG.replace("epochs = 3", "epochs = 100000"));
    let child = start(dir.path(), &["tune", "c.toml", "--study", "s"]);
    let trial = dir.path().join("s/trials/0000");
    let has_begun =
        |run: &Path| fs::metadata(run.join("metrics.jsonl")).is_ok_and(|file| file.len() > 0);
    wait_for("no trial was begun", || {
        fs::read_dir(&trial).into_iter().flatten().flatten().any(|run| has_begun(&run.path()))
    });
    signal(&child, "-TERM");
    let said = ended(child);
    assert_eq!((said.code, said.stdout.as_str()), (130, ""), "{}", said.stderr);
    assert!(said.stderr.contains("error: stopped after 0 of 5 trials"), "{}", said.stderr);
}

#[test]
fn the_first_signal_ends_an_estimate_that_measures() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let arguments = ["scale-estimate", "--ranks", "2", "--bandwidth", "1", "--latency", "1"];
    let arguments = [&arguments[..], &["--steps", "60000"]].concat();
    let few = ["data.train_images=640", "data.test_images=50"];
    let mut child = start(dir.path(), &with_sets(&arguments, &few));
    // The steps take minutes.
    let rest = terminate_at("measuring steps", &mut child);
    let said = ended(child);
    assert_eq!((said.code, said.stdout.as_str()), (130, ""), "{rest}");
}
