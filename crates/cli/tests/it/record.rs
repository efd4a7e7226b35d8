//! The files that a run records, and its report page.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::command::{TASKS, metrics, run, succeed, texts, tiny};

#[test]
fn tables_events_trace_and_page_agree_with_the_metrics() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let more = [
        "--set",
        "log.csv=true",
        "--set",
        "log.tensorboard=true",
        "--trace-steps",
        "3",
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
        let epoch: Value = serde_json::from_str(line).expect("JSON");
        // flex takes its memory from the process's own allocator.
        assert!(epoch["device_peak_in_use_bytes"].is_null(), "{line}");
        let (held, most) = (&epoch["epoch_peak_resident_bytes"], &epoch["peak_resident_bytes"]);
        if cfg!(target_os = "linux") {
            let (held, most) = (held.as_u64().expect("a number"), most.as_u64().expect("a number"));
            assert!(0 < held && held <= most, "{line}");
        }
    }
    assert_eq!(read("trace.json").matches("\"name\":\"step ").count(), 3);
    let events = fs::read(path.join("tensorboard/events.out.tfevents.updraft")).expect("events");
    let tag = b"step/loss";
    let count = events.windows(tag.len()).filter(|window| window == tag).count();
    assert_eq!(count, 12);
    // The phases are inside the update they belong to.
    for line in lines.lines() {
        let line: Value = serde_json::from_str(line).expect("JSON");
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
    for expected in [
        "Loss",
        "measured peak",
        "Integration weights as applied",
        "plan.toml",
        "environment.json",
        "Slowest layers",
    ] {
        assert!(page.contains(expected), "`{expected}` is missing");
    }
    assert!(!page.contains("<script") && !page.contains("https:"), "the page needs something else");
}

/// The events of a trace, which may lack its closing bracket.
fn events(path: &Path) -> Vec<Value> {
    let text = fs::read_to_string(path).expect("a trace");
    let text = format!("{}]", text.trim_end().trim_end_matches(','));
    serde_json::from_str(&text).expect("JSON")
}

/// The slices on a row of a trace: name, begin and end in microseconds.
fn slices(events: &[Value], row: u64) -> Vec<(String, u64, u64)> {
    let of_row = events.iter().filter(|event| event["ph"] == "X" && event["tid"] == row);
    let slice = |event: &Value| {
        let number = |field: &str| event[field].as_u64().expect("a number");
        let name = event["name"].as_str().expect("a name").to_owned();
        (name, number("ts"), number("ts") + number("dur"))
    };
    of_row.map(slice).collect()
}

