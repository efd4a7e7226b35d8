//! `eval` and `predict` with the int8 network of a run.

use std::fs;
use std::path::Path;

use crate::command::{Said, json, run, said, succeed, tiny, updraft};

/// Runs a command on a number of threads and insists on success.
pub(crate) fn on_threads(dir: &Path, arguments: &[&str], threads: &str) -> Said {
    let mut command = updraft(dir, arguments);
    let said = said(command.env("RAYON_NUM_THREADS", threads).output().expect("it starts"));
    assert_eq!(said.code, 0, "{arguments:?}: {}", said.stderr);
    said
}

#[test]
fn the_int8_network_of_a_classifier_has_the_accuracy_that_quantize_printed() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let folder = succeed(dir.path(), &tiny(&["--set", "model.channels=8"])).run_folder();
    let name = folder.to_str().expect("text");
    let quantized = succeed(dir.path(), &["quantize", name, "--calibration", "60"]);
    let next = format!("predict {name} FILE... --int8\n");
    assert!(quantized.stderr.ends_with(&next), "{}", quantized.stderr);
    let row = quantized.stdout.lines().find(|line| line.starts_with("test accuracy"));
    let row: Vec<&str> = row.expect("a row").split_whitespace().collect();
    // `test accuracy 50.00 % 52.50 %`
    let accuracy = row[4..].join(" ");

    let printed = succeed(dir.path(), &["eval", name, "--int8"]);
    assert!(printed.stdout.contains(&format!("accuracy {accuracy}")), "{}", printed.stdout);
    let of_int8 = on_threads(dir.path(), &["eval", name, "--int8", "--json"], "1").stdout;
    let again = on_threads(dir.path(), &["eval", name, "--int8", "--json"], "3").stdout;
    assert_eq!(of_int8, again);
    let text = fs::read_to_string(dir.path().join(&folder).join("quant.json")).expect("a report");
    assert_eq!(json(&of_int8)["accuracy"], json(&text)["evaluation"]["score_int8"]);
    let of_f32 = succeed(dir.path(), &["eval", name, "--json"]).stdout;
    assert_ne!(json(&of_int8)["loss"], json(&of_f32)["loss"]);

    for (at, file) in ["a.png", "b.png"].iter().enumerate() {
        let color = image::Rgb([200, 90 * at as u8, 20]);
        image::RgbImage::from_pixel(30, 20, color).save(dir.path().join(file)).expect("saved");
    }
    let predict = ["predict", name, "a.png", "b.png", "--top", "3", "--json", "--int8"];
    let of_int8 = on_threads(dir.path(), &predict, "1").stdout;
    assert_eq!(on_threads(dir.path(), &predict, "3").stdout, of_int8);
    assert_eq!(of_int8.lines().count(), 2);
    assert!(of_int8.lines().all(|line| json(line)["classes"].as_array().map(Vec::len) == Some(3)));
    let of_f32 = succeed(dir.path(), &predict[..7]).stdout;
    assert_ne!(of_int8, of_f32);

    // A run that was trained further has to be quantized again.
    let plan = dir.path().join(&folder).join("plan.toml");
    let text = fs::read_to_string(&plan).expect("a plan");
    fs::write(&plan, text.replace("epochs = 2", "epochs = 3")).expect("written");
    succeed(dir.path(), &["train", "--resume", name]);
    for arguments in [&["eval", name, "--int8"][..], &["predict", name, "a.png", "--int8"]] {
        let refused = run(dir.path(), arguments);
        assert_eq!(refused.code, 2, "{}", refused.stderr);
        assert!(refused.stderr.contains("which it does not serve"), "{}", refused.stderr);
    }
    succeed(dir.path(), &["quantize", name, "--calibration", "20"]);
    succeed(dir.path(), &["eval", name, "--int8"]);
}

#[test]
fn the_int8_network_of_masks_predicts_files_by_windows() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let text = "task = \"image-to-image\"\nname = \"masks\"\n[data]\ntarget = \"labels\"\n\
                classes = 3\npatch = [16, 24]\npatches = 8\nsides = [32, 48]\n\
                train_fields = 3\ntest_fields = 2\n[model]\nfilters = [4, 8]\n\
                block = \"plain\"\nnormalization = \"batch\"\n[train]\nepochs = 1\nbatch = 4\n";
    fs::write(dir.path().join("masks.toml"), text).expect("a configuration");
    let folder = succeed(dir.path(), &["train", "masks.toml"]).run_folder();
    let name = folder.to_str().expect("text");
    let quantized = succeed(dir.path(), &["quantize", name, "--calibration", "20"]);
    assert!(!quantized.stdout.contains("agree"), "{}", quantized.stdout);
    let next = format!("predict {name} FILE --out FILE --int8\n");
    assert!(quantized.stderr.ends_with(&next), "{}", quantized.stderr);
    let score = succeed(dir.path(), &["eval", name, "--int8", "--json"]).stdout;
    assert!(json(&score)["dice"].is_number(), "{score}");

    // Larger than a window, and not a multiple of one.
    let cells = updraft_data::CellsConfig { sides: vec![37, 50], seed: 3 };
    updraft_data::write_cells(dir.path(), &cells, 3, 1, &mut |_| {}).expect("written");
    let input = "field000_fluorescence.ome.tif";
    let predict = |out: &str, threads: &str, more: &[&str]| {
        let arguments =
            [&["predict", name, input, "--out", out, "--batch", "2"][..], more].concat();
        on_threads(dir.path(), &arguments, threads);
        fs::read(dir.path().join(out)).expect("a prediction")
    };
    let kept = ["--int8", "--keep-channels"];
    let of_int8 = predict("one.tif", "1", &kept);
    assert!(predict("three.tif", "3", &kept) == of_int8, "other threads");
    assert!(predict("f32.tif", "1", &kept[1..]) != of_int8, "the same as in f32");
    predict("mask.tif", "3", &["--int8", "--components", "components.tif"]);
    assert!(dir.path().join("components.csv").exists());
}
