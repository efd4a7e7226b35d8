//! All steps from a configuration to int8, as one command.

use std::fs;
use std::path::{Path, PathBuf};

use updraft_quant::QuantizedModel;

use crate::command::{config, run, succeed, tiny};

/// `tiny`, for the pipeline.
fn small<'a>(more: &[&'a str]) -> Vec<&'a str> {
    let mut arguments = tiny(more);
    arguments[0] = "pipeline";
    arguments.extend(["--calibration", "60", "--set", "train.recompute_batch_norms=2"]);
    arguments.extend(["--set", "train.ema_decay=0.9"]);
    arguments
}

fn json(path: &Path) -> serde_json::Value {
    let text = fs::read_to_string(path).expect("a file");
    serde_json::from_str(&text).expect("JSON")
}

fn only_run(dir: &Path) -> PathBuf {
    let mut runs = fs::read_dir(dir.join("runs")).expect("runs");
    let run = runs.next().expect("one run").expect("readable").path();
    assert!(runs.next().is_none(), "one run only");
    run
}

#[test]
fn a_separable_network_goes_from_a_config_to_int8_with_every_method() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let settings = ["--set", "model={kind='separable',channels=4,stem_stride=2}"];
    let more = ["--outliers", "64", "--every-method"];
    // After `tiny`'s own `model.channels`, so that it is replaced.
    let said = succeed(dir.path(), &[small(&settings), more.to_vec()].concat());
    for (number, step) in [
        "train",
        "reload and test",
        "plant outliers",
        "capture",
        "calibrate",
        "test in f32 and int8",
        "test the other methods",
        "time both",
        "report",
    ]
    .iter()
    .enumerate()
    {
        let label = format!("[{}/9] {step}", number + 1);
        assert!(said.stderr.contains(&label), "{label} is missing in {}", said.stderr);
    }
    let folder = only_run(dir.path());
    let last: serde_json::Value =
        serde_json::from_str(said.stdout.lines().last().expect("a line")).expect("JSON");
    assert_eq!(dir.path().join(last["run"].as_str().expect("a path")), folder);

    let manifest = json(&folder.join("pipeline.json"));
    assert_eq!(manifest["steps"].as_array().map(Vec::len), Some(9));
    assert_eq!(manifest["reload"]["same_score"], true);
    // The run's own result for the same model.
    let summary = json(&folder.join("summary.json"));
    assert_eq!(manifest["test"], summary["test"]);
    for file in manifest["files"].as_array().expect("files") {
        let name = file["name"].as_str().expect("a name");
        let bytes = fs::read(folder.join(name)).expect("there");
        assert_eq!(file["bytes"], bytes.len(), "{name}");
    }

    let quant = json(&folder.join("quant.json"));
    assert_eq!(quant["outliers"], 64.0);
    let methods = quant["methods"].as_array().expect("methods");
    let names: Vec<_> = methods.iter().map(|row| row["method"].as_str().expect("a name")).collect();
    assert_eq!(names, ["minmax", "percentile", "entropy", "mse"]);
    let chosen = methods.iter().find(|row| row["method"] == "mse").expect("the default");
    assert_eq!(chosen["sqnr_db"], quant["evaluation"]["sqnr_db"]);
    let differs = |row: &serde_json::Value| row["sqnr_db"] != methods[0]["sqnr_db"];
    assert!(methods.iter().any(differs), "all observers give the same: {methods:?}");
    let bytes = fs::read(folder.join("model.int8")).expect("a model");
    let plan = QuantizedModel::try_from_bytes(&bytes).expect("whole").plan();
    let is_depthwise = |name: &str| name.contains("blocks.4.depthwise.conv");
    assert!(plan.layers.iter().any(|layer| is_depthwise(&layer.name)), "{plan}");
    let page = fs::read_to_string(folder.join("report.html")).expect("a page");
    assert!(page.contains("<td>entropy</td>"));

    // The same network without outliers has less noise.
    let name = folder.to_str().expect("a path in UTF-8");
    succeed(dir.path(), &["quantize", name, "--calibration", "60"]);
    let plain = json(&folder.join("quant.json"));
    let [plain, planted] = [&plain, &quant].map(|report| report["evaluation"]["sqnr_db"].as_f64());
    assert!(plain > planted, "{plain:?} {planted:?}");
    // Every command takes the network.
    let score = succeed(dir.path(), &["eval", name, "--json"]);
    let score: serde_json::Value = serde_json::from_str(&score.stdout).expect("JSON");
    assert_eq!(score, manifest["test"]);
}

