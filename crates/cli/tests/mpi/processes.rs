//! Processes of the program: alone, by `mpirun`, by `launch`; and what a run has written.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use updraft_trainer::{checkpoint_contents, list_checkpoints};

/// The settings of a run of some hundred steps.
pub(crate) const SMALL: [&str; 5] = [
    "data.train_images=640",
    "data.test_images=50",
    "train.epochs=6",
    "train.batch=16",
    "train.checkpoint_every_steps=10",
];

/// A command without a launcher.
pub(crate) fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_updraft"));
    command.args(arguments).env("RAYON_NUM_THREADS", "1");
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Starts a command without a launcher.
pub(crate) fn updraft(arguments: &[&str]) -> Child {
    command(arguments).spawn().unwrap()
}

pub(crate) fn mpirun(arguments: &[&str]) -> Child {
    mpirun_of(2, arguments)
}

pub(crate) fn mpirun_of(ranks: usize, arguments: &[&str]) -> Child {
    let words = mpirun_words(ranks);
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]).arg(env!("CARGO_BIN_EXE_updraft")).args(arguments);
    as_rank(&mut command).spawn().expect("mpirun has to be installed for this test")
}

/// `mpirun` with its options.
pub(crate) fn mpirun_words(ranks: usize) -> Vec<String> {
    let ranks = ranks.to_string();
    let words = ["mpirun", "-n", &ranks, "--oversubscribe", "--bind-to", "none", "--mca"];
    words
        .into_iter()
        .chain(["btl_vader_single_copy_mechanism", "none"])
        .map(str::to_owned)
        .collect()
}

/// With the environment and the pipes of ranks.
pub(crate) fn as_rank(command: &mut Command) -> &mut Command {
    command
        .envs([("OMPI_ALLOW_RUN_AS_ROOT", "1"), ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")])
        .env("RAYON_NUM_THREADS", "1")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
}

/// Starts two ranks of `train`, in a process group of their own as a shell does.
pub(crate) fn launch(runs: &Path, options: &[&str], sets: &[&str]) -> Child {
    let mut arguments = vec!["train", "--runs", runs.to_str().unwrap()];
    arguments.extend(SMALL.iter().chain(sets).flat_map(|set| ["--set", set]));
    launcher(options, &arguments)
}

/// Starts two ranks of a command by `launch`.
pub(crate) fn launcher(options: &[&str], arguments: &[&str]) -> Child {
    let arguments = [&["launch", "-n", "2"], options, &["--"], arguments].concat();
    Command::new(env!("CARGO_BIN_EXE_updraft"))
        .args(arguments)
        .env("RAYON_NUM_THREADS", "1")
        .process_group(0)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

pub(crate) fn finished(child: Child) -> String {
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{text}");
    text
}

pub(crate) fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let started = Instant::now();
    while !is_so() {
        assert!(started.elapsed() < Duration::from_secs(120), "{what} does not come");
        std::thread::sleep(Duration::from_millis(2));
    }
}

pub(crate) fn run_of(runs: &Path) -> Option<PathBuf> {
    let mut folders = fs::read_dir(runs).unwrap().map(|entry| entry.unwrap().path());
    let first = folders.next();
    assert!(folders.next().is_none(), "one run folder");
    first
}

pub(crate) fn steps(runs: &Path) -> usize {
    let metrics = run_of(runs).map(|run| run.join("metrics.jsonl"));
    let text = metrics.and_then(|path| fs::read_to_string(path).ok()).unwrap_or_default();
    text.matches("\"event\":\"step\"").count()
}

/// Every part of the newest checkpoint.
pub(crate) fn weights(runs: &Path) -> BTreeMap<String, String> {
    let run = run_of(runs).unwrap();
    let newest = list_checkpoints(&run.join("checkpoints")).unwrap().pop().unwrap();
    checkpoint_contents(&newest).unwrap()
}

/// Kills the process that is rank 1 of a run in this folder.
pub(crate) fn kill_rank_1(runs: &Path) {
    signal_rank_1(runs, "-9");
}

pub(crate) fn signal_rank_1(runs: &Path, signal: &str) {
    let id = rank_1(runs).expect("rank 1 runs").to_string();
    assert!(Command::new("kill").args([signal, &id]).status().unwrap().success());
}

pub(crate) fn is_rank_1_running(runs: &Path) -> bool {
    rank_1(runs).is_some()
}

/// The process that is rank 1 of a run in this folder.
fn rank_1(runs: &Path) -> Option<u32> {
    let has = |path: PathBuf, text: &str| {
        fs::read(path).is_ok_and(|bytes| String::from_utf8_lossy(&bytes).contains(text))
    };
    let folder = runs.to_str().unwrap();
    let processes = fs::read_dir("/proc").unwrap().map(|entry| entry.unwrap().path());
    let mut rank = processes.filter(|process| {
        has(process.join("environ"), "OMPI_COMM_WORLD_RANK=1")
            && has(process.join("cmdline"), folder)
    });
    rank.next()?.file_name()?.to_str()?.parse().ok()
}
