//! A stopped run resumes exactly.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::command::{metrics, succeed, tiny};

fn last_model(run: &Path) -> Vec<(String, Vec<u8>)> {
    let newest = fs::read_dir(run.join("checkpoints"))
        .expect("checkpoints")
        .map(|entry| entry.expect("entry").path())
        .max()
        .expect("one checkpoint");
    crate::determinism::tensors(&newest.join("model.bpk"))
}

#[test]
fn a_run_cut_back_to_an_earlier_checkpoint_ends_bit_for_bit_the_same() {
    let dir = tempfile::tempdir().expect("temporary folder");
    // The scale grows by a third every other step: it is no power of two, and steps overflow.
    let scaled = "train.loss_scale={kind=\"dynamic\", initial=1.6e7, growth=1.33, interval=2}";
    let f16 = ["--set", "precision=f16-mixed", "--set", scaled];
    for precision in [&[][..], &f16] {
        let mut more = vec!["--set", "train.checkpoint_every_steps=4"];
        more.extend(["--set", "train.keep_checkpoints=9"]);
        more.extend(precision);
        let run = dir.path().join(succeed(dir.path(), &tiny(&more)).run_folder());
        let (unbroken, model) = (metrics(&run), last_model(&run));
        // What a kill after step 9 leaves: newer checkpoints absent, newer metrics present, no
        // summary.
        for step in [6, 8, 12] {
            fs::remove_dir_all(run.join(format!("checkpoints/step-{step:08}"))).expect("removed");
        }
        fs::remove_file(run.join("summary.json")).expect("removed");
        succeed(dir.path(), &["train", "--resume", run.to_str().expect("text")]);
        assert_eq!(unbroken, metrics(&run));
        assert!(model == last_model(&run), "the resumed weights differ: {precision:?}");
    }
}

#[test]
fn another_batch_within_an_epoch_is_refused_by_its_key() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let more = ["--set", "train.checkpoint_every_steps=4", "--set", "train.keep_checkpoints=9"];
    let run = succeed(dir.path(), &tiny(&more)).run_folder();
    let plan = dir.path().join(&run).join("plan.toml");
    let text = fs::read_to_string(&plan).expect("a plan");
    fs::write(&plan, text.replace("batch = 20\n", "batch = 24\n")).expect("written");
    let name = run.to_str().expect("text");
    let resume = |step: &str| {
        crate::command::run(dir.path(), &["train", "--resume", name, "--checkpoint", step])
    };
    // An epoch has six steps.
    let said = resume("4");
    assert_eq!(said.code, 2, "{}", said.stderr);
    let expected = format!(
        "`train.batch` is 24; the checkpoint is from within an epoch of batches of 20: set it \
         back in `{name}/plan.toml`, or resume at the end of an epoch with --checkpoint STEP"
    );
    assert!(said.stderr.contains(&expected), "{}", said.stderr);
    let said = resume("6");
    assert_eq!(said.code, 0, "{}", said.stderr);
    assert!(said.stderr.contains("`train.batch` is 24; the run began with 20"), "{}", said.stderr);
}

/// The only run in `dir`, once it has a checkpoint of at least this step.
#[cfg(unix)]
pub(crate) fn wait_for_step(dir: &Path, step: u64) -> std::path::PathBuf {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let runs = fs::read_dir(dir.join("runs")).into_iter().flatten().flatten();
        for run in runs.map(|entry| entry.path()) {
            let found = updraft_trainer::list_checkpoints(&run.join("checkpoints"));
            let newest = found.ok().and_then(|mut found| found.pop());
            let name = newest.and_then(|path| Some(path.file_name()?.to_str()?.to_owned()));
            let reached = name.and_then(|name| name.split('-').nth(1)?[..8].parse::<u64>().ok());
            if reached.is_some_and(|reached| reached >= step) {
                return run;
            }
        }
        assert!(Instant::now() < deadline, "no checkpoint of step {step} was written");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// The rows of `endure --json`.
fn endured(arguments: &[&str]) -> Vec<serde_json::Value> {
    let dir = tempfile::tempdir().expect("temporary folder");
    let said = succeed(dir.path(), &[&["endure", "--json"], arguments].concat());
    crate::command::json(&said.stdout)["runs"].as_array().expect("rows").clone()
}

fn sum(rows: &[serde_json::Value], field: &str) -> u64 {
    rows.iter().map(|row| row[field].as_u64().expect("a count")).sum()
}

#[test]
fn twenty_kills_full_disks_and_read_only_storage_lose_nothing() {
    let rows = endured(&["--kills", "20"]);
    for kind in updraft_run::TASKS {
        assert!(rows.iter().any(|row| row["task"] == kind.name()), "{}: {rows:?}", kind.name());
    }
    let [kills, full, read_only] = ["kills", "full_disks", "read_only"].map(|of| sum(&rows, of));
    assert_eq!(kills + full + read_only, 20, "{rows:?}");
    assert!(4 * sum(&rows, "kills_in_saves") >= kills, "too few kills fell into a save: {rows:?}");
    assert!(sum(&rows, "ends") >= 4, "{rows:?}");
    assert!(rows.iter().all(|row| row["fault"].is_null()), "{rows:?}");
}

#[test]
#[ignore = "slow: a thousand processes, some twenty minutes"]
fn a_thousand_kills_full_disks_and_read_only_storage_lose_nothing() {
    let rows = endured(&["--kills", "1000"]);
    assert_eq!(
        ["kills", "full_disks", "read_only"].map(|of| sum(&rows, of)).iter().sum::<u64>(),
        1000
    );
    assert!(rows.iter().all(|row| row["fault"].is_null()), "{rows:?}");
}
