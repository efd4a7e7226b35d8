//! Runs the program and captures its output.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The result of a finished process.
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

/// The names of all files below a folder.
pub(crate) fn everything_in(dir: &Path) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut folders = vec![dir.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            found.insert(path.display().to_string());
            if path.is_dir() {
                folders.push(path);
            }
        }
    }
    found
}

/// The names of the commands in `--help`.
pub(crate) fn commands() -> BTreeSet<String> {
    let dir = tempfile::tempdir().expect("temporary folder");
    let help = succeed(dir.path(), &["--help"]).stdout;
    let list = help.split("Commands:\n").nth(1).expect("a list of commands");
    let names = list.lines().take_while(|line| !line.is_empty());
    let first = |line: &str| line.split_whitespace().next().map(str::to_owned);
    let is_name = |line: &&str| line.starts_with("  ") && !line.starts_with("   ");
    names.filter(is_name).filter_map(first).filter(|name| name != "help").collect()
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
    let text = fs::read_to_string(run.join("metrics.jsonl")).expect("metrics");
    text.lines()
        .map(|line| {
            let mut value: serde_json::Value = serde_json::from_str(line).expect("JSON");
            let fields = value.as_object_mut().expect("an object");
            let is_measured = |name: &str| {
                name == "gpu"
                    || ["_us", "_per_s", "_bytes", "_wait_share"]
                        .iter()
                        .any(|ending| name.ends_with(ending))
            };
            fields.retain(|name, _| !is_measured(name));
            value
        })
        .collect()
}

/// The output of a command as JSON.
pub(crate) fn json(text: &str) -> serde_json::Value {
    serde_json::from_str(text.trim()).expect("JSON")
}

/// A configuration of the repository.
pub(crate) fn config(name: &str) -> String {
    format!("{}/../../configs/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// Arguments with a `--set` before each setting.
pub(crate) fn with_sets<'a>(arguments: &[&'a str], sets: &[&'a str]) -> Vec<&'a str> {
    let sets = sets.iter().flat_map(|set| ["--set", *set]);
    arguments.iter().copied().chain(sets).collect()
}

/// A task, with the smallest run of it that is worth testing.
pub(crate) struct Small {
    /// The name of the task.
    pub(crate) task: &'static str,
    /// A configuration of it that needs no data.
    pub(crate) config: &'static str,
    /// Settings that make it small.
    pub(crate) sets: &'static [&'static str],
    /// The metrics of the task, the loss first.
    pub(crate) metrics: &'static [&'static str],
    /// How many test samples it has.
    pub(crate) test_samples: usize,
}

impl Small {
    /// The arguments of a command on the configuration, with further settings.
    pub(crate) fn arguments(&self, command: &str, sets: &[&str]) -> Vec<String> {
        let mut arguments = vec![command.to_owned(), config(self.config)];
        for set in self.sets.iter().chain(sets) {
            arguments.extend(["--set".to_owned(), (*set).to_owned()]);
        }
        arguments
    }

    /// Runs a command on the configuration and insists on success.
    pub(crate) fn succeed(&self, dir: &Path, command: &str, sets: &[&str]) -> Said {
        succeed(dir, &texts(&self.arguments(command, sets)))
    }
}

/// Every task that there is; tables with KAN layers and with several targets.
pub(crate) const TASKS: [Small; 5] = [
    Small {
        task: "image-classification",
        config: "quickstart.toml",
        sets: &[
            "data.train_images=120",
            "data.test_images=40",
            "model.channels=2",
            "train.epochs=2",
            "train.batch=20",
        ],
        metrics: &["loss", "accuracy"],
        test_samples: 40,
    },
    Small {
        task: "tables",
        config: "kan-quickstart.toml",
        sets: &["data.train_rows=120", "data.test_rows=40", "train.epochs=2", "train.batch=20"],
        metrics: &["loss", "y-mae", "y-rmse", "y-r-squared"],
        test_samples: 40,
    },
    Small {
        task: "image-to-image",
        config: "label-free.toml",
        sets: &[
            "data.patch=[16, 16]",
            "data.patches=8",
            "data.sides=[32, 32]",
            "data.train_fields=3",
            "data.test_fields=1",
            "model.filters=[2, 4]",
            "train.epochs=2",
            "train.batch=4",
        ],
        metrics: &["loss", "pearson", "psnr", "ssim", "mean-absolute-error"],
        test_samples: 4,
    },
    Small {
        task: "tables",
        config: "tables-quickstart.toml",
        sets: &[
            "data.train_rows=120",
            "data.test_rows=40",
            "data.validation_fraction=0",
            "model.hidden=16",
            "train.epochs=2",
            "train.batch=20",
        ],
        metrics: &[
            "loss",
            "loss-effect",
            "loss-symptoms",
            "effect-accuracy",
            "effect-balanced-accuracy",
            "effect-macro-f1",
            "effect-weighted-f1",
            "effect-auc",
            "effect-average-precision",
            "effect-log-loss",
            "effect-calibration-error",
            "symptoms-hamming-loss",
            "symptoms-macro-f1",
            "symptoms-auc",
            "symptoms-average-precision",
        ],
        test_samples: 40,
    },
    Small {
        task: "masked-images",
        config: "masked-images.toml",
        sets: &[
            "data.patch=[16, 16]",
            "data.patches=8",
            "data.sides=[32, 32]",
            "data.train_fields=3",
            "data.test_fields=1",
            "model.embedding=8",
            "model.layers=1",
            "model.heads=2",
            "model.decoder={kind='self-attention',embedding=8,layers=1,heads=2}",
            "train.epochs=2",
            "train.batch=4",
        ],
        metrics: &["loss", "zero-error", "mean-error", "r-squared"],
        test_samples: 4,
    },
];

/// Owned arguments for [`run`].
pub(crate) fn texts(arguments: &[String]) -> Vec<&str> {
    arguments.iter().map(String::as_str).collect()
}
