//! `quantize` of a table with several targets, and what serves its int8 network.

use std::fs;
use std::path::Path;

use updraft_quant::QuantizedModel;

use crate::command::{json, run, succeed};
use crate::int8::on_threads;

/// Rows of numbers and a category, of which a class and a number follow.
pub(crate) fn write_table(dir: &Path) {
    let mut text = "a,b,color,kind,size\n".to_owned();
    for at in 0..240 {
        let (a, b) = (f64::from(at * 37 % 101) / 10.0, f64::from(at * 53 % 89) / 10.0);
        let color = ["red", "green", "blue"][at as usize % 3];
        let kind = if a + b > 9.0 { "far" } else { "near" };
        let size = 2.0 * a - b + 3.0 * f64::from(at % 3);
        text += &format!("{a},{b},{color},{kind},{size}\n");
    }
    fs::write(dir.join("t.csv"), text).expect("written");
    fs::write(dir.join("new.csv"), "a,b,color\n1.5,2,red\n9,8,green\n4,0.5,blue\n")
        .expect("written");
    let config = "task = \"tables\"\nname = \"mixed\"\nseed = 3\n[data]\nsource = \"files\"\n\
                  dir = \".\"\nfiles = [\"t.csv\"]\ntest_fraction = 0.25\n[targets]\n\
                  kind = { kind = \"classes\" }\nsize = { kind = \"number\" }\n[model]\n\
                  hidden = [24, 16]\nfrequencies = 4\n[train]\nepochs = 8\nbatch = 24\n\
                  learning_rate = 0.01\n";
    fs::write(dir.join("c.toml"), config).expect("written");
}

/// The predicted sizes on the lines of `predict --json`, each with a predicted kind.
fn sizes(lines: &str) -> Vec<f64> {
    let size = |line: &str| {
        let predicted = json(line);
        let [kind, size] = [0, 1].map(|at| predicted["targets"][at].clone());
        assert_eq!((&kind["name"], &size["name"]), (&json("\"kind\""), &json("\"size\"")));
        assert_eq!(kind["classes"].as_array().map(Vec::len), Some(1), "{line}");
        size["number"]["value"].as_f64().expect("a number")
    };
    lines.lines().map(size).collect()
}

