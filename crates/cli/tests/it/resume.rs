//! A stopped run goes on as if nothing had happened.

use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::command::{metrics, said, succeed, tiny, updraft};

fn last_model(run: &Path) -> Vec<(String, Vec<u8>)> {
    let newest = fs::read_dir(run.join("checkpoints"))
        .expect("checkpoints")
        .map(|entry| entry.expect("entry").path())
        .max()
        .expect("one checkpoint");
    crate::determinism::tensors(&newest.join("model.bpk"))
}

#[test]
fn a_run_cut_back_to_an_earlier_checkpoint_ends_bit_for_bit_the_same() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let more = ["--set", "train.checkpoint_every_steps=4", "--set", "train.keep_checkpoints=9"];
    let run = dir.path().join(succeed(dir.path(), &tiny(&more)).run_folder());
    let (unbroken, model) = (metrics(&run), last_model(&run));
    // What a kill after step 9 leaves: newer checkpoints absent, newer metrics present.
    for step in [6, 12] {
        fs::remove_dir_all(run.join(format!("checkpoints/step-{step:08}"))).expect("removed");
    }
    fs::remove_dir_all(run.join("checkpoints/step-00000008")).expect("removed");
    succeed(dir.path(), &["train", "--resume", run.to_str().expect("text")]);
    assert_eq!(unbroken, metrics(&run));
    assert!(model == last_model(&run), "the resumed weights differ");
}

#[cfg(unix)]
#[test]
fn an_interrupt_saves_then_says_how_to_resume() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let mut child = updraft(dir.path(), &tiny(&["--set", "train.epochs=100000"]))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary starts");
    wait_for_metrics(dir.path());
    let killed = std::process::Command::new("kill")
        .args(["-INT", &child.id().to_string()])
        .status()
        .expect("kill runs");
    assert!(killed.success());
    let deadline = Instant::now() + Duration::from_secs(60);
    while child.try_wait().expect("a child").is_none() {
        assert!(Instant::now() < deadline, "the run did not stop");
        std::thread::sleep(Duration::from_millis(20));
    }
    let said = said(child.wait_with_output().expect("output"));
    assert_eq!(said.code, 0, "{}", said.stderr);
    let line = said.stderr.lines().last().expect("a last line");
    let resume = line.split("cargo xtask train --resume ").nth(1).expect("a way to resume");
    let run = dir.path().join(resume);
    assert!(run.join("plan.toml").is_file(), "{line}");
    let before = metrics(&run).len();
    // Fewer epochs, so that the resumed run ends.
    let plan = fs::read_to_string(run.join("plan.toml")).expect("plan");
    let step = metrics(&run).last().expect("a line")["step"].as_u64().expect("a step");
    let plan = plan.replace("epochs = 100000", &format!("epochs = {}", step / 6 + 2));
    fs::write(run.join("plan.toml"), plan).expect("written");
    succeed(dir.path(), &["train", "--resume", resume]);
    assert!(metrics(&run).len() > before);
}

#[cfg(unix)]
fn wait_for_metrics(dir: &Path) {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let found = fs::read_dir(dir.join("runs")).is_ok_and(|runs| {
            runs.flatten().any(|run| {
                fs::metadata(run.path().join("metrics.jsonl")).is_ok_and(|file| file.len() > 0)
            })
        });
        if found {
            return;
        }
        assert!(Instant::now() < deadline, "no metrics were written");
        std::thread::sleep(Duration::from_millis(10));
    }
}
