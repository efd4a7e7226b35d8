//! Commands whose standard output or error is closed before they start.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::command::{Said, metrics, said, succeed, tiny};

/// Runs the binary with descriptors closed as a shell writes it.
fn closed(dir: &Path, redirections: &str, arguments: &[&str]) -> Said {
    let mut command = Command::new("sh");
    command.args(["-c", &format!("exec \"$@\" {redirections}"), "sh"]);
    command.arg(env!("CARGO_BIN_EXE_updraft")).args(arguments).current_dir(dir);
    said(command.output().expect("a shell"))
}

/// The only run in a folder.
fn only_run(runs: &Path) -> PathBuf {
    let mut found = fs::read_dir(runs).expect("a folder of runs").flatten();
    let run = found.next().expect("a run").path();
    assert!(found.next().is_none(), "one run");
    run
}

#[test]
fn output_to_a_closed_descriptor_is_dropped_by_every_command_and_lands_in_no_file() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let train = tiny(&["--set", "train.epochs=1"]);
    let open = dir.path().join(succeed(dir.path(), &train).run_folder());
    let name = open.to_str().expect("text");
    image::RgbImage::new(8, 8).save(dir.path().join("a.png")).expect("written");
    let ways = [">&-", ">&- 2>&-", "<&- >&- 2>&-"];
    for (at, way) in ways.into_iter().enumerate() {
        let runs = format!("runs-{at}");
        let trained = [&train[..], &["--runs", &runs]].concat();
        for arguments in [
            &["explain"][..],
            &["tasks"],
            &["--help"],
            &["eval", name],
            &["eval", name, "--json"],
            &["predict", name, "a.png"],
            &trained,
        ] {
            let said = closed(dir.path(), way, arguments);
            assert_eq!((said.code, &*said.stdout), (0, ""), "{arguments:?} {way}: {}", said.stderr);
            assert!(!said.stderr.contains("error"), "{arguments:?} {way}: {}", said.stderr);
        }
        // No file of the run was opened as standard output.
        let run = only_run(&dir.path().join(&runs));
        assert_eq!(metrics(&run), metrics(&open), "{way}");
        assert_eq!(
            fs::read(run.join("plan.toml")).expect("a plan"),
            fs::read(open.join("plan.toml")).expect("a plan")
        );
    }
    // An error keeps its exit code.
    assert_eq!(closed(dir.path(), ">&-", &["eval", "none"]).code, 2);
}
