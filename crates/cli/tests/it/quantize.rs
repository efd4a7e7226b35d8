//! A trained run in int8.

use std::fs;

use updraft_quant::slices::Isa;
use updraft_quant::{Arithmetic, PlannedLayer, QuantizedModel, Reason};

use crate::command::{run, succeed, tiny};

#[test]
fn a_run_is_quantized_and_its_page_reports_it() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let trained = succeed(dir.path(), &tiny(&["--set", "model.channels=8"]));
    let folder = dir.path().join(trained.run_folder());
    let name = folder.to_str().expect("a path in UTF-8");
    let said = succeed(dir.path(), &["quantize", name, "--calibration", "60", "--only-int8"]);
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
fn each_layer_runs_in_the_faster_arithmetic_and_the_plan_is_printed() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let trained = succeed(dir.path(), &tiny(&["--set", "model.channels=8"]));
    let folder = dir.path().join(trained.run_folder());
    let name = folder.to_str().expect("a path in UTF-8");
    let quantize = ["quantize", name, "--calibration", "20"];
    let said = succeed(dir.path(), &[&quantize[..], &["--plan"]].concat());
    assert!(said.stderr.contains("[4/6] time each layer"), "{}", said.stderr);
    for expected in ["measured, ", "runs in", "by the plan", "of the multiply-adds in int8"] {
        assert!(said.stdout.contains(expected), "{}", said.stdout);
    }
    assert!(said.stdout.lines().all(|line| line.chars().count() <= 80), "{}", said.stdout);

    // The file has the plan, and what is served and was scored follows it.
    let report = || -> serde_json::Value {
        let text = fs::read_to_string(folder.join("quant.json")).expect("a report");
        serde_json::from_str(&text).expect("JSON")
    };
    let model = || {
        let bytes = fs::read(folder.join("model.int8")).expect("a model");
        QuantizedModel::try_from_bytes(&bytes).expect("whole")
    };
    let (measured, isa) = (report(), Isa::detect());
    let table = measured["speed"]["layers"].as_array().expect("layers");
    let planned = model().for_processor(isa).plan();
    assert_eq!(table.len(), planned.layers.len());
    for (row, layer) in table.iter().zip(&planned.layers) {
        let is_float = layer.arithmetic != Arithmetic::Int8;
        assert_eq!(row["is_in_f32"], is_float, "{}", layer.name);
    }
    assert_eq!(measured["evaluation"]["int8_share"].as_f64(), Some(planned.int8_share()));
    let said = succeed(dir.path(), &["eval", name, "--int8", "--json"]);
    let score: serde_json::Value = serde_json::from_str(&said.stdout).expect("JSON");
    assert_eq!(measured["evaluation"]["score_int8"], score["accuracy"]);

    // On request, every processor computes in int8.
    succeed(dir.path(), &[&quantize[..], &["--only-int8"]].concat());
    assert!(report()["speed"].is_null());
    assert!(Isa::DOTS.iter().all(|isa| model().speed_plan(*isa).is_int8()));
    let both = run(dir.path(), &[&quantize[..], &["--plan", "--only-int8"]].concat());
    assert_eq!(both.code, 2);
    assert!(both.stderr.contains("cannot be used with"), "{}", both.stderr);
}

