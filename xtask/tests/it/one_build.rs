//! `cargo xtask train` and `cargo xtask test` share one build of burn.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::workspace::{cargo, output_text};

/// Every burn crate that the tests link is built by the program's build, so that a user who has run
/// `train` compiles no burn crate for `test`.
#[test]
fn the_tests_link_no_burn_crate_that_the_program_does_not_build() {
    let program = burn_files("build --workspace --bin updraft --message-format=json");
    let tests = burn_files("test --workspace --no-run --message-format=json");
    assert!(program.iter().any(|file| file.contains("burn_flex")), "{program:#?}");
    let missing: Vec<&String> = tests.difference(&program).collect();
    assert!(missing.is_empty(), "built for the tests alone: {missing:#?}");
}

/// The libraries of burn that a command of cargo builds or finds built; their names carry a hash
/// of features and profile.
fn burn_files(arguments: &str) -> BTreeSet<String> {
    let output = cargo(arguments);
    assert!(output.status.success(), "{}", output_text(&output));
    String::from_utf8_lossy(&output.stdout)
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .filter(|message| {
            let name = message["target"]["name"].as_str().unwrap_or_default();
            message["reason"] == "compiler-artifact" && name.starts_with("burn")
        })
        .flat_map(|message| message["filenames"].as_array().cloned().unwrap_or_default())
        .filter_map(|file| file.as_str().map(str::to_owned))
        .collect()
}
