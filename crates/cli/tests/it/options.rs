//! `compare-options`: every row is measured in a process of its own, and its results are compared.

use std::collections::BTreeSet;
use std::path::Path;

use burn::tensor::Device;
use serde_json::Value;
use updraft_precision::Policy;

use crate::command::{Said, TASKS, json, run, succeed, texts};

/// Runs the comparison of a task on its smallest config, and returns its output with the JSON.
fn compare(dir: &Path, task: usize, more: &[&str]) -> (Said, Value) {
    let mut arguments = TASKS[task].arguments("compare-options", &[]);
    arguments.extend(["--steps", "2"].map(str::to_owned));
    arguments.extend(more.iter().map(|text| (*text).to_owned()));
    let said = succeed(dir, &texts(&arguments));
    for line in said.stdout.lines().filter(|line| !line.starts_with('{')) {
        assert!(line.chars().count() <= 80, "{line}");
    }
    let value = json(said.stdout.lines().last().unwrap_or_default());
    (said, value)
}

/// A row of training or inference.
fn row<'a>(value: &'a Value, work: &str, name: &str) -> &'a Value {
    let works = value["comparisons"].as_array().expect("a list");
    let found = works.iter().find(|it| it["work"] == work).expect("it was measured");
    let rows = found["rows"].as_array().expect("a list");
    rows.iter().find(|row| row["name"] == name).unwrap_or_else(|| panic!("no {name}: {value}"))
}

fn error(row: &Value) -> f64 {
    row["parity"]["relative_error"].as_f64().unwrap_or_else(|| panic!("no parity: {row}"))
}

#[test]
fn no_switch_stays_on_and_what_changes_nothing_has_no_error_for_any_task() {
    let dir = tempfile::tempdir().expect("temporary folder");
    for (task, small) in TASKS.iter().enumerate() {
        let once = ["--repeats", "1", "--try", "name=\"other\""];
        let (_, value) = compare(dir.path(), task, &once);
        let mut processes = BTreeSet::new();
        let mut count = 0;
        for work in value["comparisons"].as_array().expect("a list") {
            for row in work["rows"].as_array().expect("a list") {
                assert!(row["failed"].is_null(), "{}: {row}", small.config);
                assert!(row["samples_per_s"]["median"].as_f64() > Some(0.0), "{row}");
                assert!(
                    row["step_p95_s"]["median"].as_f64() >= row["step_p50_s"]["median"].as_f64()
                );
                let own = row["processes"].as_array().expect("a list");
                processes.extend(own.iter().filter_map(Value::as_u64));
                count += own.len();
            }
        }
        assert_eq!(processes.len(), count, "two measurements shared a process");
        for work in ["training", "inference"] {
            let of = |name: &str| row(&value, work, name);
            let baseline = &of("baseline")["in_use"];
            let expected = (false, "f32".to_owned());
            let found = |in_use: &Value| {
                let precision = in_use["precision"].as_str().unwrap_or_default().to_owned();
                (in_use["kernels"].as_bool().expect("a fact"), precision)
            };
            assert_eq!(found(baseline), expected, "{baseline}");
            assert_eq!(found(&of("kernels")["in_use"]), (true, "f32".to_owned()));
            // Of these models those of one task have layers that multiply bf16.
            let on = match Policy::of_device(&Device::flex()).0 {
                Policy::BF16_PRODUCTS if small.task == "masked-images" => Policy::BF16_PRODUCTS,
                _ => Policy::BF16_MIXED,
            };
            let narrow = (false, on.to_string());
            assert_eq!(found(&of("precision")["in_use"]), narrow, "kernels stayed on");
            assert_eq!(found(&of("workers")["in_use"]), expected, "the precision stayed");
            let all = found(&of("+ workers")["in_use"]);
            assert_eq!(all, (true, on.to_string()));

            assert_eq!(error(of("name=\"other\"")), 0.0, "{}: {work}", small.config);
            assert_eq!(error(of("workers")), 0.0, "{}: {work}", small.config);
            let kernels = error(of("kernels"));
            assert!(kernels < 1e-4, "{}: {work}: {kernels}", small.config);
            // Only kernels multiply bf16.
            let narrow = error(of("precision"));
            let has_tensors = on == Policy::BF16_MIXED;
            assert_eq!(narrow > 1e-5, has_tensors, "{}: {work}: {narrow}", small.config);
            let with_kernels = error(of("+ precision"));
            let multiplies = has_tensors || small.task == "masked-images";
            assert_eq!(with_kernels > 1e-5, multiplies, "{}: {with_kernels}", small.config);
        }
        let parity = &row(&value, "inference", "precision")["parity"];
        let metrics = parity["metrics"].as_array().expect("a list");
        let named: BTreeSet<_> = metrics.iter().filter_map(|it| it["metric"].as_str()).collect();
        assert!(small.metrics.iter().all(|name| named.contains(name)), "{named:?}");
        assert_eq!(parity["ssim"].is_number(), small.task == "image-to-image", "{parity}");
        assert_eq!(error(row(&value, "training", "recompute")), 0.0, "{}", small.config);
    }
}

