//! `--profile`: the same results, in other time and memory.

use crate::command::{TASKS, metrics, run, succeed, texts, tiny};

/// Recomputed results are rounded in the same order, so that differences are of the last digits.
const ROUNDING: f64 = 1e-5;

#[test]
fn a_profile_does_not_change_what_a_run_of_any_task_learns() {
    let dir = tempfile::tempdir().expect("temporary folder");
    for small in &TASKS {
        let losses = |profile: &[&str]| {
            let arguments = small.arguments("train", &[]);
            let arguments = [&texts(&arguments)[..], profile].concat();
            let folder = succeed(dir.path(), &arguments).run_folder();
            let lines = metrics(&dir.path().join(folder));
            lines.iter().flat_map(|line| line.pointer("/train/loss")?.as_f64()).collect::<Vec<_>>()
        };
        let expected = losses(&[]);
        assert!(expected.len() > 1, "{}: {expected:?}", small.config);
        for profile in ["default", "throughput", "low-memory"] {
            let found = losses(&["--profile", profile]);
            assert_eq!(found.len(), expected.len());
            for (found, expected) in found.iter().zip(&expected) {
                let is_close = (found - expected).abs() <= ROUNDING * expected.abs();
                assert!(is_close, "{}, {profile}: {found}, not {expected}", small.config);
            }
        }
    }
}

#[test]
fn keys_of_a_profile_that_change_nothing_are_reported() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let said = succeed(dir.path(), &["explain", "--profile", "throughput"]);
    let line = |key: &str| {
        let mut lines = said.stdout.lines();
        lines.find(|line| line.starts_with(key)).unwrap_or_default().to_owned()
    };
    assert!(line("train.transfer").contains("profile throughput"), "{}", said.stdout);
    let notes = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    for words in [
        "note `data.memory_mib` of --profile throughput: the task has no such key",
        "note `train.transfer` changes nothing: batches are in the memory of flex already",
    ] {
        assert!(notes(&said.stderr).contains(words), "{words}: {}", said.stderr);
    }
    assert!(said.stderr.contains("train --profile throughput"), "{}", said.stderr);
    assert!(said.stderr.lines().all(|line| line.chars().count() <= 80), "{}", said.stderr);

    let said = succeed(dir.path(), &tiny(&["--profile", "throughput"]));
    assert!(notes(&said.stderr).contains("`train.transfer` changes nothing"), "{}", said.stderr);
    // The plan that a run stores has the profile's values.
    let plan = std::fs::read_to_string(dir.path().join(said.run_folder()).join("plan.toml"));
    assert!(plan.expect("a plan").contains("transfer = \"ahead\""));
    let resumed = run(dir.path(), &["train", "--resume", "x", "--profile", "default"]);
    assert_eq!(resumed.code, 2);
    assert!(resumed.stderr.contains("--profile is for a new run"), "{}", resumed.stderr);
}
