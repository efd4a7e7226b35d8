//! A config with different settings on the same seeds.

use std::fs;

use crate::command::{TINY, run, succeed};

#[test]
fn arms_are_compared_seed_by_seed_and_what_is_there_is_not_trained_again() {
    let dir = tempfile::tempdir().expect("temporary folder");
    fs::write(dir.path().join("c.toml"), "name = \"c\"\n").expect("written");
    let mut arguments = vec!["compare", "c.toml", "--seeds", "2"];
    arguments.extend(&TINY[1..]);
    arguments.extend(["--arm", "train.workers=0", "--arm", "train.workers=1"]);
    arguments.extend(["--arm", "train.epochs=15 data.cue=color"]);
    let said = succeed(dir.path(), &arguments);
    let value: serde_json::Value =
        serde_json::from_str(said.stdout.lines().last().expect("a line")).expect("JSON");
    let arms = value["arms"].as_array().expect("a list");
    // The number of workers changes no bit.
    for arm in &arms[..2] {
        assert_eq!(arm["difference"], 0.0, "{value}");
        assert_eq!(arm["standard_error"], 0.0, "{value}");
        assert_eq!(arm["within_band"], true, "{value}");
    }
    assert!(arms[2]["accuracy"] != arms[0]["accuracy"], "{value}");
    assert_eq!(said.stdout.lines().count(), 4, "{}", said.stdout);

    let runs = || fs::read_dir(dir.path().join("runs/compare/arm-1-seed-2")).expect("runs").count();
    // One run, and what it is made of.
    assert_eq!(runs(), 2);
    let again = succeed(dir.path(), &arguments);
    assert_eq!((again.stdout, runs()), (said.stdout, 2));
    // Other settings are never taken for these.
    let last = arguments.len() - 1;
    arguments[last] = "train.epochs=16 data.cue=color";
    let other = run(dir.path(), &arguments);
    assert_eq!(other.code, 2);
    assert!(other.stderr.contains("holds runs of other settings"), "{}", other.stderr);
}

#[test]
fn a_bad_arm_is_named_before_anything_is_trained() {
    let dir = tempfile::tempdir().expect("temporary folder");
    fs::write(dir.path().join("c.toml"), "name = \"c\"\n").expect("written");
    let arms = ["--arm", "precision=f32", "--arm", "precision=f12"];
    let said = run(dir.path(), &[&["compare", "c.toml"][..], &arms].concat());
    assert_eq!(said.code, 2);
    assert!(said.stderr.contains("--arm precision=f12") && said.stderr.contains("bf16-mixed"));
    assert!(!dir.path().join("runs").exists());
}
