//! A trained run in int8.

use std::fs;

use updraft_quant::{Arithmetic, PlannedLayer, QuantizedModel, Reason};

use crate::command::{run, succeed, tiny};

#[test]
fn a_run_is_quantized_and_its_page_reports_it() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let trained = succeed(dir.path(), &tiny(&["--set", "model.channels=8"]));
    let folder = dir.path().join(trained.run_folder());
    let name = folder.to_str().expect("a path in UTF-8");
    let said = succeed(dir.path(), &["quantize", name, "--calibration", "60"]);
    assert!(said.stdout.contains("test accuracy"), "{}", said.stdout);
    assert!(said.stderr.contains("[3/5] calibrate"), "{}", said.stderr);

    let bytes = fs::read(folder.join("model.int8")).expect("a model");
    let model = QuantizedModel::try_from_bytes(&bytes).expect("whole");
    assert_eq!(model.calibrated().samples, 60);
    let plan = model.plan();
    let is_expected = |layer: &PlannedLayer| {
        matches!(layer.arithmetic, Arithmetic::Int8 | Arithmetic::F32(Reason::Tail))
    };
    assert!(plan.layers.iter().all(is_expected), "the means alone stay in f32: {plan}");
    let names: Vec<&str> = plan.layers.iter().map(|layer| layer.name.as_str()).collect();
    for part in ["color_stem.conv", "brightness_stem.conv", "gate.mix", "classifier.output"] {
        assert!(names.iter().any(|name| name.contains(part)), "{part} is not in {names:?}");
    }
    assert!(fs::metadata(folder.join("model.onnx")).expect("an export").len() > 1000);

    let text = fs::read_to_string(folder.join("quant.json")).expect("a report");
    let report: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let evaluation = &report["evaluation"];
    assert_eq!(evaluation["samples"], 40);
    assert!(evaluation["int8_share"].as_f64() > Some(0.99), "{text}");
    assert_eq!(evaluation["bytes_int8"], bytes.len());
    assert!(evaluation["agreement"].as_f64() >= Some(0.9), "{text}");
    assert!(evaluation["sqnr_db"].as_f64() >= Some(25.0), "{text}");
    // The result of `eval` for the same network, in f32.
    let said = succeed(dir.path(), &["eval", name, "--json"]);
    let score: serde_json::Value = serde_json::from_str(&said.stdout).expect("JSON");
    assert_eq!(evaluation["score_f32"], score["accuracy"], "{text}");

    succeed(dir.path(), &["report", name]);
    let page = fs::read_to_string(folder.join("report.html")).expect("a page");
    assert!(page.contains("<h2>Int8</h2>") && page.contains("color_stem.conv"));

    // Again, replacing the first.
    succeed(dir.path(), &["quantize", name, "--calibration", "20", "--all-int8"]);
    let bytes = fs::read(folder.join("model.int8")).expect("a model");
    let plan = QuantizedModel::try_from_bytes(&bytes).expect("whole").plan();
    assert!(plan.is_int8(), "both pathways, integration and brightness: {plan}");

    // Each residual sum by itself, for other runtimes.
    let layers = plan.layers.len();
    succeed(dir.path(), &["quantize", name, "--calibration", "20", "--separate-sums"]);
    let bytes = fs::read(folder.join("model.int8")).expect("a model");
    let plan = QuantizedModel::try_from_bytes(&bytes).expect("whole").plan();
    assert!(plan.layers.len() > layers, "{plan}");

    // By another method and with a layer in f32.
    let keep = ["--keep", "classifier.hidden", "--method", "minmax"];
    succeed(dir.path(), &[&["quantize", name, "--calibration", "20"][..], &keep].concat());
    let bytes = fs::read(folder.join("model.int8")).expect("a model");
    let plan = QuantizedModel::try_from_bytes(&bytes).expect("whole").plan();
    assert!(!plan.is_int8() && plan.int8_share() > 0.9, "{plan}");
    let unknown = run(dir.path(), &["quantize", name, "--keep", "nothing"]);
    assert_eq!(unknown.code, 2);
    assert!(unknown.stderr.contains("no layer is named `nothing`"), "{}", unknown.stderr);
}

#[test]
fn a_network_of_masks_is_quantized_with_its_transposed_convolutions() {
    let dir = tempfile::tempdir().expect("temporary folder");
    for upsampling in ["transposed", "linear"] {
        let text = format!(
            "task = \"image-to-image\"\nname = \"masks\"\n[data]\ntarget = \"labels\"\n\
             classes = 3\npatch = [16, 24]\npatches = 8\nsides = [32, 48]\ntrain_fields = 3\n\
             test_fields = 2\n[model]\nfilters = [4, 8]\nblock = \"plain\"\n\
             normalization = \"batch\"\nupsampling = \"{upsampling}\"\n\
             [train]\nepochs = 2\nbatch = 4\n"
        );
        fs::write(dir.path().join("masks.toml"), text).expect("a configuration");
        let trained = succeed(dir.path(), &["train", "masks.toml"]);
        let folder = dir.path().join(trained.run_folder());
        let name = folder.to_str().expect("a path in UTF-8");
        let said = succeed(dir.path(), &["quantize", name, "--calibration", "20"]);
        assert!(said.stdout.contains("test dice per window"), "{}", said.stdout);
        let bytes = fs::read(folder.join("model.int8")).expect("a model");
        let model = QuantizedModel::try_from_bytes(&bytes).expect("whole");
        assert_eq!(model.calibrated().samples, 20);
        assert!(model.plan().is_int8(), "{}", model.plan());
        let text = fs::read_to_string(folder.join("quant.json")).expect("a report");
        let report: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        let score = |of: &str| report["evaluation"][of].as_f64().expect("a number");
        assert!((score("score_f32") - score("score_int8")).abs() < 0.05, "{text}");
        assert!(score("sqnr_db") > 20.0, "{text}");
        let refused = run(dir.path(), &["quantize", name, "--outliers", "8"]);
        assert!(refused.stderr.contains("classify images"), "{}", refused.stderr);
    }
}
