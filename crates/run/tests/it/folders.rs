//! Run folders: created, opened, and refused if they are not complete.

use std::fs;

use serde_json::json;
use updraft_run::{RunError, RunFolder, RunSchema, TASKS, read_metrics};

use crate::plans::read;

#[test]
fn two_runs_of_one_second_have_folders_of_their_own() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let plan = read("name = \"twice\"").expect("valid");
    let runs = dir.path().join("not/there/yet");
    let made: Vec<RunFolder> =
        (0..3).map(|_| RunFolder::create(&runs, &plan).expect("made")).collect();
    for folder in &made {
        let name = folder.path().file_name().expect("a name").to_string_lossy().into_owned();
        assert!(name.contains("-twice"), "{name}");
        assert_eq!(folder.plan(TASKS).expect("its plan").table(), plan.table());
    }
    assert!(made[0].path() != made[1].path() && made[1].path() != made[2].path());
}

#[test]
fn a_folder_that_cannot_be_made_is_an_error_of_the_system() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let file = dir.path().join("file");
    fs::write(&file, "").expect("written");
    let error = RunFolder::create(&file, &read("").expect("valid")).expect_err("a file");
    assert!(matches!(error, RunError::Io { action: "create", .. }), "{error}");
    assert!(!error.is_input());
}

#[test]
fn a_folder_without_a_plan_is_no_run() {
    let dir = tempfile::tempdir().expect("temporary folder");
    for path in [dir.path().to_owned(), dir.path().join("gone")] {
        let error = RunFolder::open(&path).expect_err("no run");
        assert!(matches!(error, RunError::NoRun { .. }) && error.is_input());
        assert!(error.to_string().contains(&path.display().to_string()), "{error}");
    }
}

#[test]
fn a_plan_that_is_damaged_names_its_file_and_the_cause() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let folder = RunFolder::create(dir.path(), &read("").expect("valid")).expect("made");
    for (text, cause) in [
        ("seed = ", "line 1: "),
        ("\nepochs = 3", "line 2: unknown key `epochs`"),
        ("task = \"chess\"", "`task` is \"chess\""),
        ("train.epochs = 0", "`train.epochs` is 0"),
    ] {
        folder.write("plan.toml", text.as_bytes()).expect("written");
        let error = folder.plan(TASKS).expect_err(text);
        assert!(matches!(error, RunError::Plan { .. }) && error.is_input());
        let message = error.to_string();
        assert!(message.contains("is not a plan of this build"), "{message}");
        assert!(message.contains(cause), "{message}");
        assert_eq!(message.matches("plan.toml").count(), 1, "{message}");
    }
}

#[test]
fn files_that_are_missing_or_damaged_are_named() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let plan = read("train.early_stop = { patience = 1 }").expect("valid");
    let folder = RunFolder::create(dir.path(), &plan).expect("made");
    let error = folder.newest_checkpoint().expect_err("none yet");
    assert!(matches!(error, RunError::NoCheckpoint { .. }), "{error}");
    assert!(matches!(folder.served_checkpoint(&plan), Err(RunError::NoCheckpoint { .. })));
    assert!(matches!(folder.read("gone"), Err(RunError::Io { action: "read", .. })));
    assert!(matches!(RunSchema::read(&folder), Err(RunError::Io { .. })));
    assert!(folder.pictures().expect("none").is_empty());
    assert!(read_metrics(&folder).expect("none").lines.is_empty());

    folder.write_json("numbers.json", &[1, 2, 3]).expect("written");
    assert!(folder.has("numbers.json") && !folder.has("numbers.json.part"));
    assert_eq!(folder.read_json::<Vec<u32>>("numbers.json").expect("read"), [1, 2, 3]);
    folder.write("numbers.json", b"[1, 2").expect("written");
    let error = folder.read_json::<Vec<u32>>("numbers.json").expect_err("cut off");
    assert!(matches!(error, RunError::Json { .. }) && error.is_input());
    assert!(error.to_string().contains("numbers.json"), "{error}");
    folder.write("pictures.json", b"{}").expect("written");
    assert!(matches!(folder.pictures(), Err(RunError::Json { .. })));
    folder.write("run.json", b"{}").expect("written");
    assert!(matches!(RunSchema::read(&folder), Err(RunError::Json { .. })));
}

