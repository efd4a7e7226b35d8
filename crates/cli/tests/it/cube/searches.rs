//! Searches and comparisons, whose processes measure on a GPU.

use std::path::Path;

use serde_json::Value;

use super::device::{gpu, is_emulated};
use crate::command::{Small, TASKS, json, succeed, texts};

/// Of all tasks its networks compile the fewest kernels, in each process anew, and ours are among
/// them.
const KAN: &Small = &TASKS[1];

/// A test whose losses learn without diverging.
const RANGE: [&str; 7] = ["--from", "1e-4", "--to", "0.1", "--steps", "80", "--json"];

fn run(dir: &Path, command: &str, device: &str, sets: &[&str], more: &[&str]) -> Value {
    let mut arguments = KAN.arguments(command, sets);
    arguments.extend(["--device", device].iter().chain(more).map(|&text| text.to_owned()));
    let said = succeed(dir, &texts(&arguments));
    json(said.stdout.lines().last().unwrap_or_default())
}

#[test]
fn a_range_test_suggests_the_learning_rate_of_the_cpu() {
    let Some(gpu) = gpu() else { return };
    let dir = tempfile::tempdir().expect("temporary folder");
    let rates = ["flex", &gpu].map(|device| {
        let found = run(dir.path(), "lr-find", device, &[], &RANGE);
        assert_eq!(found["updates"], 80, "{found}");
        found["learning_rate"].as_f64().expect("a suggestion")
    });
    // One of eighty rates, each 9 % above the one before; a card that rounds may take a neighbor.
    let farthest = if is_emulated() { 0.01 } else { 0.1 };
    assert!((rates[0] / rates[1]).ln().abs() < farthest, "{rates:?}");
    assert!(dir.path().join("lr-find-2.html").is_file());
}

#[test]
fn batch_sizes_are_tried_and_timed_in_processes_on_the_device() {
    let Some(gpu) = gpu() else { return };
    let dir = tempfile::tempdir().expect("temporary folder");
    let sizes = ["train.auto_batch={ least = 4, most = 6, head_room = 0.0 }"];
    // No process of this program takes as much for six rows, nor its allocator on a card.
    let found = run(dir.path(), "batch-find", &gpu, &sizes, &["--budget-mib", "4000"]);
    assert_eq!((&found["batch"], &found["largest"]), (&6.into(), &6.into()), "{found}");
    assert!(found["too_large"].is_null() && found["probes"].as_u64() >= Some(2), "{found}");
    let [needed, budget] = ["needed_bytes", "budget_bytes"].map(|name| found[name].as_u64());
    assert!(needed > Some(0) && needed <= budget, "{found}");

    let once = ["--sizes", "4,8", "--steps", "2", "--repeats", "1", "--only", "training", "--json"];
    let swept = run(dir.path(), "batch-sweep", &gpu, &[], &once);
    assert_eq!(swept["device"], gpu.as_str());
    let rows = swept["works"][0]["sizes"].as_array().expect("a list");
    assert_eq!(rows.iter().map(|row| &row["batch"]).collect::<Vec<_>>(), [4, 8]);
    for row in rows {
        assert!(row["failed"].is_null() && row["in_use"]["kernels"] == true, "{row}");
        assert_eq!(row["in_use"]["device"], gpu.as_str(), "{row}");
        assert!(row["samples_per_s"]["median"].as_f64() > Some(0.0), "{row}");
    }
    assert!(swept["works"][0]["best"]["throughput"].is_u64(), "{swept}");
}

#[test]
fn options_are_compared_and_our_kernels_have_the_gradients_of_burns_operations() {
    let Some(gpu) = gpu() else { return };
    let dir = tempfile::tempdir().expect("temporary folder");
    let options = "kernels,precision,fusion,autotune";
    let once = ["--steps", "2", "--repeats", "1", "--only", "training", "--json"];
    let more = [&["--options", options][..], &once].concat();
    let compared = run(dir.path(), "compare-options", &gpu, &[], &more);
    assert_eq!(compared["device"], gpu.as_str());
    let training = &compared["comparisons"][0];
    let rows = training["rows"].as_array().expect("a list");
    for row in rows {
        assert!(row["failed"].is_null() && row["in_use"]["device"] == gpu.as_str(), "{row}");
        assert!(row["samples_per_s"]["median"].as_f64() > Some(0.0), "{row}");
    }
    let row = |name: &str| rows.iter().find(|row| row["name"] == name).expect("a row");
    assert_eq!(row("baseline")["in_use"]["kernels"], false);
    let kernels = row("kernels");
    assert_eq!(
        (&kernels["in_use"]["kernels"], &kernels["in_use"]["precision"]),
        (&true.into(), &"f32".into())
    );
    let parity = &kernels["parity"];
    assert_eq!(parity["compared"], "gradients");
    assert!(parity["relative_error"].as_f64().is_some_and(|error| error < 1e-4), "{parity}");
    let without = training["without_effect"].as_array().expect("a list");
    for name in ["fusion", "autotune"] {
        let found = without.iter().find(|it| it["option"] == name).expect("named");
        let reason = found["reason"].as_str().expect("text");
        assert!(reason.contains("a cargo feature decides"), "{reason}");
    }
    // A device that computes in no narrow dtype says so.
    let is_row = rows.iter().any(|row| row["name"] == "precision");
    assert_ne!(is_row, without.iter().any(|it| it["option"] == "precision"), "{training}");
    let folder = dir.path().join("runs/options/kan-quickstart");
    assert!(folder.join("report.html").is_file() && folder.join("result.json").is_file());
}
