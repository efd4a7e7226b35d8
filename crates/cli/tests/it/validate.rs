//! `validate`: a trained model beside another one, or another form of it.

use std::fs;
use std::path::Path;

use burn::tensor::Device;
use updraft_precision::Policy;

use crate::command::{Said, TASKS, json, run, succeed, texts, tiny};

/// Runs `validate` and returns its output with the JSON.
fn validate(dir: &Path, name: &str, against: &str, more: &[&str]) -> (Said, serde_json::Value) {
    let arguments = [&["validate", name, "--against", against][..], more].concat();
    let said = run(dir, &arguments);
    assert!(said.code < 2, "{arguments:?}: {}", said.stderr);
    for line in said.stdout.lines().filter(|line| !line.starts_with('{')) {
        assert!(line.chars().count() <= 80 || line.contains("runs/"), "{line}");
    }
    let value = json(said.stdout.lines().last().unwrap_or_default());
    assert_eq!(value["passed"], said.code == 0, "{value}");
    (said, value)
}

/// Copies a folder with all that is in it.
pub(crate) fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("made");
    for entry in fs::read_dir(from).expect("a folder").flatten() {
        let to = to.join(entry.file_name());
        match entry.path().is_dir() {
            true => copy(&entry.path(), &to),
            false => drop(fs::copy(entry.path(), to).expect("copied")),
        }
    }
}

#[test]
fn every_task_is_compared_with_other_precisions_and_with_recomputation() {
    let dir = tempfile::tempdir().expect("temporary folder");
    for small in &TASKS {
        let folder = small.succeed(dir.path(), "train", &[]).run_folder();
        let name = folder.to_str().expect("text");
        let loose = ["--tolerance", "0.2", "--metric-tolerance", "0.2"];
        let (said, value) = validate(dir.path(), name, "precision=bf16-mixed", &loose);
        assert_eq!(said.code, 0, "{}: {}", small.config, said.stdout);
        assert_eq!(value["samples"], small.test_samples, "{value}");
        let error = value["relative_error"].as_f64().expect("a number");
        assert!(error > 1e-5 && value["largest_error"].as_f64() > Some(0.0), "{value}");
        assert_eq!(value["ssim"].is_number(), small.task == "image-to-image", "{value}");
        let metrics = value["metrics"].as_array().expect("a list");
        let named: Vec<_> = metrics.iter().filter_map(|it| it["metric"].as_str()).collect();
        assert!(small.metrics.iter().all(|name| named.contains(name)), "{named:?}");
        // The reference has the metrics that `eval` prints.
        let eval = json(&succeed(dir.path(), &["eval", name, "--json"]).stdout);
        assert!(
            metrics
                .iter()
                .all(|it| { it["reference"] == eval[it["metric"].as_str().unwrap_or_default()] })
        );

        let products = "precision=bf16-products";
        match Policy::BF16_PRODUCTS.check_device(&Device::flex()) {
            Ok(_) => {
                let (said, value) = validate(dir.path(), name, products, &loose);
                assert_eq!(said.code, 0, "{}: {}", small.config, said.stdout);
                // Only the networks of masked images have layers that multiply bf16.
                let error = value["relative_error"].as_f64().expect("a number");
                assert_eq!(error > 1e-5, small.task == "masked-images", "{value}");
            }
            Err(refused) => {
                let said = run(dir.path(), &["validate", name, "--against", products]);
                assert_eq!(said.code, 2, "{}: {}", small.config, said.stdout);
                assert!(said.stderr.contains(&refused.to_string()), "{}", said.stderr);
            }
        }

        let (said, value) = validate(dir.path(), name, "recompute=element-wise", &[]);
        assert_eq!(said.code, 0, "{}: {}", small.config, said.stdout);
        assert_eq!(value["compared"], "gradients");
        let exact = ["--tolerance", "0.0000001"];
        let (said, _) = validate(dir.path(), name, "precision=bf16-mixed", &exact);
        assert_eq!(said.code, 1, "{}", small.config);
        assert!(said.stderr.contains("relative error of the outputs is"), "{}", said.stderr);
    }
}