#[test]
fn a_checkpoint_that_a_run_wrote_and_that_is_gone_is_named() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let plan = read("train.early_stop = { patience = 1 }").expect("valid");
    let folder = RunFolder::create(dir.path(), &plan).expect("made");
    let checkpoint = |step: u64| folder.path().join(format!("checkpoints/step-{step:08}"));
    let write = |step: u64| {
        fs::create_dir_all(checkpoint(step)).expect("made");
        fs::write(checkpoint(step).join("manifest.json"), "{}").expect("written");
    };
    let summary = json!({ "steps": 8, "checkpoint": "checkpoints/step-00000004" });
    folder.write_json("summary.json", &summary).expect("written");
    let error = folder.newest_checkpoint().expect_err("all are gone");
    assert!(matches!(error, RunError::LostCheckpoints { step: 8, .. }), "{error}");
    assert!(error.is_input());

    write(8);
    assert_eq!(folder.newest_checkpoint().expect("it is there"), checkpoint(8));
    let error = folder.served_checkpoint(&plan).expect_err("the best is gone");
    assert!(error.is_input() && error.to_string().contains("step-00000004/manifest.json"));

    write(4);
    fs::remove_dir_all(checkpoint(8)).expect("removed");
    let error = folder.newest_checkpoint().expect_err("the newest is gone");
    assert!(error.is_input() && error.to_string().contains("step-00000008/manifest.json"));

    // A run that continues from an earlier step has no later one to lose.
    let cut_back = folder.clone().with_checkpoint(Some(4)).expect("it is there");
    cut_back.set_aside().expect("there is none");
    assert_eq!(folder.newest_checkpoint().expect("it is there"), checkpoint(4));
    fs::create_dir(checkpoint(6)).expect("made");
    let error = folder.newest_checkpoint().expect_err("without a manifest");
    assert!(error.to_string().contains("step-00000006/manifest.json"), "{error}");
    assert_eq!(cut_back.set_aside().expect("renamed"), 1);
    assert_eq!(folder.newest_checkpoint().expect("it is there"), checkpoint(4));
}

#[test]
fn a_schema_of_another_version_is_refused_whatever_else_it_has() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let folder = RunFolder::create(dir.path(), &read("").expect("valid")).expect("made");
    folder.write("run.json", b"{ \"version\": 9, \"columns\": [] }").expect("written");
    let error = RunSchema::read(&folder).expect_err("version 9");
    assert!(
        error.to_string().contains("run.json` has version 9; this build reads version 1"),
        "{error}"
    );
}

#[test]
fn a_line_of_metrics_that_was_cut_off_is_left_out() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let folder = RunFolder::create(dir.path(), &read("").expect("valid")).expect("made");
    folder
        .write("metrics.jsonl", b"{\"event\":\"step\",\"step\":0}\n{\"event\":\"st")
        .expect("written");
    assert_eq!(read_metrics(&folder).expect("read").lines.len(), 1);
}

#[test]
fn damaged_lines_of_metrics_are_left_out_and_counted() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let folder = RunFolder::create(dir.path(), &read("").expect("valid")).expect("made");
    let text = b"{\"step\":0}\n{\"st\xff\":1}\nnot JSON\n{\"step\":2}\n{\"st";
    folder.write("metrics.jsonl", text).expect("written");
    let recorded = read_metrics(&folder).expect("read");
    assert_eq!((recorded.lines.len(), recorded.damaged.as_slice()), (2, &[2, 3][..]));
    let said = recorded.damage().expect("two are damaged");
    assert!(said.contains("2 damaged lines") && said.contains("from line 2 on"), "{said}");
}

#[test]
fn a_plan_that_became_that_of_another_model_is_refused_by_its_key() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let folder = RunFolder::create(dir.path(), &read("").expect("valid")).expect("made");
    for (text, key) in [
        ("model.brightness = \"bt601\"", "`model.brightness`"),
        ("model.channels = 8", "`model.channels`"),
        ("precision = \"bf16-mixed\"", "`precision`"),
        ("data.height = 64", "`data.height`"),
        ("seed = 2", "`seed`"),
    ] {
        let error = folder.refuse_other_model(&read(text).expect("valid")).expect_err(text);
        assert!(matches!(error, RunError::Edited { .. }) && error.is_input(), "{error}");
        assert!(error.to_string().contains(key), "{error}");
    }
    for text in ["train.learning_rate = 0.1", "model.dropout = 0.3", "train.accumulate = 2"] {
        let plan = read(text).expect("valid");
        folder.refuse_other_model(&plan).expect("reported, not refused");
        assert_eq!(folder.edits(&plan).expect("read").len(), 1, "{text}");
    }
}

#[test]
fn a_place_that_is_tried_is_left_as_it_was() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let plan = read("").expect("valid");
    RunFolder::try_place(&dir.path().join("a/b"), &plan).expect("it can be made");
    assert!(!dir.path().join("a").exists());
    fs::write(dir.path().join("file"), "").expect("written");
    let error = RunFolder::try_place(&dir.path().join("file"), &plan).expect_err("a file");
    assert!(error.to_string().contains("cannot create run folders in `"), "{error}");
}
