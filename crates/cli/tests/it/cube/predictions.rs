//! Predictions and int8 networks of runs that the CPU trained, on a GPU beside the CPU.

use std::fs;
use std::path::Path;

use serde_json::Value;

use super::device::{CLOSE, gpu};
use crate::command::{Small, TASKS, json, succeed};
use crate::int8_tables::write_table;

/// Masks of images, which interpolates.
const MASKS: &str = "\
task = \"image-to-image\"
name = \"masks\"
[data]
target = \"labels\"
classes = 3
patch = [16, 16]
patches = 8
sides = [32, 32]
train_fields = 3
test_fields = 1
[model]
filters = [4, 8]
block = \"plain\"
normalization = \"batch\"
upsampling = \"linear\"
[train]
epochs = 1
batch = 4
";

/// A run of a task that the CPU has trained.
fn trained(small: &Small, dir: &Path) -> String {
    let run = small.succeed(dir, "train", &["device=flex", "train.epochs=1"]).run_folder();
    run.to_str().expect("text").to_owned()
}

/// The run of a configuration in the folder, which the CPU has trained.
fn trained_with(config: &str, dir: &Path) -> String {
    let run = succeed(dir, &["train", config, "--device", "flex"]).run_folder();
    run.to_str().expect("text").to_owned()
}

/// Asserts that two values differ in their numbers alone, and these by [`CLOSE`].
#[track_caller]
fn assert_same(found: &Value, expected: &Value) {
    match (found, expected) {
        (Value::Array(found), Value::Array(expected)) => {
            assert_eq!(found.len(), expected.len());
            found.iter().zip(expected).for_each(|(found, expected)| assert_same(found, expected));
        }
        (Value::Object(found), Value::Object(expected)) => {
            assert!(found.keys().eq(expected.keys()), "{found:?} {expected:?}");
            found.values().zip(expected.values()).for_each(|(found, expected)| {
                assert_same(found, expected);
            });
        }
        (Value::Number(found), Value::Number(expected)) => {
            let [found, expected] = [found, expected].map(|it| it.as_f64().expect("a number"));
            let is_close = (found - expected).abs() <= CLOSE * expected.abs().max(1.0);
            assert!(is_close, "{found} instead of {expected}");
        }
        _ => assert_eq!(found, expected),
    }
}

#[test]
fn classes_numbers_and_splines_are_predicted_as_on_the_cpu() {
    let Some(gpu) = gpu() else { return };
    let dir = tempfile::tempdir().expect("temporary folder");
    write_table(dir.path());
    let mixed = trained_with("c.toml", dir.path());
    let splines = trained(&TASKS[1], dir.path());
    let images = trained(&TASKS[0], dir.path());
    fs::write(dir.path().join("x.csv"), "x1,x2\n0.5,0.5\n-0.25,0.75\n").expect("written");
    let pixel = |x, y| image::Rgb([(x * 9) as u8, (y * 7) as u8, 50]);
    image::RgbImage::from_fn(16, 16, pixel).save(dir.path().join("a.png")).expect("saved");
    for arguments in [
        &["predict", &mixed, "new.csv", "--json", "--top", "2"][..],
        &["predict", &splines, "x.csv", "--json"],
        &["predict", &images, "a.png", "--json", "--top", "3"],
    ] {
        let on = |device: &str| {
            let said = succeed(dir.path(), &[arguments, &["--device", device]].concat());
            said.stdout.lines().map(json).collect::<Vec<_>>()
        };
        let (expected, found) = (on("flex"), on(&gpu));
        assert!(!expected.is_empty(), "{arguments:?} printed nothing");
        assert_same(&Value::from(found), &Value::from(expected));
    }
}

#[test]
fn images_are_predicted_into_files_as_on_the_cpu() {
    let Some(gpu) = gpu() else { return };
    let dir = tempfile::tempdir().expect("temporary folder");
    let cells = updraft_data::CellsConfig { sides: vec![32, 40], seed: 3 };
    updraft_data::write_cells(dir.path(), &cells, 2, 1, &mut |_| {}).expect("written");
    fs::write(dir.path().join("masks.toml"), MASKS).expect("written");
    let (light, color) = ("field000_transmitted.ome.tif", "field000_fluorescence.ome.tif");
    for (run, input, more) in [
        (trained(&TASKS[2], dir.path()), light, &[][..]),
        (trained_with("masks.toml", dir.path()), color, &["--keep-channels"]),
        (trained(&TASKS[4], dir.path()), color, &[]),
    ] {
        let (expected, found) = (format!("{run}.cpu.tif"), format!("{run}.gpu.tif"));
        let [expected, found] = [expected, found].map(|name| name.replace('/', "-"));
        let predict = |device: &str, out: &str, rest: &[&str]| {
            let on = ["predict", &run, input, "--device", device, "--out", out, "--json"];
            json(&succeed(dir.path(), &[&on, more, rest].concat()).stdout)
        };
        predict("flex", &expected, &[]);
        let said = predict(&gpu, &found, &["--compare-with", &expected]);
        let metrics = said["metrics"].as_array().expect("a list");
        let largest = metrics.iter().find(|metric| metric["name"] == "largest-difference");
        let largest = largest.and_then(|metric| metric["value"].as_f64()).expect("a number");
        // Outputs are about 1.
        assert!(largest <= CLOSE, "{run}: {largest}");
    }
}

#[test]
fn networks_are_quantized_and_scored_in_int8_as_on_the_cpu() {
    let Some(gpu) = gpu() else { return };
    let dir = tempfile::tempdir().expect("temporary folder");
    write_table(dir.path());
    fs::write(dir.path().join("masks.toml"), MASKS).expect("written");
    for config in ["c.toml", "masks.toml"] {
        let run = trained_with(config, dir.path());
        let quantized = |device: &str| {
            let quantize = ["quantize", &run, "--calibration", "8", "--only-int8"];
            succeed(dir.path(), &[&quantize[..], &["--device", device]].concat());
            let report = fs::read_to_string(dir.path().join(&run).join("quant.json"));
            json(&report.expect("a report"))
        };
        let (expected, found) = (quantized("flex"), quantized(&gpu));
        assert_eq!(found["device"], gpu.as_str());
        for name in ["score_f32", "score_int8"] {
            let [found, expected] =
                [&found, &expected].map(|of| of["evaluation"][name].as_f64().expect("a score"));
            // A pixel between two classes may have the other one.
            assert!((found - expected).abs() <= 0.02, "{config}: {name} {found} {expected}");
        }
        let on_cpu = succeed(dir.path(), &["eval", &run, "--int8", "--json"]).stdout;
        let on_gpu = ["eval", &run, "--int8", "--json", "--device", &gpu];
        assert_eq!(succeed(dir.path(), &on_gpu).stdout, on_cpu, "{config}");
    }
}