#[test]
fn products_of_bf16_have_no_row_where_no_layer_has_them() {
    if Policy::BF16_PRODUCTS.check_device(&Device::flex()).is_err() {
        return;
    }
    let dir = tempfile::tempdir().expect("temporary folder");
    let more = ["--options", "precision,workers", "--only", "inference", "--repeats", "1"];
    let set = ["--set", "precision=\"bf16-products\""];
    let (said, value) = compare(dir.path(), 1, &[&more[..], &set].concat());
    let words = "precision             no effect: no layer of the network multiplies bf16";
    assert!(said.stdout.contains(words), "{}", said.stdout);
    let rows = value["comparisons"][0]["rows"].as_array().expect("a list");
    assert!(rows.iter().all(|row| row["name"] != "precision"), "{value}");
}

#[test]
fn a_planted_slow_setting_is_seen_and_the_page_shows_it() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let more = [
        "--options",
        "kernels,fusion",
        "--only",
        "training",
        "--repeats",
        "2",
        "--out",
        "out",
        // Ten times the steps for the same samples.
        "--try",
        "train.batch=2",
        "--set",
        "train.batch=40",
    ];
    let (said, value) = compare(dir.path(), 0, &more);
    let slow = row(&value, "training", "train.batch=2");
    assert_eq!(slow["verdict"], "slower", "{slow}");
    assert!(slow["ratio"]["median"].as_f64() < Some(0.9), "{slow}");
    let reason = slow["not_comparable"].as_str().expect("a reason");
    assert_eq!(reason, "its batches have another size");
    assert!(said.stdout.contains("fusion                no effect: flex does not have it"));
    // Of one optimization with an effect there is nothing to add.
    let rows = value["comparisons"][0]["rows"].as_array().expect("a list");
    assert_eq!((value["comparisons"].as_array().map(Vec::len), rows.len()), (Some(1), 3));
    let read = |name: &str| std::fs::read_to_string(dir.path().join("out").join(name));
    let page = read("report.html").expect("a page");
    assert_eq!(page.matches("class=\"rate\"").count(), 3, "{page}");
    assert!(page.contains("background:#d55e00") && page.contains("train.batch=2"), "{page}");
    assert_eq!(json(&read("result.json").expect("a result")), value);
    assert!(said.stderr.contains("next     updraft tune-performance "), "{}", said.stderr);
    assert!(!dir.path().join("runs").exists());
}

