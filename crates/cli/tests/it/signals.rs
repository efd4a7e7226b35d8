//! Signals: the first requests a stop, the second SIGINT or SIGTERM ends the process.

use std::fs;
use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::command::{Said, metrics, said, succeed, tiny, updraft, with_sets};
use crate::resume::wait_for_step;

const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) fn start(dir: &Path, arguments: &[&str]) -> Child {
    let mut command = updraft(dir, arguments);
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the binary starts")
}

pub(crate) fn signal(child: &Child, name: &str) {
    let sent = Command::new("kill").args([name, &child.id().to_string()]).status();
    assert!(sent.expect("kill runs").success());
}

/// The output of a process that has ended.
pub(crate) fn ended(mut child: Child) -> Said {
    let deadline = Instant::now() + PATIENCE;
    while child.try_wait().expect("a child").is_none() {
        assert!(Instant::now() < deadline, "the process did not end");
        std::thread::sleep(Duration::from_millis(20));
    }
    said(child.wait_with_output().expect("output"))
}

/// Signals a process once it has printed a word; returns its further output.
pub(crate) fn terminate_at(word: &str, child: &mut Child) -> String {
    let mut heard = Vec::new();
    let mut output = child.stderr.take().expect("piped");
    while !heard.ends_with(word.as_bytes()) {
        let mut byte = [0];
        output.read_exact(&mut byte).expect("it says what it does");
        heard.extend(byte);
    }
    signal(child, "-TERM");
    let mut rest = String::new();
    output.read_to_string(&mut rest).expect("its last words");
    rest
}

/// The run in the command that a stopped process prints.
fn resumable(said: &Said) -> &str {
    assert_eq!(said.code, 0, "{}", said.stderr);
    let line = said.stderr.lines().last().expect("a last line");
    line.split("updraft train --resume ").nth(1).expect("a way to resume")
}

pub(crate) fn wait_for(what: &str, is_there: impl Fn() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is_there() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn runs(dir: &Path) -> Vec<std::path::PathBuf> {
    let entries = fs::read_dir(dir.join("runs")).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).collect()
}

#[test]
fn an_interrupt_saves_then_says_how_to_resume() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let child = start(dir.path(), &tiny(&["--set", "train.epochs=100000"]));
    wait_for("no metrics were written", || {
        runs(dir.path())
            .iter()
            .any(|run| fs::metadata(run.join("metrics.jsonl")).is_ok_and(|file| file.len() > 0))
    });
    signal(&child, "-INT");
    let said = ended(child);
    let resume = resumable(&said);
    let run = dir.path().join(resume);
    assert!(run.join("plan.toml").is_file(), "{resume}");
    let before = metrics(&run).len();
    // Fewer epochs, so that the resumed run ends.
    let plan = fs::read_to_string(run.join("plan.toml")).expect("plan");
    let step = metrics(&run).last().expect("a line")["step"].as_u64().expect("a step");
    let plan = plan.replace("epochs = 100000", &format!("epochs = {}", step / 6 + 2));
    fs::write(run.join("plan.toml"), plan).expect("written");
    succeed(dir.path(), &["train", "--resume", resume]);
    assert!(metrics(&run).len() > before);
}

#[test]
fn a_signal_of_a_batch_scheduler_saves_also_if_it_is_repeated() {
    let names = ["-USR1", "-USR2", "-XCPU"];
    let started = names.map(|_| {
        let dir = tempfile::tempdir().expect("temporary folder");
        let child = start(dir.path(), &tiny(&["--set", "train.epochs=100000"]));
        (dir, child)
    });
    for ((dir, child), name) in started.into_iter().zip(names) {
        wait_for_step(dir.path(), 1);
        // The last one is that of the end of a job.
        for name in [name, name, name, "-TERM"] {
            // It may have ended after the first one, and is not waited for yet.
            signal(&child, name);
        }
        let said = ended(child);
        let run = dir.path().join(resumable(&said));
        let saved = updraft_trainer::list_checkpoints(&run.join("checkpoints")).expect("listed");
        assert!(!saved.is_empty(), "{name}");
    }
}

