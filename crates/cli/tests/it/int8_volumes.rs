//! Int8 networks of volumes: those of linear layers, and why others are refused.

use std::fs;
use std::path::{Path, PathBuf};

use crate::command::{json, run, succeed};

/// Trains on generated volumes; returns the run folder.
fn trained(dir: &Path, model: &str) -> PathBuf {
    let text = format!(
        "task = \"image-to-image\"\nname = \"volumes\"\n[data]\ntarget = \"labels\"\n\
         classes = 3\npatch = [8, 16, 16]\npatches = 8\nsides = [8, 32, 32]\n\
         train_fields = 3\ntest_fields = 1\n[model]\n{model}[train]\nepochs = 1\nbatch = 4\n"
    );
    fs::write(dir.join("volumes.toml"), text).expect("a configuration");
    succeed(dir, &["train", "volumes.toml"]).run_folder()
}

#[test]
fn a_vision_transformer_of_volumes_is_quantized_and_predicts_files() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let model = "kind = \"vision-transformer\"\npatch = [4, 4, 4]\nembedding = 16\nlayers = 1\n\
                 heads = 2\n";
    let folder = trained(dir.path(), model);
    let name = folder.to_str().expect("text");
    succeed(dir.path(), &["quantize", name, "--calibration", "20", "--only-int8"]);
    let text = fs::read_to_string(dir.path().join(&folder).join("quant.json")).expect("a report");
    let evaluation = &json(&text)["evaluation"];
    assert!(evaluation["int8_share"].as_f64() > Some(0.5), "{text}");
    assert!(evaluation["sqnr_db"].as_f64() > Some(15.0), "{text}");
    let score = succeed(dir.path(), &["eval", name, "--int8", "--json"]).stdout;
    assert!(json(&score)["dice"].is_number(), "{score}");

    let cells = updraft_data::CellsConfig { sides: vec![8, 20, 24], seed: 3 };
    updraft_data::write_cells(dir.path(), &cells, 3, 1, &mut |_| {}).expect("written");
    let input = "field000_fluorescence.ome.tif";
    let predict = ["predict", name, input, "--keep-channels", "--out"];
    succeed(dir.path(), &[&predict[..], &["f32.tif"]].concat());
    succeed(dir.path(), &[&predict[..], &["int8.tif", "--int8"]].concat());
    let read = |file: &str| fs::read(dir.path().join(file)).expect("a prediction");
    assert!(read("int8.tif") != read("f32.tif"), "the same as in f32");
}

#[test]
fn a_network_whose_products_are_all_of_volumes_is_refused_with_the_reason() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let folder = trained(dir.path(), "filters = [2, 4]\nnormalization = \"batch\"\n");
    let name = folder.to_str().expect("text");
    for arguments in [&["quantize", name][..], &["eval", name, "--int8"]] {
        let said = run(dir.path(), arguments);
        assert_eq!(said.code, 2, "{}", said.stdout);
        let reason = "so that none of its products would be of integers";
        assert!(said.stderr.contains(reason), "{}", said.stderr);
    }
}