#[test]
fn a_trace_has_every_layer_inside_of_its_step_and_changes_no_result() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let sets = ["--set", "model.channels=8"];
    let plain = succeed(dir.path(), &tiny(&sets)).run_folder();
    let said = succeed(dir.path(), &tiny(&[&sets[..], &["--trace-steps", "8"]].concat()));
    let (plain, path) = (dir.path().join(plain), dir.path().join(said.run_folder()));
    assert_eq!(metrics(&path), metrics(&plain));
    assert!(!plain.join("trace.json").exists() && !plain.join("layers.json").exists());

    // Six updates an epoch: the evaluation after them is in no step.
    let events = events(&path.join("trace.json"));
    let is_step = |slice: &&(String, u64, u64)| slice.0.starts_with("step ");
    let all = slices(&events, 1);
    let steps: Vec<_> = all.iter().filter(is_step).collect();
    assert_eq!(steps.len(), 8);
    for phase in ["data wait", "forward", "backward", "optimizer"] {
        assert!(all.iter().any(|(name, ..)| name == phase), "{phase}");
    }
    let layers = slices(&events, 2);
    let is_in_a_step = |(_, begin, end): &&(String, u64, u64)| {
        let near = |step: &&(String, u64, u64)| step.1 <= begin + 1000 && *end <= step.2 + 1000;
        steps.iter().any(near)
    };
    // The clock of the layers is read after that of the step: a process that is suspended in between
    // shifts the layers of that step.
    let inside = layers.iter().filter(is_in_a_step).count();
    assert!(4 * inside >= 3 * layers.len(), "{inside} of {} layers are in a step", layers.len());
    let text = fs::read_to_string(path.join("layers.json")).expect("layers");
    let times: Value = serde_json::from_str(&text).expect("JSON");
    let table = times["layers"].as_array().expect("a list");
    assert!(table.len() > 5 && times["steps"] == 8, "{times}");
    let names: Vec<_> = table.iter().filter_map(|layer| layer["layer"].as_str()).collect();
    assert!(names.iter().any(|name| name.contains('.')), "{names:?}");
    for pass in ["forward_us", "backward_us"] {
        let sum: f64 = table.iter().filter_map(|layer| layer[pass].as_f64()).sum();
        assert!(sum > 0.0 && sum <= times[pass].as_f64().expect("a number"), "{pass} of {times}");
    }
    let of = |kind: &str| table.iter().filter(|layer| layer["kind"] == kind).collect::<Vec<_>>();
    for kind in ["convolution", "batch normalization", "linear"] {
        let layers = of(kind);
        assert!(!layers.is_empty(), "{kind} in {times}");
        for layer in layers {
            assert!(layer["backward_us"].as_f64() > Some(0.0), "{layer}");
            assert_eq!(layer["operations"].as_u64() > Some(0), kind != "batch normalization");
        }
    }
    let slowest = table[0]["layer"].as_str().expect("a name");
    let line = said.stderr.lines().find(|line| line.starts_with(slowest)).expect("a row");
    // The page has the numbers of the terminal.
    let out = path.to_str().expect("text");
    succeed(dir.path(), &["report", out]);
    let page = fs::read_to_string(path.join("report.html")).expect("a page");
    let (_, row) = page.split_once(&format!("<tr><td>{slowest}</td>")).expect("a row");
    let (row, _) = row.split_once("</tr>").expect("its end");
    let cells: Vec<_> = row.split("<td class=\"number\">").skip(1).collect();
    let cells =
        cells.iter().map(|cell| cell.trim_end_matches("</td>")).collect::<Vec<_>>().join(" ");
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(words(line), words(&format!("{slowest} {cells}")));
}

#[test]
fn an_evaluation_of_every_task_is_traced_with_the_same_metrics() {
    let dir = tempfile::tempdir().expect("temporary folder");
    for small in &TASKS {
        let folder = small.succeed(dir.path(), "train", &["train.epochs=1"]).run_folder();
        let name = folder.to_str().expect("text");
        let expected = succeed(dir.path(), &["eval", name, "--json"]).stdout;
        let said = succeed(dir.path(), &["eval", name, "--json", "--trace-steps", "1"]);
        assert_eq!(said.stdout, expected, "{}", small.config);
        let path = dir.path().join(&folder);
        let events = events(&path.join("trace-eval.json"));
        let batches = slices(&events, 1);
        assert_eq!(batches[0].0, "batch 0", "{batches:?}");
        assert_eq!(batches.iter().filter(|(name, ..)| name.starts_with("batch ")).count(), 1);
        assert!(batches.iter().any(|(name, ..)| name == "forward"), "{batches:?}");
        assert!(path.join("layers-eval.json").is_file());
        assert!(!slices(&events, 2).is_empty(), "{} has layers", small.config);
    }
    for arguments in [
        &["predict", "gone", "a.png", "--trace-steps", "0"][..],
        &["train", "--trace-steps", "0"],
        &["eval", "gone", "--trace-steps", "0"],
    ] {
        let said = run(dir.path(), arguments);
        assert_eq!(said.code, 2);
        assert!(said.stderr.contains("0 is not in 1.."), "{}", said.stderr);
    }
}