#[test]
fn bad_input_is_refused_before_anything_is_measured() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let config = crate::command::config("quickstart.toml");
    let config = config.as_str();
    for (arguments, words) in [
        (&["compare-options", "gone.toml"][..], "gone.toml"),
        (
            &["compare-options", config, "--options", "kernels,speed"],
            "--options names `speed`; it must be a list of kernels, threads, precision, workers",
        ),
        (
            &["compare-options", config, "--options", "kernels,kernels"],
            "--options names `kernels` twice",
        ),
        (&["compare-options", config, "--steps", "0"], "--steps is 0; it must be 1 to 100000"),
        (&["compare-options", config, "--repeats", "0"], "--repeats is 0; it must be 1 to"),
        (&["compare-options", config, "--try", " "], "a --try is empty; give its settings"),
        (&["compare-options", config, "--try", "train.wokers=1"], "the row `train.wokers=1`: "),
        (&["compare-options", config, "--only", "both"], "[possible values: training, inference]"),
        (&["compare-options", config, "--set", "device=cuda:0"], "cuda:0"),
        (&["batch-sweep", "gone.toml"], "gone.toml"),
        (&["batch-sweep", config, "--sizes", "0,1"], "--sizes begins with 0; a batch has at least"),
        (&["batch-sweep", config, "--sizes", "4,2"], "--sizes has 4 before 2; sizes must increase"),
        (&["batch-sweep", config, "--sizes", "4,4"], "--sizes has 4 before 4"),
        (
            &["batch-sweep", config, "--sizes", "1,2"],
            "--sizes 1: `train.batch` is 1; it must be at",
        ),
        (&["batch-sweep", config, "--sizes", "four"], "invalid value 'four' for '--sizes"),
        (
            &["batch-sweep", config, "--sizes", "4,9000"],
            "--sizes has 9000; it must be at most 2400, the training samples",
        ),
        (&["batch-sweep", config, "--steps", "0"], "--steps is 0; it must be 1 to 100000"),
        (&["batch-sweep", config, "--memory-limit", "0"], "--memory-limit is 0"),
        (
            &["batch-sweep", config, "--sizes", "8,16", "--memory-limit", "1"],
            "a batch of 8 takes more than 1 MiB, the memory limit; begin with a smaller one",
        ),
        (&["tune-performance", "gone.toml"], "gone.toml"),
        (&["tune-performance", config, "--steps", "0"], "--steps is 0; it must be 1 to 100000"),
        (&["tune-performance", config, "--repeats", "1"], "--repeats is 1; it must be 2 to 100000"),
        (&["tune-performance", config, "--out", "fast.txt"], "it must end with .toml"),
    ] {
        let said = run(dir.path(), arguments);
        assert_eq!(said.code, 2, "{arguments:?}: {}", said.stderr);
        assert!(said.stderr.contains(words), "{arguments:?}: {}", said.stderr);
    }
    let left = std::fs::read_dir(dir.path()).expect("a folder").count();
    // The folder of results is made before the first process.
    assert!(left <= 1, "{left} files were written");
}

#[test]
fn a_row_that_fails_is_a_row_and_the_others_are_measured() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let more = [
        "--options",
        "kernels",
        "--only",
        "training",
        "--repeats",
        "1",
        // More than there is of the data.
        "--try",
        "train.batch=120 train.accumulate=2",
    ];
    let (said, value) = compare(dir.path(), 0, &more);
    let failed = &row(&value, "training", "train.batch=120 train.accumulate=2")["failed"];
    let reason = failed.as_str().expect("a reason");
    assert!(reason.contains("the training data has no 2 batches of 120 samples"), "{reason}");
    assert!(error(row(&value, "training", "kernels")) < 1e-4);
    assert!(said.stdout.contains("the training data has no 2 batches"), "{}", said.stdout);
}

