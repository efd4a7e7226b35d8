//! Scaled losses and narrow dtypes on a GPU, where the device decides about skipped updates.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::device::{CLOSE, assert_losses, computes_in, gpu, losses, steps};
use crate::command::{Small, TASKS, run, texts};

/// Losses of f16, with 11 bits, beside those of f32, relative to each: twenty roundings.
const CLOSE_TO_F32: f64 = 0.01;

/// A network of our splines, which compiles the fewest kernels.
const KAN: &Small = &TASKS[1];

/// Trains it and returns the run.
fn trained(dir: &Path, device: &str, sets: &[&str]) -> PathBuf {
    let device = format!("device={device}");
    let sets = [&[device.as_str()], sets].concat();
    dir.join(KAN.succeed(dir, "train", &sets).run_folder())
}

/// Which updates a run skipped.
fn skipped(run: &Path) -> Vec<bool> {
    steps(run).iter().map(|line| line["skipped"].is_string()).collect()
}

#[test]
fn an_update_whose_gradients_overflow_is_skipped_as_on_the_cpu() {
    let Some(gpu) = gpu() else { return };
    let dir = tempfile::tempdir().expect("temporary folder");
    // In f32: the first update overflows, and the scale of the others is no power of two.
    let scaled = "train.loss_scale={ kind = \"dynamic\", initial = 3e38, ceiling = 3e38, \
                  backoff = 1e-30 }";
    let runs = ["flex", &gpu].map(|device| trained(dir.path(), device, &[scaled]));
    let [expected, found] = runs.each_ref().map(|run| skipped(run));
    assert_eq!(found, expected);
    assert!(found[0] && !found[1..].contains(&true), "{found:?}");
    let scales = |run: &Path| -> Vec<Value> {
        steps(run).iter().map(|line| line["loss_scale"].clone()).collect()
    };
    assert_eq!(scales(&runs[0]), scales(&runs[1]));
    let [expected, found] = runs.each_ref().map(|run| losses(run));
    assert_losses(&found, &expected, CLOSE, "a scaled loss");
    let plain = trained(dir.path(), &gpu, &[]);
    assert_ne!(losses(&plain)[2..], found[2..], "no update was skipped");
}

#[test]
fn a_run_in_f16_has_nearly_the_losses_of_f32_and_skips_what_overflows() {
    let Some(gpu) = gpu() else { return };
    let dir = tempfile::tempdir().expect("temporary folder");
    let f16 = "precision=f16-mixed";
    if !computes_in("f16") {
        let device = format!("device={gpu}");
        let refused = run(dir.path(), &texts(&KAN.arguments("train", &[&device, f16])));
        let expected = format!("policy `f16-mixed` needs F16, which {gpu} does not compute in");
        assert_eq!(refused.code, 2, "{}", refused.stderr);
        assert!(refused.stderr.contains(&expected), "{}", refused.stderr);
        assert!(!dir.path().join("runs").exists(), "a refused run left a folder");
        eprintln!("skipped: {gpu} does not compute in f16");
        return;
    }
    let wide = trained(dir.path(), &gpu, &[]);
    // Too small to overflow, and too large for the gradients to underflow.
    let constant = "train.loss_scale={ kind = \"static\", scale = 128 }";
    let narrow = trained(dir.path(), &gpu, &[f16, constant]);
    assert!(!skipped(&narrow).contains(&true));
    assert_losses(&losses(&narrow), &losses(&wide), CLOSE_TO_F32, f16);
    assert_ne!(losses(&narrow), losses(&wide), "it was computed in f32");

    let large = "train.loss_scale={ kind = \"dynamic\", initial = 1.6e7, backoff = 0.001 }";
    let scaled = trained(dir.path(), &gpu, &[f16, large]);
    let overflows = skipped(&scaled);
    assert!(overflows[0] && !overflows[1..].contains(&true), "{overflows:?}");
    assert!(losses(&scaled).iter().all(|loss| loss.is_finite()), "{scaled:?}");
}