#[test]
fn a_termination_while_test_images_are_scored_saves_and_the_run_resumes() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let slow = ["--set", "data.test_images=20000", "--set", "train.epochs=3"];
    let child = start(dir.path(), &tiny(&slow));
    wait_for_step(dir.path(), 6);
    // The second epoch's steps take less than its scoring by far.
    std::thread::sleep(Duration::from_millis(500));
    signal(&child, "-TERM");
    let said = ended(child);
    let resume = resumable(&said);
    let run = dir.path().join(resume);
    let scored = metrics(&run).iter().filter(|line| line["event"] == "epoch").count();
    assert!(scored < 3, "the run ended before it was stopped");
    succeed(dir.path(), &["train", "--resume", resume]);
    let epochs = metrics(&run).iter().filter(|line| line["event"] == "epoch").count();
    assert_eq!(epochs, 3);
}

#[test]
fn a_second_interrupt_ends_the_process_in_the_middle_of_a_step() {
    let dir = tempfile::tempdir().expect("temporary folder");
    // One update of a thousand batches.
    let long = ["--set", "data.train_images=20000", "--set", "train.accumulate=1000"];
    let child = start(dir.path(), &tiny(&long));
    let has_begun = || runs(dir.path()).iter().any(|run| run.join("metrics.jsonl").exists());
    wait_for("no run was begun", has_begun);
    std::thread::sleep(Duration::from_millis(300));
    signal(&child, "-INT");
    std::thread::sleep(Duration::from_millis(200));
    signal(&child, "-INT");
    let said = ended(child);
    assert_eq!(said.code, 130, "{}", said.stderr);
    let run = runs(dir.path()).pop().expect("a run");
    let saved = updraft_trainer::list_checkpoints(&run.join("checkpoints")).expect("listed");
    assert!(saved.is_empty(), "{saved:?}");
}

#[test]
fn an_interrupt_while_data_opens_ends_the_process_and_leaves_no_run() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let mut child = start(dir.path(), &tiny(&["--set", "data.train_images=5000000"]));
    let mut first = [0];
    // Its first message is about drawing images.
    child.stderr.as_mut().expect("piped").read_exact(&mut first).expect("a word");
    signal(&child, "-TERM");
    assert_eq!(ended(child).code, 130);
    assert!(!dir.path().join("runs").exists());
}

#[test]
fn a_termination_stops_the_scoring_of_a_trained_model_without_a_score() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let run = succeed(dir.path(), &tiny(&["--set", "data.test_images=40"])).run_folder();
    let plan = dir.path().join(&run).join("plan.toml");
    let text = fs::read_to_string(&plan).expect("a plan");
    fs::write(&plan, text.replace("test_images = 40", "test_images = 60000")).expect("written");
    let mut child = start(dir.path(), &["eval", run.to_str().expect("text")]);
    let rest = terminate_at("scoring", &mut child);
    let said = ended(child);
    assert_eq!((said.code, said.stdout.as_str()), (130, ""), "{rest}");
    assert!(rest.contains("stopped before all test samples were scored"), "{rest}");
}

#[test]
fn a_termination_ends_the_search_for_a_batch_size() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let mut child = start(dir.path(), &["batch-find", "--budget-mib", "100000"]);
    let rest = terminate_at("fits", &mut child);
    let said = ended(child);
    assert_eq!((said.code, said.stdout.as_str()), (130, ""), "{rest}");
    assert!(rest.contains("stopped before the batch size was found"), "{rest}");
}

fn pipe(path: &Path) {
    assert!(Command::new("mkfifo").arg(path).status().expect("mkfifo runs").success());
}