/// CIFAR-100's binary version, with generated images: a color for each of the hundred classes.
fn hundred_classes(folder: &Path, train: usize, test: usize) {
    let names = |count: usize| -> String { (0..count).map(|at| format!("name-{at}\n")).collect() };
    let records = |count: usize| -> Vec<u8> {
        let record = |at: usize| {
            let class = at % 100;
            let shade = |step: usize| (class * step % 256) as u8;
            let noise = |pixel: usize| (pixel.wrapping_mul(at * 31 + 7) % 23) as u8;
            let planes = [17, 59, 101].map(|step| {
                (0..1024).map(|pixel| shade(step).saturating_add(noise(pixel))).collect::<Vec<u8>>()
            });
            [vec![(class % 20) as u8, class as u8], planes.concat()].concat()
        };
        (0..count).flat_map(record).collect()
    };
    fs::create_dir(folder).expect("a folder");
    for (name, bytes) in [
        ("coarse_label_names.txt", names(20).into_bytes()),
        ("fine_label_names.txt", names(100).into_bytes()),
        ("train.bin", records(train)),
        ("test.bin", records(test)),
    ] {
        fs::write(folder.join(name), bytes).expect("written");
    }
}

#[test]
fn the_baseline_of_compression_goes_from_its_config_to_its_summary() {
    let dir = tempfile::tempdir().expect("temporary folder");
    hundred_classes(&dir.path().join("cifar-100"), 400, 100);
    let config = config("cifar100.toml");
    let mut arguments = vec!["pipeline", &config, "--data", ".", "--calibration", "50"];
    for set in [
        "data.files=cifar-100",
        "data.height=32",
        "data.width=32",
        "augment.translate=3",
        "model.width_factor=0.1",
        "model.depth_factor=0.3",
        "model.hidden=64",
        "train.epochs=1",
        "train.batch=50",
        "train.recompute_batch_norms=4",
    ] {
        arguments.extend(["--set", set]);
    }
    let said = succeed(dir.path(), &arguments);
    let folder = only_run(dir.path());
    let manifest = json(&folder.join("pipeline.json"));
    assert_eq!(manifest["reload"]["same_score"], true);
    assert!(json(&folder.join("quant.json"))["evaluation"]["score_int8"].is_number());
    // Two dropout layers of the head and the residual blocks of seven, as the log says.
    let log = fs::read_to_string(folder.join("log.jsonl")).expect("a log");
    let line = log.lines().find(|line| line.contains("batch norms recomputed")).expect("a line");
    let line: serde_json::Value = serde_json::from_str(line).expect("JSON");
    let fields = line.get("fields").unwrap_or(&line);
    assert_eq!(fields["batches"], 4, "{line}");
    assert!(fields["switched_off"].as_u64() > Some(2), "{line}");
    assert!(said.stdout.contains("int8"), "{}", said.stdout);
}

#[test]
fn a_network_that_was_trained_for_eight_bits_goes_to_them_and_is_refused_outliers() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let settings = [
        "--set",
        "model={kind='separable',channels=4,stem_stride=2}",
        "--set",
        "train.quantization=int4",
    ];
    let said = run(dir.path(), &[small(&settings), vec!["--outliers", "64"]].concat());
    assert_eq!(said.code, 2);
    assert!(said.stderr.contains("`train.quantization`; leave out --outliers"), "{}", said.stderr);
    for flags in [
        &["--equalize"][..],
        &["--weights-only"],
        &["--bits", "4"],
        &["--rounding", "gptq"],
        &["--every-method"],
        &["--budget", "0.3"],
        &["--max-drop", "1"],
        &["--sensitivity"],
        &["--group", "8"],
    ] {
        let said = run(dir.path(), &[&small(&settings)[..], flags].concat());
        assert_eq!(said.code, 2, "{flags:?}");
        let text = said.stderr.replace("\n  ", " ");
        assert!(text.contains("has learnt the steps of its codes"), "{text}");
        assert!(text.contains(flags[0]), "{text}");
    }
    assert!(!dir.path().join("runs").exists());
    succeed(dir.path(), &small(&settings));
    let evaluation = json(&only_run(dir.path()).join("quant.json"))["evaluation"].clone();
    // The evaluation in f32 rounds as training does.
    assert!(evaluation["sqnr_db"].as_f64() > Some(30.0), "{evaluation}");
}

