//! `launch`: ranks that are killed or interrupted end in the checkpoint of an undisturbed run.

use std::collections::BTreeMap;
use std::process::Command;

use crate::processes::{finished, kill_rank_1, launch, mpirun, run_of, steps, wait_until, weights};

/// A rank of `launch` is killed: it starts the ranks again, which end in the same checkpoint.
pub(crate) fn killed_twice(expected: &BTreeMap<String, String>) {
    let folder = tempfile::tempdir().unwrap();
    let child = launch(folder.path(), &["--restarts", "2"], &[]);
    for after in [30, 110] {
        wait_until("the next step", || steps(folder.path()) >= after);
        kill_rank_1(folder.path());
    }
    let text = finished(child);
    assert_eq!(text.matches("2 ranks from the newest checkpoint").count(), 2, "{text}");
    assert!(weights(folder.path()) == *expected, "{text}");
    println!("launch: rank 1 was killed twice, and the restarted ranks have the same checkpoint");

    let folder = tempfile::tempdir().unwrap();
    let child = launch(folder.path(), &["--restarts", "0"], &[]);
    wait_until("step 30", || steps(folder.path()) >= 30);
    kill_rank_1(folder.path());
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(1) && text.contains("0 restarts used up"), "{text}");
}

/// A rank is killed before the first checkpoint: the folder of that start does not stay.
pub(crate) fn killed_before_a_checkpoint(expected: &BTreeMap<String, String>) {
    let folder = tempfile::tempdir().unwrap();
    let late = ["train.checkpoint_every_steps=1000"];
    let child = launch(folder.path(), &["--restarts", "2"], &late);
    wait_until("the folder", || run_of(folder.path()).is_some());
    kill_rank_1(folder.path());
    let text = finished(child);
    assert_eq!(text.matches("2 ranks from the beginning").count(), 1, "{text}");
    assert!(weights(folder.path()) == *expected, "{text}");
    println!("launch: rank 1 was killed before a checkpoint, and one run folder is left");

    let folder = tempfile::tempdir().unwrap();
    let child = launch(folder.path(), &["--restarts", "0"], &late);
    wait_until("the folder", || run_of(folder.path()).is_some());
    kill_rank_1(folder.path());
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(1) && text.contains("0 restarts used up"), "{text}");
    assert!(run_of(folder.path()).is_none(), "no run folder is left");
    println!("launch: without a restart that is left, no folder without a checkpoint stays");
}

/// Ctrl-C, which reaches the process group of `launch`.
pub(crate) fn interrupted(expected: &BTreeMap<String, String>) {
    let folder = tempfile::tempdir().unwrap();
    let child = launch(folder.path(), &[], &["train.checkpoint_every_steps=1000"]);
    wait_until("a step", || steps(folder.path()) > 0);
    let group = format!("-{}", child.id());
    assert!(Command::new("kill").args(["-INT", "--", &group]).status().unwrap().success());
    let text = finished(child);
    assert!(text.contains("stopped and saved"), "{text}");
    let run = run_of(folder.path()).unwrap();
    finished(mpirun(&["train", "--resume", run.to_str().unwrap()]));
    assert!(weights(folder.path()) == *expected);
    println!("launch: Ctrl-C saved, and the resumed run has the same checkpoint");
}
