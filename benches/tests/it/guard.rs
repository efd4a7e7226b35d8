//! `--against` finds a planted slowdown, and accepts a run that is faster than the saved one.

use std::path::Path;
use std::process::{Command, Output};

/// The shortest run of an entry that burn computes, too.
fn bench(arguments: &[&str]) -> Output {
    let mut runner = Command::new(env!("CARGO_BIN_EXE_updraft-bench"));
    runner.args(["optimizer/sgd-dual-pathway-c16-s2-32px", "--samples", "5", "--sample-ms", "1"]);
    runner.args(arguments);
    runner.output().expect("the runner starts")
}

fn saved(folder: &Path, arguments: &[&str]) {
    let folder = folder.to_str().expect("a path");
    let output = bench(
        &[&["--threads", "1", "--processes", "4", "--save-to", folder][..], arguments].concat(),
    );
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

fn guarded(folder: &Path, arguments: &[&str]) -> (Option<i32>, String) {
    let against = ["--against", folder.to_str().expect("a path")];
    let output = bench(&[&against[..], arguments].concat());
    let text = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8_lossy(&text).into_owned())
}

#[test]
fn a_slowdown_fails_and_a_gain_does_not() {
    let folder = tempfile::tempdir().expect("a folder");
    let (plain, slow) = (folder.path().join("plain"), folder.path().join("slow"));
    saved(&plain, &[]);
    saved(&slow, &["--slow-ours", "400"]);

    // Far beyond the noise of any machine that runs tests: ours takes five times as long.
    let (code, text) = guarded(&plain, &["--threads", "1", "--slow-ours", "400"]);
    assert_eq!(code, Some(2), "{text}");
    assert!(text.contains("fell") && text.contains("ours is slower"), "{text}");

    let again = folder.path().join("again");
    let (code, text) =
        guarded(&slow, &["--threads", "1", "--save-to", again.to_str().expect("a path")]);
    assert_eq!(code, Some(0), "{text}");
    let run = std::fs::read_to_string(again.join("run.json")).expect("saved");
    let run: serde_json::Value = serde_json::from_str(&run).expect("a run");
    let outcomes = run["entries"][0]["outcomes"].as_array().expect("outcomes");
    let names: Vec<_> = outcomes.iter().map(|outcome| &outcome["strategy"]).collect();
    assert_eq!(names, ["updraft", "flex"], "forced paths are not compared");
    let starts = outcomes[0]["timing"]["starts"].as_array().expect("several processes");
    assert!(starts.len() >= 3, "{starts:?}");
}

#[test]
fn a_run_with_another_number_of_threads_and_an_absent_one_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    saved(folder.path(), &[]);
    for (run, threads, said) in [
        (folder.path(), "2", "different machines"),
        (&folder.path().join("absent"), "1", "reading the run"),
    ] {
        let (code, text) = guarded(run, &["--threads", threads]);
        assert_eq!(code, Some(2), "{text}");
        assert!(text.contains(said), "{text}");
    }
}
