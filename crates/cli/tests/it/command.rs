//! Runs the binary and keeps what it said.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// What a finished process left.
pub(crate) struct Said {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Said {
    /// The run folder that `train` reported.
    pub(crate) fn run_folder(&self) -> PathBuf {
        let value: serde_json::Value =
            serde_json::from_str(self.stdout.trim()).expect("train ends with one JSON line");
        PathBuf::from(value["run"].as_str().expect("a path"))
    }
}

/// Starts the binary in `dir`, ready for more settings.
pub(crate) fn updraft(dir: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_updraft"));
    command.current_dir(dir).args(arguments);
    command
}

/// Runs the binary in `dir` to its end.
pub(crate) fn run(dir: &Path, arguments: &[&str]) -> Said {
    said(updraft(dir, arguments).output().expect("the binary starts"))
}

/// Runs the binary and insists on success.
pub(crate) fn succeed(dir: &Path, arguments: &[&str]) -> Said {
    let said = run(dir, arguments);
    assert_eq!(said.code, 0, "{arguments:?}\n{}\n{}", said.stdout, said.stderr);
    said
}

/// Turns a process's output into text.
pub(crate) fn said(output: Output) -> Said {
    Said {
        code: output.status.code().unwrap_or(-1),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// The smallest run worth testing: a few steps on a few images.
pub(crate) const TINY: &[&str] = &[
    "train",
    "--set",
    "data.train_images=120",
    "--set",
    "data.test_images=40",
    "--set",
    "model.channels=2",
    "--set",
    "train.epochs=2",
    "--set",
    "train.batch=20",
];

/// [`TINY`] with more arguments.
pub(crate) fn tiny<'a>(more: &[&'a str]) -> Vec<&'a str> {
    TINY.iter().copied().chain(more.iter().copied()).collect()
}

/// The lines of a run's metrics without the fields that a clock or the system's memory filled.
pub(crate) fn metrics(run: &Path) -> Vec<serde_json::Value> {
    let text = std::fs::read_to_string(run.join("metrics.jsonl")).expect("metrics");
    text.lines()
        .map(|line| {
            let mut value: serde_json::Value = serde_json::from_str(line).expect("JSON");
            let fields = value.as_object_mut().expect("an object");
            let is_measured = |name: &str| {
                ["_us", "_per_s", "_bytes"].iter().any(|ending| name.ends_with(ending))
            };
            fields.retain(|name, _| !is_measured(name));
            value
        })
        .collect()
}
