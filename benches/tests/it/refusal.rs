//! A wrong strategy is refused and never timed; a missing peer is a line of the table.

#![cfg(unix)]

use std::os::unix::fs::PermissionsExt;
use std::process::Command;

/// A worker whose results are zeros and that computes in no time.
const LIAR: &str = r#"#!/bin/sh
while read -r line; do
    case "$line" in
    *'"ask":"prepare"'*)
        folder=${line#*'"folder":"'}
        folder=${folder%%'"'*}
        echo '{"answer":"prepared","about":"zeros"}' ;;
    *'"ask":"prove"'*)
        # 37 · 29 numbers of 8 bytes, as the small product has.
        head -c 8584 /dev/zero > "$folder/y.f64"
        echo '{"answer":"proved","outputs":["y"]}' ;;
    *)
        echo '{"answer":"repeated","wall_ns":1,"cpu_ns":1,"peak_bytes":null}' ;;
    esac
done
"#;

/// The shortest run of one entry.
fn runner() -> Command {
    let mut runner = Command::new(env!("CARGO_BIN_EXE_updraft-bench"));
    runner.args(["matmul/f32-512", "--json", "--samples", "1", "--sample-ms", "1"]);
    runner
}

fn json_run(runner: &mut Command) -> (Option<i32>, serde_json::Value, String) {
    let output = runner.output().expect("the runner starts");
    let json = serde_json::from_slice(&output.stdout).expect("a run as JSON");
    (output.status.code(), json, String::from_utf8_lossy(&output.stderr).into_owned())
}

/// The outcome of a strategy.
fn outcome<'a>(run: &'a serde_json::Value, strategy: &str) -> &'a serde_json::Value {
    let outcomes = run["entries"][0]["outcomes"].as_array().expect("outcomes");
    let found = outcomes.iter().find(|outcome| outcome["strategy"] == strategy);
    found.unwrap_or_else(|| panic!("no `{strategy}` in {outcomes:?}"))
}

#[test]
fn a_strategy_that_is_fast_and_wrong_is_refused_beside_one_that_is_right() {
    let folder = tempfile::tempdir().expect("a folder");
    let liar = folder.path().join("liar.sh");
    std::fs::write(&liar, LIAR).expect("written");
    std::fs::set_permissions(&liar, PermissionsExt::from_mode(0o755)).expect("executable");

    let (code, run, message) =
        json_run(runner().arg("--variant").arg(format!("liar={}", liar.display())));
    let flex = outcome(&run, "flex");
    assert!(flex["timing"].is_object() && flex["failure"].is_null());
    let liar = outcome(&run, "liar");
    assert!(liar["timing"].is_null(), "{liar}");
    assert!(liar["failure"].as_str().is_some_and(|why| why.starts_with("wrong: error")), "{liar}");
    assert_eq!(liar["about"], "zeros");
    assert_eq!(code, Some(2), "{message}");
    assert!(message.contains("not everything of ours was timed"), "{message}");
}

#[test]
fn peers_that_cannot_be_installed_are_reported_without_an_error() {
    let target = tempfile::tempdir().expect("a folder");
    let without_programs = target.path().join("no-programs");
    let (code, run, message) = json_run(
        runner().arg("--peers").arg("--target").arg(target.path()).env("PATH", without_programs),
    );
    assert_eq!(code, Some(0), "{message}");
    assert!(outcome(&run, "flex")["timing"].is_object());
    for (peer, program) in [("pytorch", "`python3`"), ("candle", "`cargo`")] {
        let failure = outcome(&run, peer)["failure"].as_str().expect("a line");
        assert!(failure.contains("not installed") && failure.contains(program), "{failure}");
        assert_eq!(failure.lines().count(), 1, "{failure}");
    }
}