#[test]
fn a_run_equals_its_copy_and_differs_from_its_int8_network_and_from_other_runs() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let folder = succeed(dir.path(), &tiny(&["--set", "model.channels=8"])).run_folder();
    let name = folder.to_str().expect("text");
    copy(&dir.path().join(&folder), &dir.path().join("copy"));
    let strict = ["--tolerance", "0", "--metric-tolerance", "0"];
    let (said, value) = validate(dir.path(), name, "copy", &strict);
    assert_eq!((said.code, &value["relative_error"]), (0, &serde_json::json!(0.0)));
    let psnr = said.stdout.lines().find(|line| line.starts_with("PSNR ")).expect("a line");
    assert!(psnr.ends_with(" equal"), "{}", said.stdout);

    // Segments round in another order.
    let (_, value) = validate(dir.path(), name, "recompute=segments", &[]);
    assert_eq!(value["passed"], true, "{value}");
    assert!(value["largest_error"].as_f64() > Some(0.0), "{value}");

    succeed(dir.path(), &["quantize", name, "--calibration", "60"]);
    let (_, value) = validate(dir.path(), name, "int8", &["--metric-tolerance", "1"]);
    assert_eq!(value["passed"], true, "{value}");
    assert!(value["relative_error"].as_f64() > Some(1e-3), "{value}");

    let (said, _) = validate(dir.path(), name, "checkpoint=6", &[]);
    assert_eq!(said.code, 1, "{}", said.stdout);
    let (said, value) = validate(dir.path(), name, "copy", &["--checkpoint", "6"]);
    assert_eq!(said.code, 1, "{}", said.stdout);
    assert!(value["reference"].as_str().expect("text").contains("step 6"), "{value}");
    // Outputs may pass where a metric does not.
    let (said, _) = validate(dir.path(), name, "checkpoint=6", &["--tolerance", "10"]);
    assert!(said.stderr.contains("--metric-tolerance 0.01"), "{}", said.stderr);
}

#[test]
fn what_cannot_be_compared_is_refused_with_the_reason() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let train = |sets: &[&str]| {
        let more: Vec<&str> = sets.iter().flat_map(|set| ["--set", *set]).collect();
        let folder = succeed(dir.path(), &tiny(&more)).run_folder();
        folder.to_str().expect("text").to_owned()
    };
    let name = train(&["train.epochs=1"]);
    let other_classes = train(&["train.epochs=1", "data.cue=\"brightness\""]);
    let other_scale = train(&["train.epochs=1", "data.std=[0.5, 0.5, 0.5]"]);
    let fewer = train(&["train.epochs=1", "data.test_images=20"]);
    let small = &TASKS[1];
    let arguments = small.arguments("train", &["train.epochs=1"]);
    let of_table = succeed(dir.path(), &texts(&arguments)).run_folder();
    let of_table = of_table.to_str().expect("text");
    fs::create_dir(dir.path().join("empty")).expect("made");
    let files = dir.path().join("runs").to_str().expect("text").to_owned();
    for (against, more, words) in [
        ("empty", &[][..], "`empty` is not a run folder: it has no plan.toml"),
        (&files, &[], "is not a run folder"),
        ("gone", &[], "--against is `gone`; it must be an existing run folder, int8, precision="),
        ("recompute=all", &[], "--against is `recompute=all`; it must be"),
        ("precision=f31", &[], "--against is `precision=f31`; it must be"),
        ("precision=bf16", &[], "must store parameters in f32, as checkpoints do"),
        ("precision=p=f32,c=f64,o=f32", &[], "without f64"),
        ("precision=f32", &[], "the precision of the run: name another one"),
        ("checkpoint=x", &[], "--against is `checkpoint=x`; it must be"),
        ("checkpoint=3", &[], "has no checkpoint of step 3; it has those of the steps 6"),
        ("checkpoint=6", &[], "--against names the model of the run itself"),
        (&name, &[], "--against names the model of the run itself"),
        ("int8", &[], "has no int8 network: it was not quantized"),
        (&other_classes, &[], "is not what the run"),
        (&other_scale, &[], "the inputs of the models differ, from test sample 0 on"),
        (&fewer, &[], "one of them has fewer test samples, from test sample 20 on"),
        (of_table, &[], "the run is of task `image-classification`, and that of --against of task"),
        (
            "precision=bf16-mixed",
            &["--tolerance", "NaN"],
            "--tolerance is NaN; it must be at least",
        ),
        ("precision=bf16-mixed", &["--metric-tolerance=-1"], "--metric-tolerance is -1; it must"),
        ("precision=bf16-mixed", &["--checkpoint", "9"], "has no checkpoint of step 9"),
    ] {
        let arguments = [&["validate", &name, "--against", against][..], more].concat();
        let said = run(dir.path(), &arguments);
        assert_eq!(said.code, 2, "{arguments:?}: {}{}", said.stdout, said.stderr);
        assert!(said.stderr.contains(words), "{arguments:?}: {}", said.stderr);
        assert!(said.stdout.is_empty(), "{}", said.stdout);
    }
    let said = run(dir.path(), &["validate", "empty", "--against", "int8"]);
    assert!(said.code == 2 && said.stderr.contains("is not a run folder"), "{}", said.stderr);
    let said = run(dir.path(), &["validate", of_table, "--against", "int8"]);
    assert!(said.stderr.contains("--against int8 is not for task `tables`"), "{}", said.stderr);
    let said = run(dir.path(), &["validate", of_table, "--against", "recompute=segments"]);
    assert_eq!(said.code, 2, "{}", said.stderr);
}