#[test]
fn a_step_that_fails_is_named_leaves_no_partial_file_and_the_run_continues() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let trained = succeed(dir.path(), &tiny(&["--set", "model.channels=8"]));
    let folder = dir.path().join(trained.run_folder());
    let name = folder.to_str().expect("a path in UTF-8");
    // A file cannot take the place of a folder.
    fs::create_dir(folder.join("report.html")).expect("a folder");
    let failed = run(dir.path(), &["pipeline", "--resume", name, "--calibration", "60"]);
    assert_eq!(failed.code, 1, "{}", failed.stderr);
    assert!(failed.stderr.contains("step 7 of 7, report: "), "{}", failed.stderr);
    let left = || -> Vec<String> {
        let entries = fs::read_dir(&folder).expect("a folder");
        entries
            .map(|entry| entry.expect("readable").file_name().into_string().expect("text"))
            .collect()
    };
    let is_partial = |name: &String| name.ends_with(".part") || name.contains("partial");
    assert!(!left().iter().any(is_partial), "{:?}", left());
    assert!(!left().contains(&"pipeline.json".to_owned()));

    fs::remove_dir(folder.join("report.html")).expect("an empty folder");
    succeed(dir.path(), &["pipeline", "--resume", name, "--calibration", "60"]);
    assert!(left().contains(&"pipeline.json".to_owned()));
    assert_eq!(only_run(dir.path()), folder);
}

#[test]
fn a_run_that_continues_from_a_named_checkpoint_is_tested_with_its_last() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let sets = ["train.epochs=3", "train.keep_checkpoints=9", "model.channels=8"];
    let sets = sets.map(|set| ["--set", set]).concat();
    let folder = dir.path().join(succeed(dir.path(), &tiny(&sets)).run_folder());
    let checkpoints = fs::read_dir(folder.join("checkpoints")).expect("checkpoints");
    let steps = checkpoints.filter_map(|entry| {
        let name = entry.expect("readable").file_name().into_string().expect("text");
        name.strip_prefix("step-")?.parse::<u64>().ok()
    });
    let first = steps.min().expect("a checkpoint").to_string();
    let name = folder.to_str().expect("a path in UTF-8");
    let resume = ["pipeline", "--resume", name, "--checkpoint", &first, "--calibration", "60"];
    succeed(dir.path(), &resume);
    assert_eq!(json(&folder.join("pipeline.json"))["reload"]["same_score"], true);
}

#[test]
fn a_dry_run_shows_the_steps_and_the_plan() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let said = succeed(dir.path(), &small(&["--dry-run"]));
    assert!(said.stdout.contains("\n# [1/7] train\n# [2/7] reload and test\n"), "{}", said.stdout);
    let plan: toml::Table = toml::from_str(&said.stdout).expect("still a plan");
    assert_eq!(plan["model"]["kind"].as_str(), Some("dual-pathway"));
    assert!(!dir.path().join("runs").exists());
}

#[test]
fn settings_that_cannot_be_met_are_refused_before_the_training() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let said = run(dir.path(), &small(&["--outliers", "64"]));
    assert_eq!(said.code, 2);
    assert!(said.stderr.contains("`model.kind = \"separable\"`"), "{}", said.stderr);
    let said = run(dir.path(), &small(&["--budget", "0.0001"]));
    assert_eq!(said.code, 2);
    assert!(said.stderr.contains("no choice of bits has 0.0001"), "{}", said.stderr);
    let said = run(dir.path(), &small(&["--set", "quantize.group=8"]));
    assert_eq!(said.code, 2);
    assert!(said.stderr.contains("fewer than 8 bits"), "{}", said.stderr);
    let said = run(dir.path(), &small(&["--outliers", "-1"]));
    assert!(said.code == 2 && said.stderr.contains("a positive number"), "{}", said.stderr);
    assert!(!dir.path().join("runs").exists());
}
