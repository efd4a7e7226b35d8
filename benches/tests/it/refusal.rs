//! A wrong strategy is refused and never timed.

#![cfg(unix)]

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
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

fn json_run(variant: &Path) -> (Option<i32>, serde_json::Value, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_updraft-bench"))
        .args(["matmul/f32-512", "--json", "--samples", "1", "--sample-ms", "1"])
        .arg("--variant")
        .arg(format!("liar={}", variant.display()))
        .output()
        .expect("the runner starts");
    let json = serde_json::from_slice(&output.stdout).expect("a run as JSON");
    (output.status.code(), json, String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn a_strategy_that_is_fast_and_wrong_is_refused_beside_one_that_is_right() {
    let folder = tempfile::tempdir().expect("a folder");
    let liar = folder.path().join("liar.sh");
    std::fs::write(&liar, LIAR).expect("written");
    std::fs::set_permissions(&liar, PermissionsExt::from_mode(0o755)).expect("executable");

    let (code, run, message) = json_run(&liar);
    let outcomes = run["entries"][0]["outcomes"].as_array().expect("outcomes");
    let of = |strategy: &str| {
        let found = outcomes.iter().find(|outcome| outcome["strategy"] == strategy);
        found.unwrap_or_else(|| panic!("no `{strategy}` in {outcomes:?}"))
    };
    assert!(of("flex")["timing"].is_object() && of("flex")["failure"].is_null());
    let liar = of("liar");
    assert!(liar["timing"].is_null(), "{liar}");
    assert!(liar["failure"].as_str().is_some_and(|why| why.starts_with("wrong: error")), "{liar}");
    assert_eq!(liar["about"], "zeros");
    assert_eq!(code, Some(2), "{message}");
    assert!(message.contains("not everything of ours was timed"), "{message}");
}
