//! Pipes where a file of a run or of a study is expected.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::command::{Said, TASKS, said, succeed, tiny, updraft};
use crate::tune::CONFIG;

fn pipe(path: &Path) {
    let _ = fs::remove_file(path);
    assert!(Command::new("mkfifo").arg(path).status().expect("mkfifo runs").success());
}

/// Runs the program, which must not wait for the pipe.
fn run(dir: &Path, arguments: &[&str]) -> Said {
    let mut command = updraft(dir, arguments);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the binary starts");
    let began = Instant::now();
    while child.try_wait().expect("a process").is_none() {
        if began.elapsed() > Duration::from_secs(240) {
            child.kill().expect("killed");
            panic!("{arguments:?} waits for a pipe");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    said(child.wait_with_output().expect("it ended"))
}

#[test]
#[cfg(target_os = "linux")]
fn a_pipe_as_the_list_of_batch_sizes_is_replaced() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let list = dir.path().join("runs/batch-sizes.json");
    fs::create_dir(dir.path().join("runs")).expect("made");
    pipe(&list);
    let sets = ["train.batch=auto", "train.auto_batch={least=2,most=2,budget_mib=9999}"];
    let sets = sets.iter().flat_map(|set| ["--set", *set]).collect::<Vec<_>>();
    let trained = run(dir.path(), &tiny(&sets));
    assert_eq!(trained.code, 0, "{}", trained.stderr);
    assert!(list.is_file());
}

#[test]
fn pipes_as_files_of_a_division_and_of_a_study_are_refused() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let folder = succeed(dir.path(), &tiny(&["--set", "train.epochs=1"])).run_folder();
    let name = folder.to_str().expect("text");
    pipe(&dir.path().join(&folder).join("calibration.json"));
    let refused = run(dir.path(), &["quantize", name]);
    assert_eq!(refused.code, 2, "{}", refused.stderr);
    assert!(refused.stderr.contains("it is not a regular file"), "{}", refused.stderr);

    fs::write(dir.path().join("c.toml"), CONFIG).expect("written");
    fs::create_dir(dir.path().join("s")).expect("made");
    pipe(&dir.path().join("s/journal.jsonl"));
    for more in [&[][..], &["--dry-run"]] {
        let arguments = [&["tune", "c.toml", "--study", "s"][..], more].concat();
        let refused = run(dir.path(), &arguments);
        assert_eq!(refused.code, 2, "{}", refused.stderr);
        assert!(refused.stderr.contains("it is not a regular file"), "{}", refused.stderr);
    }
}

#[test]
fn a_prediction_replaces_no_pipe_and_no_link_without_a_file() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let trained = TASKS[1].succeed(dir.path(), "train", &["train.epochs=1"]).run_folder();
    let name = trained.to_str().expect("text");
    fs::write(dir.path().join("t.csv"), "x\n1\n").expect("written");
    pipe(&dir.path().join("pipe.csv"));
    std::os::unix::fs::symlink("gone.csv", dir.path().join("dangling.csv")).expect("a link");
    std::os::unix::fs::symlink("loop.csv", dir.path().join("loop.csv")).expect("a link");
    for (out, words) in [
        ("pipe.csv", "`pipe.csv` is not a regular file, and would be replaced by a file"),
        ("dangling.csv", "`dangling.csv` is a link to a missing file, and would be replaced"),
        ("loop.csv", "`loop.csv` is a link that cannot be followed, and would be replaced"),
    ] {
        for more in [&[][..], &["--dry-run"]] {
            let refused =
                run(dir.path(), &[&["predict", name, "t.csv", "--out", out][..], more].concat());
            assert_eq!(refused.code, 2, "{}", refused.stderr);
            assert!(refused.stderr.contains(words), "{}", refused.stderr);
        }
        let left = fs::symlink_metadata(dir.path().join(out)).expect("it is there");
        assert!(!left.is_file(), "`{out}` was replaced");
    }
}

