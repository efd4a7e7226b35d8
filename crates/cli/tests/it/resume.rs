//! A stopped run goes on as if nothing had happened.

use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::command::{metrics, succeed, tiny, updraft};

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
        // What a kill after step 9 leaves: newer checkpoints absent, newer metrics present.
        for step in [6, 8, 12] {
            fs::remove_dir_all(run.join(format!("checkpoints/step-{step:08}"))).expect("removed");
        }
        succeed(dir.path(), &["train", "--resume", run.to_str().expect("text")]);
        assert_eq!(unbroken, metrics(&run));
        assert!(model == last_model(&run), "the resumed weights differ: {precision:?}");
    }
}

/// All that a run goes on from, by path: ids in the files are random for each run.
#[cfg(unix)]
fn everything(run: &Path) -> Vec<(String, Vec<u8>)> {
    let newest = newest_checkpoint(run);
    let parts = |file: &str| -> Vec<(String, Option<u64>, Vec<u8>)> {
        let bytes = burn::tensor::Bytes::from_bytes_vec(fs::read(newest.join(file)).expect("read"));
        let reader = burn_pack::Reader::from_bytes(bytes).expect("a burnpack");
        let tensors = reader.into_tensors().expect("tensors").into_iter();
        let parts = tensors.map(|tensor| tensor.into_parts().expect("a tensor"));
        parts.map(|(name, _, _, id, bytes)| (name, id, bytes.to_vec())).collect()
    };
    let model = parts("model.bpk");
    let mut found = Vec::new();
    for (name, id, bytes) in parts("optimizer.bpk") {
        let owner = model.iter().find(|(_, owner, _)| owner.is_some() && *owner == id);
        let (path, ..) = owner.expect("optimizer state belongs to a parameter");
        let field = name.split_once('.').expect("`id.field`").1;
        found.push((format!("optimizer {path} {field}"), bytes));
    }
    for file in ["model.bpk", "average.bpk", "served.bpk"] {
        let tensors = parts(file).into_iter();
        found.extend(tensors.map(|(name, _, bytes)| (format!("{file} {name}"), bytes)));
    }
    found.push(("state".to_owned(), fs::read(newest.join("state.json")).expect("state")));
    found.sort();
    found
}

#[cfg(unix)]
fn newest_checkpoint(run: &Path) -> std::path::PathBuf {
    let found = updraft_trainer::list_checkpoints(&run.join("checkpoints")).expect("listed");
    found.into_iter().next_back().expect("a checkpoint")
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

/// Returns as soon as a checkpoint is being written, or the run seems to have ended.
#[cfg(unix)]
fn wait_for_a_save(folder: &Path) {
    let deadline = Instant::now() + Duration::from_secs(2);
    while Instant::now() < deadline {
        let mut entries = fs::read_dir(folder).expect("checkpoints").flatten();
        if entries.any(|entry| is_partial(&entry)) {
            return;
        }
    }
}

#[cfg(unix)]
fn is_partial(entry: &fs::DirEntry) -> bool {
    entry.file_name().to_str().is_some_and(|name| name.ends_with(".partial"))
}

/// Kills a run again and again, some milliseconds after a checkpoint, resumes it each time, and
/// compares its end with that of an unbroken run; returns how many kills fell into a save.
#[cfg(unix)]
fn kill_and_resume(kills: u64, every_steps: u64) -> u64 {
    let every = format!("train.checkpoint_every_steps={every_steps}");
    // Enough steps for every kill: a save takes most of a step's time.
    let epochs = format!("train.epochs={}", (kills * every_steps).div_ceil(3) + 2);
    let more = [
        "--set",
        &every,
        "--set",
        &epochs,
        "--set",
        "model.dropout=0.2",
        "--set",
        "augment.flip=true",
        "--set",
        "train.ema_decay=0.9",
        "--set",
        "train.recompute_batch_norms=2",
        "--set",
        "train.keep_best=1",
    ];
    let unbroken = tempfile::tempdir().expect("temporary folder");
    let whole = unbroken.path().join(succeed(unbroken.path(), &tiny(&more)).run_folder());
    let dir = tempfile::tempdir().expect("temporary folder");
    let mut run: Option<std::path::PathBuf> = None;
    let (mut killed, mut in_a_save, mut step) = (0, 0, 0);
    while killed < kills {
        let arguments = match &run {
            None => tiny(&more),
            Some(run) => {
                load_with(run, killed % 3);
                vec!["train", "--resume", run.to_str().expect("text")]
            }
        };
        let mut child = updraft(dir.path(), &arguments)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("the binary starts");
        let found = wait_for_step(dir.path(), step + 1);
        if killed % 2 == 0 {
            std::thread::sleep(Duration::from_micros(killed * 1777 % 13_000));
        } else {
            wait_for_a_save(&found.join("checkpoints"));
        }
        child.kill().expect("killed");
        let ended = child.wait().expect("a child");
        assert!(!ended.success(), "the run ended before kill {killed} of {kills}");
        killed += 1;
        let folder = found.join("checkpoints");
        let mut names = fs::read_dir(&folder).expect("checkpoints").flatten();
        in_a_save += u64::from(names.any(|entry| is_partial(&entry)));
        // What says it is whole is whole.
        for path in updraft_trainer::list_checkpoints(&folder).expect("listed") {
            step = updraft_trainer::check_checkpoint(&path).expect("whole").step;
        }
        run = Some(found);
    }
    let run = run.expect("a run");
    succeed(dir.path(), &["train", "--resume", run.to_str().expect("text")]);
    assert_eq!(metrics(&run), metrics(&whole), "other metrics");
    let (found, expected) = (everything(&run), everything(&whole));
    assert_eq!(found.len(), expected.len());
    for (found, expected) in found.iter().zip(expected) {
        assert_eq!(found.0, expected.0);
        assert!(found.1 == expected.1, "`{}` differs", expected.0);
    }
    in_a_save
}

/// Rewrites a run's plan to load data with so many threads.
#[cfg(unix)]
fn load_with(run: &Path, workers: u64) {
    let path = run.join("plan.toml");
    let plan = fs::read_to_string(&path).expect("plan");
    let line = plan.lines().find(|line| line.starts_with("workers = ")).expect("a choice");
    fs::write(&path, plan.replace(line, &format!("workers = {workers}"))).expect("written");
}

#[cfg(unix)]
#[test]
fn ten_kills_some_during_a_save_lose_nothing() {
    let in_a_save = kill_and_resume(7, 1) + kill_and_resume(3, 7);
    assert!(in_a_save > 0, "no kill fell into a save: the test has lost its point");
}

#[cfg(unix)]
#[test]
#[ignore = "slow: two hundred processes, some minutes"]
fn two_hundred_kills_lose_nothing() {
    let in_a_save = kill_and_resume(100, 1) + kill_and_resume(100, 7);
    println!("{in_a_save} of 200 kills fell into a save");
    assert!(in_a_save > 0);
}
