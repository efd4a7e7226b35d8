//! Every command with every task on a GPU of this build, beside the CPU.

use std::fs;
use std::path::Path;

use serde_json::Value;
use updraft_device::{Backend, State};

use crate::command::{Small, TASKS, config, json, metrics, succeed};
use crate::determinism::tensors;

/// What to write after `--device` for the first GPU, or `None` with a message.
#[expect(clippy::print_stderr, reason = "why a test passed without a device")]
fn gpu() -> Option<String> {
    let inventory = updraft_device::probe();
    let is_gpu = |backend: Backend| !matches!(backend, Backend::Flex | Backend::CubeclCpu);
    let mut usable = inventory.entries.iter().filter(|entry| matches!(entry.state, State::Usable));
    let found = usable.find(|entry| is_gpu(entry.id.backend));
    if found.is_none() {
        assert!(std::env::var_os("UPDRAFT_TEST_NEEDS_GPU").is_none(), "no GPU is usable");
        eprintln!("skipped: no GPU is usable in this build");
    }
    found.map(|entry| entry.id.to_string())
}

/// The losses of all steps of a run.
fn losses(run: &Path) -> Vec<f64> {
    let steps = metrics(run).into_iter().filter(|line| line["event"] == "step");
    steps.map(|line| line["loss"].as_f64().expect("a number")).collect()
}

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
        let (expected_losses, found_losses) = (losses(&folder(&expected)), losses(&folder(&found)));
        assert_eq!(expected_losses.len(), found_losses.len());
        for (expected, found) in expected_losses.iter().zip(&found_losses) {
            assert!((expected - found).abs() <= 1e-3 * expected.abs(), "{}: {found}", small.config);
        }

        let run = folder(&found);
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
    let small = &TASKS[0];
    let device = format!("device={gpu}");
    let run = small.succeed(dir.path(), "train", &[&device, "train.epochs=1"]).run_folder();
    let run = run.to_str().expect("text");
    image::RgbImage::from_pixel(16, 16, image::Rgb([200, 40, 90]))
        .save(dir.path().join("a.png"))
        .expect("written");
    for arguments in [
        &["predict", run, "a.png", "--device", &gpu][..],
        &["quantize", run],
        &["eval", run, "--int8"],
        &["predict", run, "a.png", "--int8"],
        &["eval", run, "--tta", "flip", "--device", &gpu],
        &["verify", "--device", &gpu],
        &["probe", "--json"],
    ] {
        let said = succeed(dir.path(), arguments);
        assert!(!said.stdout.is_empty(), "{arguments:?} printed nothing");
    }
    let short = [device.as_str(), "train.epochs=1"];
    for command in ["warm-up", "pipeline"] {
        small.succeed(dir.path(), command, &short);
    }
    let mut compare =
        vec!["compare", "--seeds", "1", "--arm", "train.epochs=1", "--arm", "train.batch=40"];
    let config = config(small.config);
    compare.extend([config.as_str(), "--device", &gpu]);
    let sets = small.sets.iter().filter(|set| !set.starts_with("train.batch"));
    compare.extend(sets.flat_map(|set| ["--set", *set]));
    succeed(dir.path(), &compare);
}