#[test]
fn a_dry_run_says_that_a_page_that_is_a_pipe_needs_a_reader() {
    let dir = tempfile::tempdir().expect("temporary folder");
    pipe(&dir.path().join("page.html"));
    let said = run(dir.path(), &["lr-find", "--page", "page.html", "--dry-run"]);
    assert_eq!(said.code, 0, "{}", said.stderr);
    let words = "would write  page.html, a pipe, if a process reads it";
    assert!(said.stdout.contains(words), "{}", said.stdout);
}

#[test]
fn links_that_form_a_loop_are_named() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let folder = succeed(dir.path(), &tiny(&["--set", "train.epochs=1"])).run_folder();
    std::os::unix::fs::symlink("b.png", dir.path().join("a.png")).expect("a link");
    std::os::unix::fs::symlink("a.png", dir.path().join("b.png")).expect("a link");
    let refused = run(dir.path(), &["predict", folder.to_str().expect("text"), "a.png"]);
    assert_eq!(refused.code, 2, "{}", refused.stderr);
    let words = "cannot read `a.png`: its symbolic links form a loop; name the file itself";
    assert!(refused.stderr.contains(words), "{}", refused.stderr);

    // A run, a config, a profile, what a config inherits from, and the files of data.
    std::os::unix::fs::symlink("d.toml", dir.path().join("c.toml")).expect("a link");
    std::os::unix::fs::symlink("c.toml", dir.path().join("d.toml")).expect("a link");
    fs::write(dir.path().join("e.toml"), "inherit = \"c.toml\"\n").expect("written");
    let rows = "task = \"tables\"\n[data]\nsource = \"files\"\nfiles = [\"a.png\"]\n\
                [targets]\ny = { kind = \"number\" }\n[model]\nkind = \"mlp\"\n";
    fs::write(dir.path().join("rows.toml"), rows).expect("written");
    for (arguments, of) in [
        (&["eval", "a.png"][..], "`a.png`: its symbolic"),
        (&["train", "--resume", "a.png"], "`a.png`: its symbolic"),
        (&["report", "a.png"], "`a.png`: its symbolic"),
        (&["train", "c.toml"], "`c.toml`: its symbolic"),
        (&["train", "e.toml"], "inherits from `c.toml`, which cannot be read: its symbolic"),
        (&["train", "--profile", "c.toml"], "no profile `c.toml`: its symbolic"),
        (&["train", "rows.toml", "--data", "."], "a.png`: its symbolic"),
        (&["train", "rows.toml", "--data", "a.png"], "a.png/a.png`: its symbolic"),
    ] {
        let refused = run(dir.path(), arguments);
        assert_eq!(refused.code, 2, "{arguments:?}: {}", refused.stderr);
        let words = format!("{of} links form a loop; name the file itself");
        assert!(refused.stderr.contains(&words), "{arguments:?}: {}", refused.stderr);
    }
}

/// The search would take hours.
#[test]
fn a_page_that_is_a_pipe_without_a_reader_is_refused_before_the_search() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let page = dir.path().join("page");
    pipe(&page);
    let small = ["--set", "data.train_images=40", "--set", "data.test_images=20"];
    let find = |steps| [&["lr-find", "--page", "page", "--steps", steps][..], &small].concat();
    let refused = run(dir.path(), &find("1000000"));
    assert_eq!(refused.code, 1, "{}", refused.stderr);
    let words = "cannot write `page`: no process reads this pipe; start its reader first";
    assert!(refused.stderr.contains(words), "{}", refused.stderr);
    let reader = std::thread::spawn(move || fs::read_to_string(page).expect("a page"));
    let found = run(dir.path(), &find("20"));
    assert!(!found.stderr.contains("cannot write"), "{}", found.stderr);
    assert!(reader.join().expect("it ended").contains("Loss over the learning rate"));
}
