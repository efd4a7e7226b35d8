//! The files that a run records, and its report page.

use std::fs;

use crate::command::{run, succeed, tiny};

#[test]
fn tables_events_trace_and_page_agree_with_the_metrics() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let more = [
        "--set",
        "log.csv=true",
        "--set",
        "log.tensorboard=true",
        "--set",
        "log.trace=[2, 4]",
        "--set",
        "train.timing=done",
        "--set",
        "log.utilization=true",
    ];
    let folder = succeed(dir.path(), &tiny(&more)).run_folder();
    let path = dir.path().join(&folder);
    let read = |name: &str| fs::read_to_string(path.join(name)).expect(name);
    // As text: reading a number and printing it may move its last digit.
    let lines = read("metrics.jsonl");
    let losses: Vec<&str> = lines
        .lines()
        .filter(|line| line.contains("\"event\":\"step\""))
        .filter_map(|line| line.split("\"loss\":").nth(1)?.split([',', '}']).next())
        .collect();
    assert_eq!(losses.len(), 12);
    let steps = read("steps.csv");
    let column: Vec<&str> =
        steps.lines().skip(1).filter_map(|line| line.split(',').nth(3)).collect();
    assert_eq!(column, losses);
    assert_eq!(read("epochs.csv").lines().count(), 3);
    for line in lines.lines().filter(|line| line.contains("\"event\":\"epoch\"")) {
        let epoch: serde_json::Value = serde_json::from_str(line).expect("JSON");
        // flex takes its memory from the process's own allocator.
        assert!(epoch["device_peak_in_use_bytes"].is_null(), "{line}");
        let (held, most) = (&epoch["epoch_peak_resident_bytes"], &epoch["peak_resident_bytes"]);
        if cfg!(target_os = "linux") {
            let (held, most) = (held.as_u64().expect("a number"), most.as_u64().expect("a number"));
            assert!(0 < held && held <= most, "{line}");
        }
    }
    let trace = read("trace.json");
    assert_eq!(trace.matches("\"name\":\"step ").count(), 3);
    let events = fs::read(path.join("tensorboard/events.out.tfevents.updraft")).expect("events");
    let tag = b"step/loss";
    let count = events.windows(tag.len()).filter(|window| window == tag).count();
    assert_eq!(count, 12);
    // The phases are inside the update they belong to.
    for line in lines.lines() {
        let line: serde_json::Value = serde_json::from_str(line).expect("JSON");
        let us = |field: &str| line[field].as_u64().unwrap_or_default();
        if line["event"] == "step" {
            let phases = us("copy_us") + us("forward_us") + us("backward_us") + us("optimizer_us");
            assert!(phases <= us("step_us"), "{line}");
            assert!(2 * phases > us("step_us"), "half of a step is not accounted for: {line}");
        }
        let share = line["peak_share"].as_f64().expect("a share of the measured peak");
        assert!(share > 0.0 && share < 1.0, "{line}");
        assert!(line["model_gflop_per_s"].as_f64().expect("a rate") > 0.0, "{line}");
    }

    let said = succeed(dir.path(), &["report", folder.to_str().expect("text")]);
    assert!(said.stdout.trim().ends_with("report.html"), "{}", said.stdout);
    let page = read("report.html");
    for expected in
        ["Loss", "measured peak", "Integration weights as applied", "plan.toml", "environment.json"]
    {
        assert!(page.contains(expected), "`{expected}` is missing");
    }
    assert!(!page.contains("<script") && !page.contains("https:"), "the page needs something else");
}

#[test]
fn a_resumed_run_rewrites_tables_and_events_without_duplicate_lines() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let more = ["--set", "log.csv=true", "--set", "train.keep_checkpoints=9"];
    let folder = succeed(dir.path(), &tiny(&more)).run_folder();
    let path = dir.path().join(&folder);
    let columns = || -> Vec<String> {
        let text = fs::read_to_string(path.join("steps.csv")).expect("steps");
        text.lines().map(|line| line.split(',').take(7).collect::<Vec<_>>().join(",")).collect()
    };
    let unbroken = columns();
    fs::remove_dir_all(path.join("checkpoints/step-00000012")).expect("removed");
    succeed(dir.path(), &["train", "--resume", folder.to_str().expect("text")]);
    assert_eq!(columns(), unbroken);
}

#[test]
fn a_report_of_no_run_is_refused() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let said = run(dir.path(), &["report", "gone"]);
    assert_eq!(said.code, 2);
    assert!(said.stderr.contains("not a run folder"), "{}", said.stderr);
}
