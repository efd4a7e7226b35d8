//! Comparisons that are stopped or killed, and two in one folder.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::Duration;

use updraft_run::RunFolder;

use crate::command::{TINY, run};
use crate::signals::{ended, signal, start, wait_for};

const PATIENCE: Duration = Duration::from_secs(60);

fn arguments() -> Vec<&'static str> {
    let mut arguments = vec!["compare", "c.toml", "--seeds", "1"];
    arguments.extend(&TINY[1..]);
    arguments.extend(["--arm", "train.epochs=100000", "--arm", "train.epochs=99999"]);
    arguments
}

/// A comparison, and its first run after some steps.
fn started(dir: &Path) -> (Child, PathBuf) {
    fs::write(dir.join("c.toml"), "name = \"c\"\n").expect("written");
    let child = start(dir, &arguments());
    let folder = dir.join("runs/compare/arm-1-seed-1");
    let first = || {
        let entries = fs::read_dir(&folder).into_iter().flatten().flatten();
        let mut runs = entries.map(|entry| entry.path()).filter(|path| path.is_dir());
        let has_begun = |run: &PathBuf| {
            fs::metadata(run.join("metrics.jsonl")).is_ok_and(|file| file.len() > 0)
        };
        runs.find(has_begun)
    };
    wait_for("no run was begun", || first().is_some());
    (child, first().expect("a run"))
}

#[test]
fn the_first_signal_saves_the_run_and_ends_the_comparison() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let (child, first) = started(dir.path());
    // Another comparison would train the same runs.
    let second = run(dir.path(), &arguments());
    assert_eq!(second.code, 1, "{}", second.stderr);
    let holder = format!("runs/compare` is in use by process {} on ", child.id());
    assert!(second.stderr.contains(&holder), "{}", second.stderr);
    signal(&child, "-TERM");
    let said = ended(child);
    assert_eq!(said.code, 130, "{}", said.stderr);
    let words = "error: stopped; the same command continues with the missing runs";
    assert!(said.stderr.contains(words), "{}", said.stderr);
    let saved = updraft_trainer::list_checkpoints(&first.join("checkpoints")).expect("listed");
    assert!(!saved.is_empty(), "nothing was saved");
    assert!(!dir.path().join("runs/compare/arm-2-seed-1").exists(), "the next run was begun");
}

/// Sends a signal to the process that trains a run.
fn signal_run(run: &Path, name: &str) {
    let holder = fs::read_to_string(run.join(".lock")).expect("a lock");
    let process = holder.split_whitespace().nth(1).expect("a process").to_owned();
    let sent = Command::new("kill").args([name, &process]).status();
    assert!(sent.expect("kill runs").success(), "{holder}");
}

#[test]
fn a_run_that_is_killed_is_reported_with_its_signal() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let (child, first) = started(dir.path());
    signal_run(&first, "-KILL");
    let said = ended(child);
    assert_eq!(said.code, 1, "{}", said.stderr);
    let words = "error: --arm train.epochs=100000, seed 1: its process was killed by signal 9, as";
    assert!(said.stderr.contains(words), "{}", said.stderr);
}

#[test]
fn a_run_that_receives_two_signals_saves() {
    let dir = tempfile::tempdir().expect("temporary folder");
    fs::write(dir.path().join("c.toml"), "name = \"c\"\n").expect("written");
    // One update of a thousand batches.
    let long = ["--set", "data.train_images=20000", "--set", "train.accumulate=1000"];
    let child = start(dir.path(), &[&arguments()[..], &long].concat());
    let folder = dir.path().join("runs/compare/arm-1-seed-1");
    let begun = || {
        let entries = fs::read_dir(&folder).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).find(|run| run.join("metrics.jsonl").exists())
    };
    wait_for("no run was begun", || begun().is_some());
    let run = begun().expect("a run");
    std::thread::sleep(Duration::from_millis(300));
    signal_run(&run, "-INT");
    std::thread::sleep(Duration::from_millis(100));
    signal_run(&run, "-INT");
    let said = ended(child);
    assert_eq!(said.code, 1, "{}", said.stderr);
    assert!(said.stderr.contains("the run was stopped before its end"), "{}", said.stderr);
    let saved = updraft_trainer::list_checkpoints(&run.join("checkpoints")).expect("listed");
    assert!(!saved.is_empty(), "nothing was saved");
}

#[test]
fn a_run_ends_with_a_comparison_that_is_killed() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let (mut child, first) = started(dir.path());
    child.kill().expect("killed");
    child.wait().expect("ended");
    let first = RunFolder::open(&first).expect("a run");
    assert!(first.wait_until_free(PATIENCE), "the run is trained without its comparison");
}
