//! Whether a command may replace the file at the path of its output.

use std::fs::File;
use std::io::Read;
use std::path::{Path, absolute};

use anyhow::{Result, bail};
use updraft_data::FileIdentity;
use updraft_run::RunFolder;

use crate::command::cannot;

/// The bytes at the start of a file in which its mark is.
const START_BYTES: u64 = 4096;

/// The files of a kind that a command writes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OutputKind {
    /// The command.
    pub(crate) command: &'static str,
    /// A text that is at the start of each of them and of no other file.
    pub(crate) mark: &'static str,
}

/// Returns an error for an output that would replace an input of the command, a file in the folder
/// of a run, or a file that the command has not written.
pub(crate) fn check_output(path: &Path, kind: OutputKind, inputs: &[&Path]) -> Result<()> {
    refuse_in_run(path)?;
    let own = FileIdentity::of(path);
    if inputs.iter().any(|input| FileIdentity::of(input) == own) {
        bail!(
            "`{}` is an input of the command and would be overwritten; name another file",
            path.display()
        );
    }
    if !has_mark(path, kind.mark)? {
        bail!(
            "`{}` exists and was not written by `{}`; name another file, or remove it",
            path.display(),
            kind.command
        );
    }
    Ok(())
}

/// Returns an error for an output that is a file in the folder of a run, or that has the name of one
/// that a run writes there: other commands read them.
pub(crate) fn refuse_in_run(path: &Path) -> Result<()> {
    let Ok(whole) = absolute(path) else { return Ok(()) };
    let (Some(folder), Some(name)) = (whole.parent(), whole.file_name()) else { return Ok(()) };
    let whole = folder.canonicalize().unwrap_or(folder.to_owned()).join(name);
    let Some(run) = whole.ancestors().skip(1).find(|above| is_run(above)) else { return Ok(()) };
    let inside = whole.strip_prefix(run).unwrap_or(&whole);
    if whole.symlink_metadata().is_err() && !is_of_run(inside) {
        return Ok(());
    }
    bail!(
        "`{}` is in the folder of the run `{}`, whose files are not replaced; name a new file, or \
         one in another folder",
        path.display(),
        run.display()
    )
}

/// The files and folders that runs and the commands on a run write into its folder.
const OF_RUN: [&str; 36] = [
    ".lock",
    ".plan.toml",
    "calibration.json",
    "checkpoints",
    "classes.json",
    "contributions.json",
    "digests.json",
    "encoder.json",
    "environment.json",
    "epochs.csv",
    "file-contents.json",
    "images.json",
    "kernel-choices",
    "layers-eval.json",
    "layers-predict.json",
    "layers.json",
    "log.jsonl",
    "metrics.jsonl",
    "model.int8",
    "model.onnx",
    "pictures.json",
    "pipeline.json",
    "plan.toml",
    "quant.json",
    "report.html",
    "run.json",
    "schema.toml",
    "split.json",
    "steps.csv",
    "summary.json",
    "targets.json",
    "teacher.json",
    "tensorboard",
    "trace-eval.json",
    "trace-predict.json",
    "trace.json",
];

/// Whether a path inside a run's folder is one of [`OF_RUN`] or below it.
fn is_of_run(inside: &Path) -> bool {
    let first = inside.iter().next();
    first.is_some_and(|first| OF_RUN.iter().any(|own| first.eq_ignore_ascii_case(own)))
}

/// Whether a folder is that of a run; a file plan.toml alone may be anything.
fn is_run(folder: &Path) -> bool {
    let files = ["metrics.jsonl", "checkpoints"];
    RunFolder::open(folder).is_ok() && files.iter().any(|name| folder.join(name).exists())
}

/// Whether a file has the mark at its start; `true` for what has no content to lose: no file, an
/// empty one, a pipe or a device.
///
/// # Errors
/// If the file cannot be read.
fn has_mark(path: &Path, mark: &str) -> Result<bool> {
    // Opening a pipe would wait.
    if !path.is_file() {
        return Ok(true);
    }
    let mut start = Vec::new();
    let read = File::open(path).and_then(|file| file.take(START_BYTES).read_to_end(&mut start));
    read.map_err(|cause| cannot("read", path, cause))?;
    Ok(start.is_empty() || String::from_utf8_lossy(&start).contains(mark))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const KIND: OutputKind = OutputKind { command: "draw", mark: "<title>Drawing" };

    #[test]
    fn only_what_the_command_wrote_is_replaced() {
        let dir = tempfile::tempdir().expect("temporary folder");
        let path = |name: &str| dir.path().join(name);
        fs::write(path("own.html"), "<html>\n<title>Drawing</title>").expect("written");
        fs::write(path("notes.html"), "<html>\n<title>Notes</title>").expect("written");
        fs::write(path("empty.html"), "").expect("written");
        fs::create_dir(path("run")).expect("created");
        fs::write(path("plan.toml"), "not that of a run").expect("written");
        for name in ["run/plan.toml", "run/metrics.jsonl"] {
            fs::write(path(name), "").expect("written");
        }
        fs::copy(path("own.html"), path("run/own.html")).expect("written");
        let input = path("own.toml");
        fs::write(&input, "# <title>Drawing").expect("written");
        let check = |name: &str| {
            check_output(&path(name), KIND, &[&input]).map_err(|error| error.to_string())
        };
        for free in ["new.html", "own.html", "empty.html", "run/new.html", "run/more/new.html"] {
            assert_eq!(check(free), Ok(()), "{free}");
        }
        for (name, expected) in [
            ("notes.html", "exists and was not written by `draw`; name another file, or remove it"),
            ("own.toml", "is an input of the command and would be overwritten"),
            ("run/../own.toml", "is an input of the command and would be overwritten"),
            ("run/plan.toml", "is in the folder of the run `"),
            ("run/report.html", "is in the folder of the run `"),
            ("run/own.html", "is in the folder of the run `"),
            ("run/checkpoints/new.html", "is in the folder of the run `"),
        ] {
            let said = check(name).expect_err(name);
            assert!(said.contains(expected), "{said}");
        }
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_read_error_is_not_said_to_be_another_file() {
        // A regular file whose first page cannot be read.
        let path = Path::new("/proc/self/mem");
        let said = check_output(path, KIND, &[]).expect_err("no file").to_string();
        assert!(said.starts_with("cannot read `/proc/self/mem`: "), "{said}");
    }
}
