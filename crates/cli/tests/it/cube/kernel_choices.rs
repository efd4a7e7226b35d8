//! What autotuning chose is stored with a run, and taken again after a kill.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::time::{Duration, Instant};

use super::device::gpu;
use crate::command::{TASKS, metrics, succeed, texts};
use crate::determinism::tensors;
use crate::signals::start;
use crate::validate::copy;

/// Measuring on an emulated GPU takes long.
const PATIENCE: Duration = Duration::from_secs(400);

/// The cache of this folder alone, with few and so uncertain measurements: two processes that
/// measure may choose differently.
const CUBECL: &str = "\
[environment]
path = \"local\"
[autotune.bench]
min_samples = 1
max_samples = 2
";

const CHOICES: &str = "kernel-choices/rank-0.db";

/// The only run of the folder, once it has stored choices and a checkpoint of at least this step.
fn wait_for(dir: &Path, step: u64, child: &mut Child) -> PathBuf {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let runs = fs::read_dir(dir.join("runs")).into_iter().flatten().flatten();
        for run in runs.map(|entry| entry.path()).filter(|path| path.join(CHOICES).is_file()) {
            let has_reached = (step..step + 100)
                .any(|step| run.join(format!("checkpoints/step-{step:08}/model.bpk")).is_file());
            if has_reached {
                return run;
            }
        }
        let ended = child.try_wait().expect("a child");
        assert!(ended.is_none(), "the run ended before it was killed: {ended:?}");
        assert!(Instant::now() < deadline, "no checkpoint of step {step} was written");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// The losses of a run by their updates, as text; a kill may have cut off the last line.
fn losses(run: &Path) -> BTreeMap<u64, String> {
    let text = fs::read_to_string(run.join("metrics.jsonl")).expect("metrics");
    let lines = text.lines().filter_map(|line| serde_json::from_str(line).ok());
    let steps = lines.filter(|line: &serde_json::Value| line["event"] == "step");
    steps.map(|line| (line["step"].as_u64().expect("a step"), line["loss"].to_string())).collect()
}

/// Resumes a run to its end, and returns the number of stored choices in its note, if it has it.
fn resume(dir: &Path, run: &str) -> (Option<u64>, String) {
    let said = succeed(dir, &["train", "--resume", run]).stderr;
    let words: Vec<&str> = said.split_whitespace().collect();
    let text = words.join(" ");
    let note = " kernel choices of the run are used again";
    let number = text.split(note).next().filter(|before| before.len() < text.len());
    let number = number.and_then(|before| before.rsplit(' ').next()?.parse().ok());
    (number, text)
}

#[test]
fn a_killed_run_resumes_to_the_same_bits_by_its_stored_choices() {
    let Some(gpu) = gpu() else { return };
    let dir = tempfile::tempdir().expect("temporary folder");
    fs::write(dir.path().join("cubecl.toml"), CUBECL).expect("written");
    let device = format!("device={gpu}");
    let sets = [
        device.as_str(),
        "train.epochs=20",
        "train.read_every=1",
        "train.checkpoint_every_steps=4",
        "train.keep_checkpoints=99",
    ];
    let mut child = start(dir.path(), &texts(&TASKS[1].arguments("train", &sets)));
    // An epoch has six steps: by then the test data was scored, too.
    let run = wait_for(dir.path(), 8, &mut child);
    child.kill().expect("killed");
    child.wait().expect("a child");
    assert!(!run.join("summary.json").exists(), "the run ended before it was killed");
    let before = losses(&run);
    for name in ["copied", "without"] {
        copy(&run, &dir.path().join(name));
    }

    let (choices, said) = resume(dir.path(), run.to_str().expect("text"));
    assert!(choices.is_some_and(|choices| choices > 0), "{said}");
    let after = losses(&run);
    assert_eq!(after.len(), 120);
    // Also the updates after the checkpoint that the killed process had made.
    assert!(before.iter().all(|(step, loss)| after.get(step) == Some(loss)), "{before:?}");

    // Another machine, which has measured nothing.
    for name in ["default.db", "default.db-wal", "default.db-shm"] {
        let _ = fs::remove_file(dir.path().join(name));
    }
    assert_eq!(resume(dir.path(), "copied").0, choices);
    let copied = dir.path().join("copied");
    assert_eq!(metrics(&run), metrics(&copied));
    let last = |run: &Path| tensors(&run.join("checkpoints/step-00000120/model.bpk"));
    assert!(last(&run) == last(&copied), "the resumed weights differ");

    // Without the file the run says so.
    fs::remove_dir_all(dir.path().join("without/kernel-choices")).expect("removed");
    let (none, said) = resume(dir.path(), "without");
    assert_eq!(none, None);
    assert!(said.contains("the run has no kernel choices, and results may differ"), "{said}");
    assert!(dir.path().join("without").join(CHOICES).is_file());
}