#[test]
fn bits_are_chosen_for_a_budget_and_the_page_has_the_front() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let trained = succeed(dir.path(), &tiny(&["--set", "model.channels=8"]));
    let folder = dir.path().join(trained.run_folder());
    let name = folder.to_str().expect("a path in UTF-8");
    let quantize = |more: &[&str]| {
        run(dir.path(), &[&["quantize", name, "--calibration", "20"][..], more].concat())
    };
    let said = quantize(&["--budget", "0.2", "--equalize", "--bias-correction"]);
    assert_eq!(said.code, 0, "{}", said.stderr);
    for expected in ["one layer quantized alone", "chosen: ", "% of the bytes of f32"] {
        assert!(said.stdout.replace('\n', " ").contains(expected), "{}", said.stdout);
    }
    assert!(said.stdout.lines().all(|line| line.chars().count() <= 80), "{}", said.stdout);
    let report = || -> serde_json::Value {
        let text = fs::read_to_string(folder.join("quant.json")).expect("a report");
        serde_json::from_str(&text).expect("JSON")
    };
    let evaluation = &report()["evaluation"];
    let bytes = |name: &str| evaluation[name].as_f64().expect("a number");
    assert!(bytes("parameter_bytes") <= 0.2 * bytes("bytes_f32"), "{evaluation}");
    let file = fs::read(folder.join("model.int8")).expect("a model");
    let plan = QuantizedModel::try_from_bytes(&file).expect("whole").plan();
    let bits = |layer: &PlannedLayer| layer.weights.is_some_and(|format| format.bits() < 8);
    assert!(plan.layers.iter().any(bits), "{plan}");
    let front = report()["bits"]["front"].as_array().expect("a front").len();
    assert!(front > 3, "{front}");
    succeed(dir.path(), &["report", name]);
    let page = fs::read_to_string(folder.join("report.html")).expect("a page");
    assert!(page.contains("Bits of each layer"), "the page has no section");

    // The same network again from its file.
    succeed(dir.path(), &["eval", name, "--int8"]);

    let said = quantize(&["--budget", "0.001"]);
    assert_ne!(said.code, 0);
    assert!(said.stderr.contains("nearest possible budget"), "{}", said.stderr);
    let said = quantize(&["--max-drop", "50"]);
    assert_eq!(said.code, 0, "{}", said.stderr);
    assert!(said.stdout.contains("chosen: "), "{}", said.stdout);

    // Activations in f32 lose less than codes of eight bits.
    let lost = || report()["evaluation"]["sqnr_db"].as_f64().expect("noise");
    assert_eq!(quantize(&["--bits", "4"]).code, 0);
    let with_codes = lost();
    let said = quantize(&["--bits", "4", "--weights-only"]);
    assert_eq!(said.code, 0, "{}", said.stderr);
    assert!(lost() > with_codes, "{} {with_codes}", lost());
    assert_eq!(report()["evaluation"]["int8_share"], 0.0);
    succeed(dir.path(), &["report", name]);
    let page = fs::read_to_string(folder.join("report.html")).expect("a page");
    assert!(page.contains("<h2>Quantized weights</h2>") && !page.contains("<h2>Int8</h2>"));
    succeed(dir.path(), &["eval", name, "--int8"]);

    let said = quantize(&["--bits", "4", "--rounding", "gptq", "--group", "16"]);
    assert_eq!(said.code, 0, "{}", said.stderr);
    assert!(said.stdout.contains("were rounded by their results"), "{}", said.stdout);
    for (arguments, expected) in [
        (["--bits", "5"], "the nearest supported number is 4"),
        (["--layer", "stem"], "such as stem.conv=4"),
        (["--layer", "nothing=4"], "no layer is named `nothing`"),
        (["--budget", "1.5"], "at most 1"),
        (["--max-drop", "-1"], "at least 0"),
        (["--group", "16"], "of weights of fewer than 8 bits"),
        (["--asymmetric", "--bits=1"], "of weights of 4, 3 or 2 bits"),
        (["--weights-only", "--plan"], "cannot be used with"),
        (["--layer=classifier.hidden=4", "--layer=classifier.hidden=2"], "bits twice"),
    ] {
        let said = quantize(&arguments);
        assert_eq!(said.code, 2, "{}", said.stderr);
        let text = said.stderr.replace("\n  ", " ");
        assert!(text.contains(expected), "{text}");
    }
}

#[test]
fn keys_of_the_plan_decide_where_no_flag_does() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let keys = ["quantize.bits=4", "quantize.rounding=gptq", "quantize.calibration=20"];
    let sets = keys.map(|key| ["--set", key]).concat();
    let trained = succeed(dir.path(), &tiny(&[&["--set", "model.channels=8"][..], &sets].concat()));
    let folder = dir.path().join(trained.run_folder());
    let name = folder.to_str().expect("a path in UTF-8");
    let quantized = |flags: &[&str]| {
        succeed(dir.path(), &[&["quantize", name][..], flags].concat());
        let bytes = fs::read(folder.join("model.int8")).expect("a model");
        let model = QuantizedModel::try_from_bytes(&bytes).expect("whole");
        let bits = model.plan().layers.iter().filter_map(|layer| Some(layer.weights?.bits())).min();
        let text = fs::read_to_string(folder.join("quant.json")).expect("a report");
        let report: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        let rounded = report["rounded_layers"].as_array().expect("a list").len();
        (model.calibrated().samples, bits, rounded > 0)
    };
    assert_eq!(quantized(&[]), (20, Some(4), true));
    let flags = ["--bits", "8", "--rounding", "nearest", "--calibration", "30"];
    assert_eq!(quantized(&flags), (30, Some(8), false));

    for (sets, expected) in [
        (["quantize.bits=5", "seed=1"], "`quantize.bits` is 5; it must be 8, 4, 3, 2 or 1"),
        (["quantize.bits=4", "quantize.budget=0.2"], "`quantize.bits` is 4; it must be left out"),
        (["quantize.max_drop=1.0", "quantize.budget=0.2"], "left out with `quantize.budget`"),
        (["quantize.rounding=up", "seed=1"], "quantize.rounding"),
        (
            ["task=masked-images", "quantize.bits=4"],
            "it must be left out: a masked autoencoder reads some",
        ),
    ] {
        let said = run(dir.path(), &["train", "--set", sets[0], "--set", sets[1]]);
        assert_eq!(said.code, 2, "{}", said.stderr);
        let text = said.stderr.replace("\n  ", " ");
        assert!(text.contains(expected), "{text}");
    }
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