#[test]
fn the_first_termination_ends_what_waits_for_a_pipe_and_what_predicts_many_files() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let run = succeed(dir.path(), &tiny(&["--set", "train.epochs=1"])).run_folder();
    let run = run.to_str().expect("text");
    let cells = updraft_run::TASKS.iter().find(|kind| kind.name() == "image-to-image");
    fs::write(dir.path().join("cells.toml"), cells.expect("a task").trial()).expect("written");
    let arguments = ["train", "cells.toml", "--set", "train.epochs=1"];
    let images = succeed(dir.path(), &arguments).run_folder();
    let images = images.to_str().expect("text");
    pipe(&dir.path().join("pipe"));
    pipe(&dir.path().join("pipe.toml"));
    image::RgbImage::new(4, 4).save(dir.path().join("a.png")).expect("written");
    for arguments in [
        &["explain", "pipe"][..],
        &["explain", "--profile", "pipe.toml"],
        &["train", "--profile", "pipe.toml"],
        &["predict", run, "pipe"],
        &["predict", run, "a.png", "a.png", "a.png", "pipe"],
        &["predict", images, "pipe", "--out", "out.tif"],
    ] {
        let child = start(dir.path(), arguments);
        // Long enough to be there; a process that ends before waits for nothing.
        std::thread::sleep(Duration::from_millis(700));
        signal(&child, "-TERM");
        let said = ended(child);
        assert_eq!(said.code, 130, "{arguments:?}: {}", said.stderr);
    }
}

#[test]
fn a_second_process_in_a_run_folder_gets_the_first_one_s_id() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let child = start(dir.path(), &tiny(&["--set", "train.epochs=100000"]));
    let run = wait_for_step(dir.path(), 6);
    let refused =
        crate::command::run(dir.path(), &["train", "--resume", run.to_str().expect("text")]);
    assert_eq!(refused.code, 1, "{}", refused.stderr);
    let holder = format!("is in use by process {} on ", child.id());
    assert!(refused.stderr.contains(&holder), "{}", refused.stderr);
    signal(&child, "-INT");
    let said = ended(child);
    resumable(&said);
}

#[test]
fn a_run_whose_folder_is_moved_ends_with_the_reason_and_without_advice() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let child = start(dir.path(), &tiny(&["--set", "train.epochs=100000"]));
    let run = wait_for_step(dir.path(), 6);
    fs::rename(&run, dir.path().join("elsewhere")).expect("renamed");
    let said = ended(child);
    assert_eq!(said.code, 1, "{}", said.stderr);
    assert!(said.stderr.contains("was moved or removed while it trained"), "{}", said.stderr);
    assert!(!said.stderr.contains("next     "), "{}", said.stderr);
    // A run that was moved is resumed at its new place.
    let plan = dir.path().join("elsewhere/plan.toml");
    let text = fs::read_to_string(&plan).expect("a plan");
    fs::write(&plan, text.replace("epochs = 100000", "epochs = 2")).expect("written");
    succeed(dir.path(), &["eval", "elsewhere"]);
}

#[test]
fn a_pipe_in_the_place_of_a_file_of_a_run_is_refused_instead_of_waited_for() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let sets = ["train.epochs=1", "log.csv=true", "log.tensorboard=true"];
    let run = succeed(dir.path(), &with_sets(&tiny(&[]), &sets)).run_folder();
    let name = run.to_str().expect("text");
    for (file, arguments) in [
        ("classes.json", &["eval", name][..]),
        ("classes.json", &["train", "--resume", name]),
        ("metrics.jsonl", &["train", "--resume", name]),
        ("metrics.jsonl", &["report", name]),
        ("summary.json", &["report", name]),
        (".plan.toml", &["train", "--resume", name]),
        ("log.jsonl", &["train", "--resume", name]),
        ("steps.csv", &["train", "--resume", name]),
        ("tensorboard/events.out.tfevents.updraft", &["train", "--resume", name]),
    ] {
        let path = dir.path().join(&run).join(file);
        let text = fs::read(&path).expect(file);
        fs::remove_file(&path).expect("removed");
        pipe(&path);
        let said = ended(start(dir.path(), arguments));
        // A summary that cannot be read is a note on the page.
        let expected = if file == "summary.json" { 0 } else { 2 };
        assert_eq!(said.code, expected, "{arguments:?}: {}", said.stderr);
        if expected == 2 {
            let reason = format!("{file}`: it is not a regular file");
            assert!(said.stderr.contains(&reason), "{arguments:?}: {}", said.stderr);
        }
        fs::remove_file(&path).expect("removed");
        fs::write(&path, text).expect("written");
    }
    succeed(dir.path(), &["train", "--resume", name]);
}

