//! Checkpoints of a run that were lost, or that cannot be written.

use std::fs;

use crate::command::{run, succeed, tiny};

#[test]
fn a_newest_checkpoint_that_was_lost_is_named_instead_of_passed_over() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let folder = succeed(dir.path(), &tiny(&[])).run_folder();
    let (name, path) = (folder.to_str().expect("text"), dir.path().join(&folder));
    image::RgbImage::new(4, 4).save(dir.path().join("a.png")).expect("written");
    let refused = |what: &str| {
        let commands =
            [&["eval", name][..], &["predict", name, "a.png"], &["train", "--resume", name]];
        for arguments in commands {
            let said = run(dir.path(), arguments);
            let shown = format!("{what}, {arguments:?}: {}", said.stderr);
            assert_eq!((said.code, said.stdout.as_str()), (2, ""), "{shown}");
            for words in ["step-00000012/manifest.json` is not there", "`--checkpoint 6`"] {
                assert!(said.stderr.contains(words), "`{words}` is missing: {shown}");
            }
        }
    };
    let newest = path.join("checkpoints/step-00000012");
    fs::remove_file(newest.join("manifest.json")).expect("removed");
    refused("without its manifest");
    fs::remove_dir_all(&newest).expect("removed");
    refused("without its folder");
    // A run that was killed has no summary.
    fs::remove_file(path.join("summary.json")).expect("removed");
    fs::create_dir(&newest).expect("made");
    refused("without a summary");

    succeed(dir.path(), &["eval", name, "--checkpoint", "6"]);
    succeed(dir.path(), &["train", "--resume", name, "--checkpoint", "6"]);
    assert!(path.join("checkpoints/set-aside-step-00000012").is_dir());
    assert!(newest.join("manifest.json").is_file());
    succeed(dir.path(), &["eval", name]);
}

#[cfg(unix)]
#[test]
fn a_limit_on_the_size_of_files_is_an_error_and_leaves_no_partial_checkpoint() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let mut command = std::process::Command::new("sh");
    // In blocks of 512 or 1024 bytes: enough for all but a checkpoint.
    command.args(["-c", "ulimit -f 100; exec \"$@\"", "sh", env!("CARGO_BIN_EXE_updraft")]);
    command.args(tiny(&["--set", "model.channels=24"])).current_dir(dir.path());
    let said = crate::command::said(command.output().expect("a shell"));
    assert_eq!(said.code, 1, "{}", said.stderr);
    assert!(
        said.stderr.contains("error: ") && said.stderr.contains("too large"),
        "{}",
        said.stderr
    );
    let mut runs = fs::read_dir(dir.path().join("runs")).expect("a folder").flatten();
    let checkpoints = runs.next().expect("a run").path().join("checkpoints");
    let left: Vec<_> = fs::read_dir(checkpoints).expect("a folder").flatten().collect();
    assert!(left.is_empty(), "{left:?}");
}
