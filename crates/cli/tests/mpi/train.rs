//! `train` on ranks that `mpirun` starts.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Child;
use std::time::{Duration, Instant};

use crate::processes::{
    SMALL, command, finished, kill_rank_1, mpirun, mpirun_of, run_of, signal_rank_1, steps,
    wait_until, weights,
};

/// A second run of the same ranks has the same checkpoint.
pub(crate) fn repeated(whole: &Path) {
    let text = finished(new(whole, &[]));
    assert_eq!(text.matches("epoch 6/6").count(), 1, "one rank prints: {text}");
    let again = tempfile::tempdir().unwrap();
    finished(new(again.path(), &[]));
    assert_eq!(weights(again.path()), weights(whole));
    println!("two ranks: one run folder, the same checkpoint in a second run");
}

/// A rank is killed: the other ends, and the resumed run ends in the same checkpoint.
pub(crate) fn killed_and_resumed(expected: &BTreeMap<String, String>) {
    let folder = tempfile::tempdir().unwrap();
    let killed = folder.path();
    let child = new(killed, &[]);
    wait_until("step 60", || steps(killed) >= 60);
    let started = Instant::now();
    kill_rank_1(killed);
    let output = child.wait_with_output().unwrap();
    assert!(!output.status.success(), "a lost rank ends the run");
    assert!(started.elapsed() < Duration::from_secs(60));
    let run = run_of(killed).unwrap();
    let text = finished(mpirun(&["train", "--resume", run.to_str().unwrap()]));
    assert!(text.contains("resumed"), "{text}");
    assert_eq!(weights(killed), *expected);
    println!("rank 1 was killed: the other ended, and the resumed run has the same checkpoint");
}

/// A rank that is stopped, and does not end, ends the others after the timeout.
pub(crate) fn timed_out() {
    let folder = tempfile::tempdir().unwrap();
    let child = new(folder.path(), &["train.distributed.timeout=1"]);
    wait_until("step 30", || steps(folder.path()) >= 30);
    let started = Instant::now();
    signal_rank_1(folder.path(), "-STOP");
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    let names_it = "error: rank 1 did not arrive at ";
    assert!(!output.status.success(), "{text}");
    assert_eq!(text.matches(names_it).count(), 1, "{text}");
    assert_eq!(text.matches("error: ").count(), 1, "{text}");
    assert!(text.contains("within 1 s, `train.distributed.timeout`"), "{text}");
    assert!(!text.contains("Signal:"), "no stack trace: {text}");
    assert!(started.elapsed() < Duration::from_secs(30));
    println!("a rank that hangs is named and ends the run after the timeout");
}

/// Settings that need a single rank are refused by their keys.
pub(crate) fn refused() {
    for (set, key) in [
        ("train.batch=1", "`train.batch` is 1"),
        (
            "train.auto_batch={}",
            "`train.auto_batch`, or \"auto\" for `train.batch`, needs a single rank",
        ),
        ("train.recompute_batch_norms=2", "`train.recompute_batch_norms` needs a single rank"),
        ("data.faults={kind=\"skip\",at_most=1}", "`faults` is `skip`; expected `raise`"),
        ("train.quantization=\"int8\"", "`train.quantization` needs a single rank"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let runs = folder.path().to_str().unwrap();
        let mut words = vec!["train", "--runs", runs, "--set", set];
        if set.contains("quantization") {
            words.extend(["--set", "model={kind=\"separable\"}"]);
        }
        let child = mpirun(&words);
        let output = child.wait_with_output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && text.contains(key), "{set}: {text}");
        assert_eq!(text.matches("error: ").count(), 1, "{set}: {text}");
        assert!(run_of(folder.path()).is_none(), "{set}: no run folder is left");
    }
    println!("settings that need a single rank are refused by their keys");
}

/// Ranks with other values end with one error, which has both.
pub(crate) fn unlike() {
    let folder = tempfile::tempdir().unwrap();
    let runs = folder.path().to_str().unwrap();
    for (set, expected) in [
        (
            "train.learning_rate=0.5",
            "`train.learning_rate` is `0.5` on rank 1 and `0.01` on rank 0",
        ),
        ("seed=4", "`seed` is `4` on rank 1 and `1` on rank 0"),
    ] {
        let program = env!("CARGO_BIN_EXE_updraft");
        let second = [":", "-n", "1", program, "train", "--runs", runs, "--set", set];
        let child = mpirun_of(1, &[&["train", "--runs", runs][..], &second].concat());
        let output = child.wait_with_output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{text}");
        assert!(text.contains(expected), "{text}");
        assert_eq!(text.matches("error: ").count(), 1, "{text}");
        assert!(run_of(folder.path()).is_none(), "no run folder is left");
    }
    println!("ranks with other settings are refused with one error");
}

/// Processes that a launcher started and MPI does not connect are refused: each would train alone.
pub(crate) fn unconnected() {
    let folder = tempfile::tempdir().unwrap();
    for (variables, launcher) in [
        (["RANK", "WORLD_SIZE", "LOCAL_RANK"], "torchrun"),
        (["SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID"], "srun"),
    ] {
        let mut train = command(&["train", "--runs", folder.path().to_str().unwrap()]);
        train.envs(variables.into_iter().zip(["0", "2", "0"]));
        let output = train.spawn().unwrap().wait_with_output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        let expected = format!("one of 2 ranks of {launcher}, of which MPI connects 1");
        assert!(!output.status.success() && text.contains(&expected), "{text}");
        assert!(run_of(folder.path()).is_none(), "no run folder is left");
    }
    println!("processes of torchrun and srun that MPI does not connect are refused");
}

/// Two ranks of a small run.
fn new(runs: &Path, sets: &[&str]) -> Child {
    let mut arguments = vec!["train", "--runs", runs.to_str().unwrap()];
    arguments.extend(SMALL.iter().chain(sets).flat_map(|set| ["--set", set]));
    mpirun(&arguments)
}
