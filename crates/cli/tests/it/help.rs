//! What a newcomer reads: help, plans, tables.

use crate::command::{run, succeed};

#[test]
fn every_help_page_fits_eighty_columns() {
    let dir = tempfile::tempdir().expect("temporary folder");
    for arguments in [
        &["--help"][..],
        &["train", "--help"],
        &["eval", "--help"],
        &["predict", "--help"],
        &["probe", "--help"],
        &["explain", "--help"],
        &["lr-find", "--help"],
        &["report", "--help"],
        &["verify", "--help"],
    ] {
        let said = succeed(dir.path(), arguments);
        assert!(said.stdout.contains("Usage:"), "{}", said.stdout);
        for line in said.stdout.lines() {
            assert!(line.chars().count() <= 80, "{arguments:?}: {line}");
        }
    }
}

#[test]
fn a_mistyped_command_is_answered_with_the_nearest() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let said = run(dir.path(), &["trian"]);
    assert_eq!(said.code, 2);
    assert!(said.stderr.contains("train"), "{}", said.stderr);
}

#[test]
fn a_dry_run_prints_a_plan_that_is_itself_a_plan() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let said = succeed(dir.path(), &["train", "--dry-run", "--set", "train.epochs=7"]);
    let plan: toml::Table = toml::from_str(&said.stdout).expect("TOML");
    assert_eq!(plan["train"]["epochs"].as_integer(), Some(7));
    assert!(!dir.path().join("runs").exists());
}

#[test]
fn explain_names_who_chose_each_value() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let said = succeed(dir.path(), &["explain", "--set", "train.epochs=7"]);
    let line = |key: &str| {
        said.stdout
            .lines()
            .find(|line| line.starts_with(key))
            .map(str::to_owned)
            .unwrap_or_default()
    };
    assert!(line("train.epochs").contains("command line"), "{}", said.stdout);
    assert!(line("train.batch").contains("file"), "{}", said.stdout);
    assert!(line("train.label_smoothing").contains("default"), "{}", said.stdout);
}

#[test]
fn a_config_inherits_from_each_profile_and_explain_names_it() {
    let dir = tempfile::tempdir().expect("temporary folder");
    for (profile, key) in [("conservative", "train.clip_norm"), ("fast", "train.ema_decay")] {
        let profile =
            format!("{}/../../configs/profiles/{profile}.toml", env!("CARGO_MANIFEST_DIR"));
        let config = dir.path().join("c.toml");
        let text = format!("inherit = {profile:?}\n[train]\nepochs = 7\n");
        std::fs::write(&config, text).expect("written");
        let config = config.to_str().expect("text");
        let said = succeed(dir.path(), &["explain", config, "--set", "seed=3"]);
        let line = |key: &str| {
            let mut lines = said.stdout.lines();
            lines.find(|line| line.starts_with(key)).unwrap_or_default().to_owned()
        };
        assert!(line(key).contains(&profile), "{}", said.stdout);
        assert!(line("train.epochs").contains(" file "), "{}", said.stdout);
        assert!(line("seed").contains("command line"), "{}", said.stdout);
        assert!(line("train.batch").contains("default"), "{}", said.stdout);
        succeed(dir.path(), &["train", config, "--dry-run"]);
    }
}

#[test]
fn probe_lists_flex_in_eighty_columns_or_as_json() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let said = succeed(dir.path(), &["probe"]);
    assert!(said.stdout.contains("flex"), "{}", said.stdout);
    for line in said.stdout.lines() {
        assert!(line.chars().count() <= 80, "{line}");
    }
    let said = succeed(dir.path(), &["probe", "--json"]);
    let value: serde_json::Value = serde_json::from_str(&said.stdout).expect("JSON");
    assert!(value["version"].is_number(), "{value}");
}