#[test]
fn the_int8_network_of_a_table_serves_a_class_and_a_number() {
    let dir = tempfile::tempdir().expect("temporary folder");
    write_table(dir.path());
    let folder = succeed(dir.path(), &["train", "c.toml"]).run_folder();
    let name = folder.to_str().expect("text");
    let path = dir.path().join(&folder);
    let refused = run(dir.path(), &["eval", name, "--int8"]);
    assert!(refused.stderr.contains("it was not quantized; `quantize "), "{}", refused.stderr);

    let quantized = succeed(dir.path(), &["quantize", name, "--only-int8"]);
    assert!(quantized.stdout.contains("test squared error"), "{}", quantized.stdout);
    assert!(!quantized.stdout.contains("agree"), "{}", quantized.stdout);
    let next = format!("predict {name} FILE... --int8\n");
    assert!(quantized.stderr.ends_with(&next), "{}", quantized.stderr);
    let bytes = fs::read(path.join("model.int8")).expect("a model");
    let model = QuantizedModel::try_from_bytes(&bytes).expect("whole");
    // Embeddings of three colors and an unknown one with 2 numbers, 8 numbers for `a` and for `b`.
    assert_eq!(model.inputs()[0].shape, [18]);
    assert_eq!(model.outputs().map(|port| port.shape.clone()).collect::<Vec<_>>(), [[2], [1]]);
    assert!(model.plan().is_int8(), "{}", model.plan());
    let text = fs::read_to_string(path.join("quant.json")).expect("a report");
    let evaluation = &json(&text)["evaluation"];
    assert_eq!(evaluation["samples"], 60);
    assert!(evaluation["sqnr_db"].as_f64() >= Some(20.0), "{text}");
    let score = |of: &str| evaluation[of].as_f64().expect("a number");
    assert!((score("score_f32") - score("score_int8")).abs() < 0.02, "{text}");

    let of_f32 = json(&succeed(dir.path(), &["eval", name, "--json"]).stdout);
    let of_int8 = on_threads(dir.path(), &["eval", name, "--int8", "--json"], "1").stdout;
    let again = on_threads(dir.path(), &["eval", name, "--int8", "--json"], "3").stdout;
    assert_eq!(of_int8, again);
    let of_int8 = json(&of_int8);
    assert_ne!(of_f32["loss"], of_int8["loss"]);
    let both = |name: &str| [&of_f32, &of_int8].map(|of| of[name].as_f64().expect("a metric"));
    let [accuracy, accuracy_int8] = both("kind-accuracy");
    assert!((accuracy - accuracy_int8).abs() <= 0.05, "{of_f32} {of_int8}");
    let [rmse, rmse_int8] = both("size-rmse");
    assert!((rmse - rmse_int8).abs() < 0.1 * rmse, "{of_f32} {of_int8}");

    let predict = ["predict", name, "new.csv", "--json"];
    let int8 = [&predict[..], &["--int8"]].concat();
    let of_int8 = on_threads(dir.path(), &int8, "1").stdout;
    assert_eq!(on_threads(dir.path(), &int8, "3").stdout, of_int8);
    let of_f32 = succeed(dir.path(), &predict).stdout;
    assert_ne!(of_f32, of_int8);
    let [expected, found] = [sizes(&of_f32), sizes(&of_int8)];
    assert_eq!(found.len(), 3);
    // The sizes deviate by 7.
    let is_near = |(a, b): (&f64, &f64)| (a - b).abs() < 1.0;
    assert!(expected.iter().zip(&found).all(is_near), "{expected:?} {found:?}");
    succeed(dir.path(), &["predict", name, "new.csv", "--int8", "--out", "out.csv"]);
    let table = fs::read_to_string(dir.path().join("out.csv")).expect("a table");
    assert_eq!(table.lines().count(), 4, "{table}");

    let tolerances = ["--tolerance", "0.2", "--metric-tolerance", "1"];
    succeed(dir.path(), &[&["validate", name, "--against", "int8"][..], &tolerances].concat());
    succeed(dir.path(), &["report", name]);
    let page = fs::read_to_string(path.join("report.html")).expect("a page");
    assert!(page.contains("<h2>Int8</h2>") && page.contains("heads"));

    // A run that was trained further has to be quantized again.
    let plan = path.join("plan.toml");
    let text = fs::read_to_string(&plan).expect("a plan");
    fs::write(&plan, text.replace("epochs = 8", "epochs = 9")).expect("written");
    succeed(dir.path(), &["train", "--resume", name]);
    for arguments in [&["eval", name, "--int8"][..], &["predict", name, "new.csv", "--int8"]] {
        let refused = run(dir.path(), arguments);
        assert_eq!(refused.code, 2, "{}", refused.stderr);
        assert!(refused.stderr.contains("which it does not serve"), "{}", refused.stderr);
    }
}

#[test]
fn the_flags_of_a_quantization_are_for_tables_too() {
    let dir = tempfile::tempdir().expect("temporary folder");
    write_table(dir.path());
    succeed(dir.path(), &["pipeline", "c.toml", "--budget", "0.5"]);
    let runs = fs::read_dir(dir.path().join("runs")).expect("runs");
    let folder = runs.map(|run| run.expect("a run").path()).find(|path| path.is_dir());
    let folder = folder.expect("a run");
    assert!(folder.join("model.int8").exists() && folder.join("pipeline.json").exists());
    let name = folder.to_str().expect("text");
    for flags in [
        &["--bits", "4", "--rounding", "gptq", "--bias-correction"][..],
        &["--budget", "0.4"],
        &["--weights-only"],
        &["--equalize", "--sensitivity"],
        &["--every-method", "--plan"],
        &["--keep", "layers.0"],
    ] {
        succeed(dir.path(), &[&["quantize", name, "--calibration", "60"][..], flags].concat());
        succeed(dir.path(), &["eval", name, "--int8"]);
    }
    for (flags, words) in [
        (["--budget", "0.001"], "nearest possible budget"),
        (["--max-drop", "1"], "squared error is not one; use `--budget`"),
        (["--outliers", "8"], "classify images"),
        (["--keep", "nothing"], "no layer is named `nothing`"),
    ] {
        let quantize = ["quantize", name, "--calibration", "60"];
        let said = run(dir.path(), &[&quantize[..], &flags].concat());
        assert_ne!(said.code, 0, "{}", said.stdout);
        let text = said.stderr.replace("\n  ", " ");
        assert!(text.contains(words), "{text}");
    }
}