#[test]
#[cfg(target_os = "linux")]
fn a_sweep_measures_each_size_until_one_is_out_of_memory() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let sweep = |more: &[&str]| {
        let small = &TASKS[0];
        let mut arguments = small.arguments("batch-sweep", &["model.channels=16"]);
        arguments.extend(["--steps", "2", "--repeats", "2"].map(str::to_owned));
        arguments.extend(more.iter().map(|text| (*text).to_owned()));
        let said = succeed(dir.path(), &texts(&arguments));
        for line in said.stdout.lines().filter(|line| !line.starts_with('{')) {
            assert!(line.chars().count() <= 80, "{line}");
        }
        let value = json(said.stdout.lines().last().unwrap_or_default());
        (said, value)
    };
    let (said, value) = sweep(&["--sizes", "2,4,120"]);
    let sizes = value["works"][0]["sizes"].as_array().expect("a list").clone();
    assert_eq!(sizes.len(), 3, "{value}");
    let peak = |at: usize| sizes[at]["peak_bytes"].as_u64().expect("known");
    assert!(peak(2) > peak(0) + (2 << 20), "{sizes:?}");
    let best = &value["works"][0]["best"];
    assert_eq!(best["memory_per_sample"], 120, "{best}");
    assert!(best["latency"].as_u64() < Some(120), "{best}");
    // The test data has 40 images.
    let inference = value["works"][1]["sizes"].as_array().expect("a list");
    assert_eq!(inference[2]["failed"], "there are only 40 test samples", "{value}");
    assert!(said.stdout.contains("best throughput    batch "), "{}", said.stdout);
    assert!(said.stderr.contains("--set train.batch="), "{}", said.stderr);

    // Between the smallest and the largest.
    let limit = (((peak(0) + peak(2)) / 2) >> 20).to_string();
    let more = ["--sizes", "2,120", "--only", "training", "--memory-limit", &limit];
    let (said, value) = sweep(&more);
    let sizes = &value["works"][0]["sizes"];
    assert_eq!(sizes[1]["failed"], "out of memory", "{value}");
    assert!(sizes[0]["samples_per_s"]["median"].as_f64() > Some(0.0), "{value}");
    assert_eq!(value["works"][0]["best"]["throughput"], 2);
    assert!(said.stdout.contains("     120  out of memory"), "{}", said.stdout);
}

#[test]
fn a_tuned_profile_is_one_that_train_takes() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let small = &TASKS[0];
    let mut arguments = small.arguments("tune-performance", &[]);
    let more = ["--steps", "2", "--repeats", "2", "--out", "fast/a.toml"];
    arguments.extend(more.map(str::to_owned));
    let said = succeed(dir.path(), &texts(&arguments));
    for line in said.stdout.lines().filter(|line| !line.starts_with('{')) {
        assert!(line.chars().count() <= 80, "{line}");
    }
    let value = json(said.stdout.lines().last().unwrap_or_default());
    let text = std::fs::read_to_string(dir.path().join("fast/a.toml")).expect("a profile");
    let profile: toml::Table = toml::from_str(&text).expect("TOML");
    // Precision and threads are suggested only.
    assert_eq!(profile.keys().collect::<Vec<_>>(), ["data", "train"], "{text}");
    let suggested = value["suggested"].as_array().expect("a list");
    assert!(suggested.iter().any(|it| it["name"] == "precision"), "{value}");
    for key in value["keys"].as_array().expect("a list") {
        for tried in key["tried"].as_array().expect("a list") {
            let is_gain = tried["ratio"].as_f64() > Some(1.05);
            assert!(is_gain || key["taken"] != tried["value"], "{key}");
        }
    }
    let mut train = small.arguments("train", &["train.epochs=1"]);
    train.extend(["--profile", "fast/a.toml"].map(str::to_owned));
    let run = succeed(dir.path(), &texts(&train)).run_folder();
    let plan = std::fs::read_to_string(dir.path().join(run).join("plan.toml")).expect("a plan");
    let plan: toml::Table = toml::from_str(&plan).expect("TOML");
    assert_eq!(plan["train"]["workers"], profile["train"]["workers"]);
    assert_eq!(plan["data"]["cache"]["kind"], profile["data"]["cache"]["kind"]);
}