#[test]
fn a_run_whose_metrics_are_removed_is_saved_and_one_without_its_lock_writes_nothing_more() {
    for (name, words) in [
        ("metrics.jsonl", "; when that is repaired, `train --resume` continues it"),
        (".lock", "the run ended without saving its last steps"),
    ] {
        let dir = tempfile::tempdir().expect("temporary folder");
        let child = start(dir.path(), &tiny(&["--set", "train.epochs=100000"]));
        let run = wait_for_step(dir.path(), 6);
        fs::remove_file(run.join(name)).expect("removed");
        let said = ended(child);
        assert_eq!(said.code, 1, "{name}: {}", said.stderr);
        let reason = format!("{name}` is no longer there: it was moved, removed or replaced");
        for words in [words, &reason] {
            assert!(said.stderr.contains(words), "`{words}` is missing: {}", said.stderr);
        }
        assert!(!said.stderr.contains("next     "), "{}", said.stderr);
        if name == ".lock" {
            assert!(!said.stderr.contains("stopped and saved"), "{}", said.stderr);
            let saved = updraft_trainer::list_checkpoints(&run.join("checkpoints"));
            let saved = saved.expect("listed").pop().expect("one from before");
            let trained = metrics(&run).last().expect("a line")["step"].as_u64();
            assert!(updraft_trainer::checkpoint_step(&saved) < trained, "{saved:?} {trained:?}");
        }
        succeed(dir.path(), &["eval", run.to_str().expect("text")]);
    }
}

/// The processes that measure for the command of this name, its number.
#[cfg(target_os = "linux")]
fn measuring_of(name: &str) -> Vec<String> {
    let folder = format!("updraft-performance-{name}/");
    let processes = fs::read_dir("/proc").expect("processes").flatten();
    let is_of = |path: &Path| {
        let command = fs::read_to_string(path.join("cmdline")).unwrap_or_default();
        command.contains("measure-steps") && command.contains(&folder)
    };
    let found = processes.filter(|it| is_of(&it.path()));
    found.map(|it| it.file_name().to_string_lossy().into_owned()).collect()
}

#[cfg(target_os = "linux")]
fn measuring(name: &str) -> usize {
    measuring_of(name).len()
}

#[test]
#[cfg(target_os = "linux")]
fn a_process_that_measures_ends_at_the_first_signal_and_the_command_says_so() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let arguments = ["compare-options", "--steps", "100000", "--repeats", "1"];
    let child = start(dir.path(), &arguments);
    let name = child.id().to_string();
    wait_for("nothing was measured", || measuring(&name) == 1);
    // Its handler of signals is there.
    std::thread::sleep(Duration::from_secs(2));
    let sent = Command::new("kill").args(["-TERM", &measuring_of(&name)[0]]).status();
    assert!(sent.expect("kill runs").success());
    let said = ended(child);
    assert_eq!(said.code, 1, "{}", said.stderr);
    assert!(said.stderr.contains("error: the baseline of training failed"), "{}", said.stderr);
}

#[test]
#[cfg(target_os = "linux")]
fn an_interrupted_comparison_of_options_ends_the_process_that_measures() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let arguments = ["compare-options", "--steps", "100000", "--repeats", "1"];
    let child = start(dir.path(), &arguments);
    let name = child.id().to_string();
    wait_for("nothing was measured", || measuring(&name) == 1);
    signal(&child, "-INT");
    wait_for("the process that measures goes on", || measuring(&name) == 0);
    let said = ended(child);
    assert_eq!(said.code, 130, "{}", said.stderr);
    assert!(
        said.stderr.contains("error: stopped before everything was measured"),
        "{}",
        said.stderr
    );
}

#[test]
#[cfg(target_os = "linux")]
fn a_killed_comparison_leaves_no_process_behind() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let arguments = ["compare-options", "--steps", "100000", "--repeats", "1"];
    let mut child = start(dir.path(), &arguments);
    let name = child.id().to_string();
    wait_for("nothing was measured", || measuring(&name) == 1);
    child.kill().expect("killed");
    wait_for("the process that measures goes on", || measuring(&name) == 0);
    child.wait().expect("ended");
    let _ = fs::remove_dir_all(std::env::temp_dir().join(format!("updraft-performance-{name}")));
}
