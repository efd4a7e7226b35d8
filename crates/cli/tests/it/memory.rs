//! With a memory limit every command ends with an error, and saved files are complete.

use std::path::Path;
use std::process::Command;

use updraft_trainer::{check_checkpoint, list_checkpoints};

use crate::command::{Said, said, succeed, tiny};

/// Runs the binary with an address space of so many KiB.
fn limited(dir: &Path, kib: u64, arguments: &[&str]) -> Said {
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -v \"$1\"; shift; exec \"$@\"", "sh", &kib.to_string()]);
    command.arg(env!("CARGO_BIN_EXE_updraft")).args(arguments).current_dir(dir);
    // Threads of their own arenas would take address space that they do not use.
    command.env("MALLOC_ARENA_MAX", "1").env("RAYON_NUM_THREADS", "2");
    said(command.output().expect("a shell"))
}

/// The limits under which the program starts and does not finish, and how it ended.
fn starved(dir: &Path, arguments: &[&str]) -> Vec<Said> {
    let limits = [56_000, 70_000, 180_000, 300_000];
    let tried = limits.into_iter().map(|kib| limited(dir, kib, arguments));
    // 127: the loader has no room for the program itself.
    let tried: Vec<Said> = tried.filter(|said| said.code != 0 && said.code != 127).collect();
    for said in &tried {
        let text = format!("{arguments:?} {}: {}{}", said.code, said.stdout, said.stderr);
        assert!(said.code == 1 || said.code == 2, "{text}");
        assert!(said.stderr.lines().any(|line| line.starts_with("error: ")), "{text}");
        assert!(!said.stderr.contains("panicked"), "{text}");
    }
    tried
}

#[test]
fn a_limit_of_memory_ends_every_command_with_an_error_and_leaves_the_run_whole() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let large = ["--set", "train.batch=2000", "--set", "model.channels=24"];
    let large =
        [&large[..], &["--set", "data.train_images=2000", "--set", "train.epochs=1"]].concat();
    let tried = starved(dir.path(), &tiny(&[&large[..], &["--runs", "starved"]].concat()));
    let is_told = tried.iter().any(|said| said.stderr.contains("error: out of memory: "));
    assert!(is_told, "no limit was small enough: {}", tried.len());

    let run = succeed(dir.path(), &tiny(&["--set", "model.channels=24"])).run_folder();
    let name = run.to_str().expect("text");
    image::RgbImage::new(2000, 2000).save(dir.path().join("a.png")).expect("written");
    for arguments in [
        &["eval", name][..],
        &["predict", name, "a.png"],
        &["quantize", name],
        &["train", "--resume", name],
    ] {
        starved(dir.path(), arguments);
        for path in list_checkpoints(&dir.path().join(&run).join("checkpoints")).expect("listed") {
            check_checkpoint(&path).expect("whole");
        }
    }
    succeed(dir.path(), &["train", "--resume", name]);
    succeed(dir.path(), &["eval", name]);

    // The search for a batch tries each in a process of its own: one that ends is too large.
    let found = limited(dir.path(), 700_000, &["batch-find", "--budget-mib", "100000"]);
    assert!(found.code == 0 || found.stderr.contains("error: "), "{}", found.stderr);
}