#[test]
fn each_layer_within_a_transformer_has_both_passes() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let [.., rows, images] = &TASKS;
    let of_rows =
        ["model={kind='interaction',embedding=8,hidden=16,dropout=0.1}", "train.epochs=1"];
    let of_encoder = [
        "mha.query",
        "mha.key",
        "mha.value",
        "mha",
        "mha.output",
        "norm_1",
        "pwff.linear_inner",
        "pwff.linear_outer",
        "norm_2",
    ];
    let of_block = [
        "attention_norm",
        "attention.joined",
        "attention",
        "attention.output",
        "perceptron_norm",
        "perceptron.hidden",
        "perceptron.output",
    ];
    for (small, sets, block, attention, layers) in [
        (rows, &of_rows[..], "attention.layers.0", "mha", &of_encoder[..]),
        (images, &of_rows[1..], "encoder.blocks.0", "attention", &of_block),
    ] {
        let mut arguments = small.arguments("train", sets);
        arguments.extend(["--trace-steps", "2"].map(str::to_owned));
        let folder = dir.path().join(succeed(dir.path(), &texts(&arguments)).run_folder());
        let text = fs::read_to_string(folder.join("layers.json")).expect("layers");
        let times: Value = serde_json::from_str(&text).expect("JSON");
        let table = times["layers"].as_array().expect("a list");
        for layer in layers {
            let path = format!("{block}.{layer}");
            let found = table
                .iter()
                .find(|row| row["layer"].as_str().is_some_and(|name| name.ends_with(&path)));
            let row = found.unwrap_or_else(|| panic!("no {path} in {text}"));
            assert_eq!(row["kind"] == "attention", *layer == attention, "{row}");
            assert_eq!(row["calls"], 2, "{row}");
            for pass in ["forward_us", "backward_us"] {
                assert!(row[pass].as_f64() > Some(0.0), "{row}");
            }
        }
    }
}

#[test]
#[cfg(target_os = "linux")]
fn a_trace_on_a_full_disk_is_an_error_and_the_run_stays_whole() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let folder = succeed(dir.path(), &tiny(&[])).run_folder();
    let name = folder.to_str().expect("text");
    let expected = succeed(dir.path(), &["eval", name, "--json"]).stdout;
    let trace = dir.path().join(&folder).join("trace-eval.json");
    std::os::unix::fs::symlink("/dev/full", &trace).expect("a link");
    let said = run(dir.path(), &["eval", name, "--json", "--trace-steps", "1"]);
    assert_eq!(said.code, 1, "{}", said.stderr);
    for words in ["cannot write", "trace-eval.json", "No space left on device"] {
        assert!(said.stderr.contains(words), "{words}: {}", said.stderr);
    }
    assert_eq!(succeed(dir.path(), &["eval", name, "--json"]).stdout, expected);
}

#[test]
fn predictions_are_traced_file_by_file_and_batch_by_batch_with_the_same_result() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let folder = succeed(dir.path(), &tiny(&[])).run_folder();
    let name = folder.to_str().expect("text");
    for level in [90, 190] {
        let image = image::RgbImage::from_pixel(16, 16, image::Rgb([level, 80, 70]));
        image.save(dir.path().join(format!("{level}.png"))).expect("saved");
    }
    let predict = ["predict", name, "90.png", "190.png", "90.png", "--json"];
    let expected = succeed(dir.path(), &predict).stdout;
    let said = succeed(dir.path(), &[&predict[..], &["--trace-steps", "2"]].concat());
    assert_eq!(said.stdout, expected);
    assert!(said.stderr.contains("slowest layers: 2 files, forward "), "{}", said.stderr);
    let path = dir.path().join(&folder);
    let events = events(&path.join("trace-predict.json"));
    let steps = slices(&events, 1);
    let names: Vec<_> = steps.iter().map(|(name, ..)| name.as_str()).collect();
    let of_one = |at| [format!("prediction {at}"), "data wait".to_owned(), "forward".to_owned()];
    assert_eq!(names, [of_one(0), of_one(1)].concat());
    let layers = slices(&events, 2);
    assert!(layers.iter().any(|(name, ..)| name.contains('.')), "{layers:?}");
    let forward = steps.iter().filter(|(name, ..)| name == "forward").collect::<Vec<_>>();
    for (name, begin, end) in &layers {
        // Each number is rounded down.
        let is_inside = |it: &&&(String, u64, u64)| it.1 <= begin + 2 && *end <= it.2 + 2;
        assert!(forward.iter().any(|it| is_inside(&it)), "{name} at {begin} of {forward:?}");
    }
    assert!(!path.join("trace-eval.json").exists());
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
    fs::remove_file(path.join("summary.json")).expect("removed");
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
