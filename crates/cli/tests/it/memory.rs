//! With a memory limit every command ends with an error, and saved files are complete.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use updraft_trainer::{check_checkpoint, list_checkpoints};

use crate::command::{Said, said, succeed, tiny, with_sets};

/// Runs the binary with an address space of so many KiB.
fn limited(dir: &Path, kib: u64, arguments: &[&str]) -> Said {
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -v \"$1\"; shift; exec \"$@\"", "sh", &kib.to_string()]);
    command.arg(env!("CARGO_BIN_EXE_updraft")).args(arguments).current_dir(dir);
    // Threads of their own arenas would take address space that they do not use.
    command.env("MALLOC_ARENA_MAX", "1").env("RAYON_NUM_THREADS", "2");
    said(command.output().expect("a shell"))
}

/// The smallest limit, in steps of 4 MiB, under which the program can be loaded.
fn smallest(dir: &Path) -> u64 {
    let mut limits = (40_000..200_000).step_by(4_096);
    limits.find(|kib| limited(dir, *kib, &["--version"]).code == 0).expect("the program starts")
}

/// What the standard library prints before it aborts: a thread that starts has no memory for the stack
/// of its signal handler.
const NO_SIGNAL_STACK: &str = "failed to allocate an alternative stack";

/// How commands ended under limits that let the program start, without those that succeeded.
fn starved(dir: &Path, arguments: &[&str]) -> Vec<Said> {
    let least = smallest(dir);
    let limits = [least, least + 14_000, 180_000, 300_000];
    let tried = limits.into_iter().map(|kib| limited(dir, kib, arguments));
    let tried: Vec<Said> = tried.filter(|said| said.code != 0).collect();
    for said in tried.iter().filter(|said| !said.stderr.contains(NO_SIGNAL_STACK)) {
        let text = format!("{arguments:?} {}: {}{}", said.code, said.stdout, said.stderr);
        assert!(said.code == 1 || said.code == 2, "{text}");
        assert!(said.stderr.lines().any(|line| line.starts_with("error: ")), "{text}");
        assert!(!said.stderr.contains("panicked"), "{text}");
        let mut errors = said.stderr.lines().filter(|line| line.starts_with("error: "));
        // A thread that cannot be started.
        let has_advice = |line: &str| line.contains("raise the limit");
        let is_right = |line: &str| !line.contains("os error 11") || has_advice(line);
        assert!(errors.all(is_right), "{text}");
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
        let tried = starved(dir.path(), arguments);
        // What is advised is an option of the command.
        for said in tried.iter().filter(|said| said.stderr.contains("error: out of memory: ")) {
            assert_eq!(arguments[0] == "quantize", said.stderr.contains("--calibration"));
            assert_eq!(arguments[0] == "train", said.stderr.contains("train --resume"));
        }
        for path in list_checkpoints(&dir.path().join(&run).join("checkpoints")).expect("listed") {
            check_checkpoint(&path).expect("whole");
        }
    }
    succeed(dir.path(), &["train", "--resume", name]);
    succeed(dir.path(), &["eval", name]);

    // The search for a batch tries each in a process of its own: one that ends is too large.
    let search = ["batch-find", "--budget-mib", "100000"];
    let small = ["data.train_images=120", "data.test_images=40", "model.channels=2"];
    let tried = starved(dir.path(), &with_sets(&search, &small));
    assert!(tried.iter().all(|said| !said.stderr.contains("--resume")), "nothing is saved");
    let sets = ["train.auto_batch.budget_mib=100000", "train.epochs=1"];
    let train = with_sets(&with_sets(&["train", "--runs", "searched"], &sets), &small);
    starved(dir.path(), &train);
    for entry in fs::read_dir(dir.path().join("searched")).into_iter().flatten().flatten() {
        // A run may have ended before its first checkpoint.
        let checkpoints = entry.path().join("checkpoints");
        for path in list_checkpoints(&checkpoints).unwrap_or_default() {
            check_checkpoint(&path).expect("whole");
        }
    }
}

/// A group of processes with a limit of memory, which this system lets us make.
struct Group(PathBuf);

