//! Outputs that would replace a file of the user.

use std::fs;

use crate::command::{TASKS, everything_in, run, succeed};

#[test]
fn an_output_replaces_neither_an_input_nor_a_file_of_the_user() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let write = |name: &str, text: &str| fs::write(dir.path().join(name), text).expect("written");
    fs::create_dir(dir.path().join("results")).expect("created");
    let own = [
        ("own.toml", "name = \"own\"\n"),
        ("other.toml", "name = \"other\"\n"),
        ("notes.html", "<html>notes</html>"),
        ("results/result.json", "{}"),
    ];
    own.iter().for_each(|(name, text)| write(name, text));
    let before = everything_in(dir.path());
    for (arguments, words) in [
        (
            &["tune-performance", "own.toml", "--out", "own.toml"][..],
            "`own.toml` is an input of the command and would be overwritten; name another file",
        ),
        (
            &["tune-performance", "own.toml", "--out", "other.toml"],
            "`other.toml` exists and was not written by `tune-performance`; name another file, or",
        ),
        (&["lr-find", "own.toml", "--page", "own.toml"], "`own.toml` is an input of the command"),
        (
            &["lr-find", "own.toml", "--page", "notes.html"],
            "`notes.html` exists and was not written by `lr-find`",
        ),
        (
            &["compare-options", "own.toml", "--out", "results"],
            "`results/result.json` exists and was not written by `compare-options`",
        ),
    ] {
        for more in [&[][..], &["--dry-run"]] {
            let said = run(dir.path(), &[arguments, more].concat());
            assert_eq!(said.code, 2, "{arguments:?}: {}", said.stderr);
            assert!(said.stderr.contains(words), "`{words}` is missing: {}", said.stderr);
        }
    }
    for (name, text) in own {
        assert_eq!(fs::read_to_string(dir.path().join(name)).expect("a file"), text);
    }
    assert_eq!(everything_in(dir.path()), before, "something was written");
}

#[test]
fn no_prediction_replaces_a_file_in_the_folder_of_a_run() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let run_folder = TASKS[1].succeed(dir.path(), "train", &["train.epochs=1"]).run_folder();
    let name = run_folder.to_str().expect("text");
    fs::write(dir.path().join("t.csv"), "x\n1\n").expect("written");
    fs::write(dir.path().join(name).join("own.csv"), "x\n1\n").expect("written");
    let before = everything_in(dir.path());
    for file in ["own.csv", "steps.csv", "checkpoints/new.csv"] {
        let out = format!("{name}/{file}");
        let out = out.as_str();
        for more in [&[][..], &["--dry-run"]] {
            let arguments = [&["predict", name, "t.csv", "--out", out][..], more].concat();
            let said = run(dir.path(), &arguments);
            assert_eq!(said.code, 2, "{}", said.stderr);
            let words = format!("`{out}` is in the folder of the run `");
            assert!(said.stderr.contains(&words), "{}", said.stderr);
        }
    }
    let new = format!("{name}/new.csv");
    succeed(dir.path(), &["predict", name, "t.csv", "--out", &new, "--dry-run"]);
    assert_eq!(everything_in(dir.path()), before, "something was written");
}

/// The measurement would take hours.
#[test]
fn results_that_cannot_be_written_are_refused_before_they_are_measured() {
    let dir = tempfile::tempdir().expect("temporary folder");
    fs::create_dir_all(dir.path().join("results/result.json")).expect("created");
    let arguments = ["compare-options", "--out", "results", "--steps", "100000"];
    let said = run(dir.path(), &arguments);
    assert_eq!(said.code, 1, "{}", said.stderr);
    assert!(said.stderr.contains("cannot write `results/result.json`: "), "{}", said.stderr);
}

/// A working folder that is gone is found before the steps.
#[test]
#[cfg(target_os = "linux")]
fn a_page_that_cannot_be_written_is_refused_before_the_search() {
    use std::process::Command;

    let dir = tempfile::tempdir().expect("temporary folder");
    fs::create_dir(dir.path().join("gone")).expect("created");
    let script = "cd gone && rmdir ../gone && exec \"$@\"";
    let mut command = Command::new("sh");
    command.args(["-c", script, "sh", env!("CARGO_BIN_EXE_updraft")]).current_dir(dir.path());
    command.args(["lr-find", "--steps", "1000000"]);
    let said = crate::command::said(command.output().expect("it starts"));
    assert_eq!(said.code, 1, "{}", said.stderr);
    assert!(said.stderr.contains("cannot write `lr-find.html`"), "{}", said.stderr);
}
