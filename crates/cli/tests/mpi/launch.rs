//! `launch`: ranks that are killed or interrupted end in the checkpoint of an undisturbed run.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use updraft_trainer::list_checkpoints;

use crate::processes::{
    finished, is_rank_1_running, kill_rank_1, launch, mpirun, run_of, steps, updraft, wait_until,
    weights,
};

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

/// The first checkpoint of a run, which `--checkpoint` names, stays the one after a restart without a
/// new one, and after a second restart the run does not go back to it.
pub(crate) fn restarted_from_an_older_checkpoint(whole: &Path) {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run");
    let from = run_of(whole).unwrap();
    assert!(Command::new("cp").arg("-a").args([&from, &run]).status().unwrap().success());
    let listed = list_checkpoints(&run.join("checkpoints")).unwrap();
    let from_checkpoints = run.join("checkpoints");
    let step = listed[0].file_name().unwrap().to_str().unwrap();
    let step = step.rsplit_once('-').unwrap().1.trim_start_matches('0').to_owned();
    let run = run.to_str().unwrap();
    let words = ["launch", "-n", "2", "--", "train", "--resume", run, "--checkpoint", &step];
    let child = updraft(&words);
    wait_until("rank 1", || is_rank_1_running(folder.path()));
    kill_rank_1(folder.path());
    let newest = || list_checkpoints(&from_checkpoints).unwrap().len();
    wait_until("a new checkpoint", || newest() > 1);
    kill_rank_1(folder.path());
    let text = finished(child);
    assert_eq!(text.matches("2 ranks from the same checkpoint").count(), 1, "{text}");
    assert_eq!(text.matches("2 ranks from the newest checkpoint").count(), 1, "{text}");
    assert!(weights(folder.path()) == weights(whole), "{text}");
    println!("launch: a restart without a new checkpoint continues from the one that was named");
}

/// Exit codes: bad data, and a second Ctrl-C, which leaves no folder without a checkpoint.
pub(crate) fn exit_codes() {
    let folder = tempfile::tempdir().unwrap();
    // What only the ranks find.
    let child = launch(folder.path(), &[], &["data.faults={kind=\"skip\",at_most=1}"]);
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(text.contains("the ranks ended with exit code 2"), "{text}");

    // Steps of about a second, so that the second signal comes before the first is noticed.
    let slow = ["train.checkpoint_every_steps=1000", "train.distributed.added_latency_us=60000"];
    let child = launch(folder.path(), &[], &slow);
    wait_until("a step", || steps(folder.path()) > 0);
    for _ in 0..2 {
        let id = child.id().to_string();
        assert!(Command::new("kill").args(["-INT", &id]).status().unwrap().success());
        std::thread::sleep(Duration::from_millis(200));
    }
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(130), "{text}");
    let is_useful = |run: PathBuf| !list_checkpoints(&run.join("checkpoints")).unwrap().is_empty();
    assert!(run_of(folder.path()).is_none_or(is_useful), "no run without a checkpoint: {text}");
    println!("launch: 2 for bad data, 130 after a second signal, and no run without a checkpoint");
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
