//! Every command on a GPU of this build, and training of every task beside the CPU.

use std::fs;
use std::path::Path;

use serde_json::Value;

use super::device::{CLOSE, assert_losses, gpu, losses};
use crate::command::{Small, TASKS, config, json, metrics, succeed};
use crate::determinism::tensors;

/// A run of two epochs on a device, with a checkpoint every four steps.
fn trained(small: &Small, dir: &Path, device: &str) -> Value {
    let device = format!("device={device}");
    // Dropout draws from the generator of the device.
    let dropout =
        if small.config == "tables-quickstart.toml" { "model.dropout=0" } else { "seed=1" };
    let sets = [&device, dropout, "train.checkpoint_every_steps=4", "train.keep_checkpoints=9"];
    json(&small.succeed(dir, "train", &sets).stdout)
}

#[test]
fn a_run_of_any_task_has_the_losses_of_the_cpu_and_resumes_to_the_same_bits() {
    let Some(gpu) = gpu() else { return };
    for small in &TASKS {
        let dir = tempfile::tempdir().expect("temporary folder");
        let expected = trained(small, dir.path(), "flex");
        let found = trained(small, dir.path(), &gpu);
        let folder = |said: &Value| dir.path().join(said["run"].as_str().expect("a path"));
        let run = folder(&found);
        assert_losses(&losses(&run), &losses(&folder(&expected)), CLOSE, small.config);

        let name = run.to_str().expect("text");
        let scores = json(&succeed(dir.path(), &["eval", name, "--json"]).stdout);
        for metric in small.metrics {
            let (trained, evaluated) = (&found["test"][*metric], &scores[*metric]);
            let [trained, evaluated] =
                [trained, evaluated].map(|value| value.as_f64().expect("a number"));
            let is_close = (trained - evaluated).abs() <= 1e-4 * trained.abs().max(1.0);
            assert!(is_close, "{}: {metric} {trained} and {evaluated}", small.config);
        }
        succeed(dir.path(), &["report", name]);

        let model = || tensors(&run.join("checkpoints/step-00000012/model.bpk"));
        let (unbroken, weights) = (metrics(&run), model());
        for step in [6, 8, 12] {
            fs::remove_dir_all(run.join(format!("checkpoints/step-{step:08}"))).expect("removed");
        }
        fs::remove_file(run.join("summary.json")).expect("removed");
        succeed(dir.path(), &["train", "--resume", name]);
        assert_eq!(unbroken, metrics(&run), "{}", small.config);
        assert!(weights == model(), "{}: the resumed weights differ", small.config);
    }
}

#[test]
fn every_other_command_runs() {
    let Some(gpu) = gpu() else { return };
    let dir = tempfile::tempdir().expect("temporary folder");
    // Training on the GPU compiles many more kernels.
    let run = TASKS[0].succeed(dir.path(), "train", &["device=flex", "train.epochs=1"]);
    let run = run.run_folder();
    let run = run.to_str().expect("text");
    image::RgbImage::from_pixel(16, 16, image::Rgb([200, 40, 90]))
        .save(dir.path().join("a.png"))
        .expect("written");
    let kan = TASKS[1].succeed(dir.path(), "train", &["device=flex", "train.epochs=1"]);
    let kan = kan.run_folder();
    let kan = kan.to_str().expect("text");
    for arguments in [
        &["predict", run, "a.png", "--device", &gpu][..],
        &["quantize", run, "--device", &gpu],
        &["eval", run, "--int8"],
        &["eval", run, "--int8", "--device", &gpu],
        &["predict", run, "a.png", "--int8"],
        &["eval", run, "--tta", "flip", "--device", &gpu],
        &["validate", kan, "--against", "recompute=element-wise", "--device", &gpu],
        &["probe", "--json"],
    ] {
        let said = succeed(dir.path(), arguments);
        assert!(!said.stdout.is_empty(), "{arguments:?} printed nothing");
    }
    let device = format!("device={gpu}");
    let short = [device.as_str(), "train.epochs=1"];
    TASKS[1].succeed(dir.path(), "warm-up", &short);
    // Of the small networks it compiles the fewest kernels among those with an int8 form.
    TASKS[3].succeed(dir.path(), "pipeline", &short);
    let mut compare =
        vec!["compare", "--seeds", "1", "--arm", "train.epochs=1", "--arm", "train.batch=40"];
    let config = config(TASKS[1].config);
    compare.extend([config.as_str(), "--device", &gpu]);
    let sets = TASKS[1].sets.iter().filter(|set| !set.starts_with("train.batch"));
    compare.extend(sets.flat_map(|set| ["--set", *set]));
    succeed(dir.path(), &compare);
}

#[test]
#[ignore = "slow: a minute on an emulated GPU"]
fn the_parts_that_runs_depend_on_pass_for_every_task() {
    let Some(gpu) = gpu() else { return };
    let dir = tempfile::tempdir().expect("temporary folder");
    succeed(dir.path(), &["verify", "--device", &gpu]);
}
