//! The example's task trains, resumes to the same bits, and is scored, by the commands of all tasks.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn updraft(dir: &Path, arguments: &[&str]) -> Output {
    let program = env!("CARGO_BIN_EXE_updraft-example-task");
    let output = Command::new(program).current_dir(dir).args(arguments).output();
    output.expect("the program starts")
}

fn succeed(dir: &Path, arguments: &[&str]) -> String {
    let output = updraft(dir, arguments);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {said}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn json(text: &str) -> serde_json::Value {
    serde_json::from_str(text.trim()).expect("JSON")
}

/// Trains with a checkpoint after every so many steps, and returns the run's folder.
fn train(dir: &Path) -> (PathBuf, serde_json::Value) {
    let sets = ["train.epochs=12", "train.checkpoint_every_steps=4", "train.keep_checkpoints=99"];
    let sets = sets.iter().flat_map(|set| ["--set", *set]);
    let learning = ["train", "--set", "train.learning_rate=0.02"];
    let trained = json(&succeed(dir, &learning.into_iter().chain(sets).collect::<Vec<_>>()));
    (dir.join(trained["run"].as_str().expect("a path")), trained["test"].clone())
}

fn checkpoints(run: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(run.join("checkpoints")).expect("checkpoints");
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("readable").path()).collect();
    paths.sort();
    paths
}

#[test]
fn a_task_of_ones_own_trains_resumes_to_the_same_bits_and_is_scored() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let (run, test) = train(dir.path());
    assert!(test["accuracy"].as_f64() > Some(0.8), "{test}");
    let weights = |path: &Path| fs::read(path.join("model.safetensors")).expect("weights");
    let all = checkpoints(&run);
    let unbroken = weights(all.last().expect("a checkpoint"));
    // The files after a kill in the middle of an epoch.
    for later in &all[all.len() / 2..] {
        fs::remove_dir_all(later).expect("removed");
    }
    fs::remove_file(run.join("summary.json")).expect("removed");
    let folder = run.to_str().expect("UTF-8");
    let resumed = json(&succeed(dir.path(), &["train", "--resume", folder]));
    assert_eq!(resumed["test"], test);
    assert!(weights(checkpoints(&run).last().expect("a checkpoint")) == unbroken);
    assert_eq!(json(&succeed(dir.path(), &["eval", folder, "--json"])), test);
}

#[test]
fn every_command_knows_the_task_and_refuses_what_it_leaves_out() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    assert!(succeed(dir.path(), &["tasks"]).starts_with("largest (the default): which of four"));
    assert!(succeed(dir.path(), &["explain", "--keys", "largest"]).contains("`data.samples`"));
    assert!(succeed(dir.path(), &["verify", "--task", "largest"]).contains("the same bits"));
    succeed(dir.path(), &["lr-find"]);
    succeed(dir.path(), &["batch-find", "--set", "train.auto_batch={ most = 8 }"]);
    succeed(dir.path(), &["warm-up"]);
    let arms = ["--arm", "train.learning_rate=0.02", "--arm", "train.learning_rate=0.002"];
    fs::write(dir.path().join("c.toml"), "train.epochs = 2\n").expect("written");
    let compared =
        succeed(dir.path(), &[&["compare", "c.toml", "--seeds", "1"][..], &arms].concat());
    assert!(json(compared.lines().last().expect("a line"))["arms"][1]["difference"].is_number());
    let (run, _) = train(dir.path());
    let folder = run.to_str().expect("UTF-8");
    succeed(dir.path(), &["report", folder]);
    let refused = updraft(dir.path(), &["quantize", folder]);
    assert_eq!(refused.status.code(), Some(2));
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(
        said.contains("quantize is not for task `largest`: its models cannot be quantized"),
        "{said}"
    );
    // Methods that the example does not implement are refused by the traits' defaults.
    let table = json(&succeed(dir.path(), &["tasks", "--json"]));
    let refused = table["tasks"][0]["refused"].as_array().expect("a list").len();
    assert_eq!(refused, 8, "{table}");
    for set in ["log.utilization=true", "train.recompute=segments", "train.resident={}"] {
        let said = updraft(dir.path(), &["train", "--set", set]);
        assert_eq!(said.status.code(), Some(2), "{set}");
    }
    let wrong = updraft(dir.path(), &["train", "--set", "data.samples=3"]);
    let said = String::from_utf8_lossy(&wrong.stderr).into_owned();
    assert_eq!(said, "error: `data.samples` is 3; it must be 10 to 100000\n");
}

#[test]
fn help_names_the_program_that_it_is_of() {
    let dir = tempfile::tempdir().expect("temporary folder");
    for arguments in [&["--help"][..], &["train", "--help"], &["lr-find", "--help"]] {
        let help = succeed(dir.path(), arguments);
        assert!(help.contains("updraft-example-task"), "{help}");
        let others = help.replace("updraft-example-task", "");
        assert!(!others.contains("updraft "), "{help}");
    }
    let examples = succeed(dir.path(), &["train", "--help"]);
    assert!(examples.contains("updraft-example-task train --resume runs/RUN"), "{examples}");
}

#[test]
fn the_whole_task_has_less_than_150_lines() {
    assert!(include_str!("../src/lib.rs").lines().count() < 150);
}