impl Group {
    /// The file of the limit in bytes, of version 2 and of version 1 of cgroups.
    const LIMITS: [&str; 2] = ["memory.max", "memory.limit_in_bytes"];

    fn new() -> Option<Self> {
        let own = fs::read_to_string("/proc/self/cgroup").ok()?;
        let places = own.lines().flat_map(|line| {
            let path = line.rsplit(':').next().unwrap_or_default().trim_start_matches('/');
            let mounts = ["/sys/fs/cgroup", "/sys/fs/cgroup/memory"].map(Path::new);
            mounts.into_iter().flat_map(move |mount| [mount.join(path), mount.to_owned()])
        });
        let name = format!("updraft-test-{}", std::process::id());
        places.filter_map(|place| Self::at(place.join(&name))).next()
    }

    /// A group in which a process was limited, or nothing.
    fn at(folder: PathBuf) -> Option<Self> {
        fs::create_dir(&folder).ok()?;
        let group = Self(folder);
        let works = group.limit(1 << 30) && group.command("true").status().ok()?.success();
        works.then_some(group)
    }

    fn limit(&self, bytes: u64) -> bool {
        Self::LIMITS.iter().any(|file| {
            let path = self.0.join(file);
            path.is_file() && fs::write(path, bytes.to_string()).is_ok()
        })
    }

    /// A program that joins the group before it starts.
    fn command(&self, program: &str) -> Command {
        let mut command = Command::new("sh");
        let join = "echo $$ >\"$1/cgroup.procs\" || exit 97; shift; exec \"$@\"";
        command.args(["-c", join, "sh"]).arg(&self.0).arg(program);
        command
    }

    /// Runs the binary in the group with a limit of so many MiB.
    fn limited(&self, dir: &Path, mib: u64, arguments: &[&str]) -> Said {
        assert!(self.limit(mib << 20), "{}: no limit of {mib} MiB", self.0.display());
        let mut command = self.command(env!("CARGO_BIN_EXE_updraft"));
        command.args(arguments).current_dir(dir).env("RAYON_NUM_THREADS", "2");
        said(command.output().expect("a shell"))
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // Only an empty group goes: the processes in it have ended.
        let _ = fs::remove_dir(&self.0);
    }
}

#[test]
fn a_run_that_the_limit_of_its_group_kills_is_whole_and_resumes_without_the_limit() {
    let Some(group) = Group::new() else {
        println!("SKIPPED: this system lets us make no cgroup with a limit of memory");
        return;
    };
    let dir = tempfile::tempdir().expect("temporary folder");
    let sets = ["model.channels=24", "train.checkpoint_every_steps=4", "train.keep_checkpoints=9"];
    let run = succeed(dir.path(), &with_sets(&tiny(&[]), &sets)).run_folder();
    let name = run.to_str().expect("text");
    // There is something left to train.
    for step in [6, 8, 12] {
        let path = dir.path().join(&run).join(format!("checkpoints/step-{step:08}"));
        fs::remove_dir_all(path).expect("removed");
    }
    fs::remove_file(dir.path().join(&run).join("summary.json")).expect("removed");
    image::RgbImage::new(2000, 2000).save(dir.path().join("a.png")).expect("written");
    let mut killed = 0;
    for arguments in [
        &["train", "--resume", name][..],
        &["quantize", name],
        &["eval", name],
        &["predict", name, "a.png"],
    ] {
        for mib in [6, 9, 12, 16, 24] {
            let said = group.limited(dir.path(), mib, arguments);
            let text = format!("{arguments:?} {mib}: {}{}", said.stdout, said.stderr);
            // The system ends a process of such a group: it cannot say anything itself.
            killed += u32::from(said.code == -1);
            let is_told = said.stderr.lines().any(|line| line.starts_with("error: "));
            assert!(said.code <= 0 || said.code <= 2 && is_told, "{}: {text}", said.code);
            assert!(!said.stderr.contains("panicked"), "{text}");
            for path in list_checkpoints(&dir.path().join(&run).join("checkpoints")).expect("them")
            {
                check_checkpoint(&path).expect("whole");
            }
        }
    }
    assert!(killed > 0, "no limit was small enough");
    succeed(dir.path(), &["train", "--resume", name]);
    succeed(dir.path(), &["eval", name]);
}
