//! Vision transformers that begin with the encoder of a masked autoencoder.

use std::collections::BTreeMap;
use std::fs;
use std::ops::ControlFlow;
use std::path::Path;

use updraft_data::{CellsConfig, Raster, Volume, write_cells, write_volume};
use updraft_run::{FilePrediction, Plan, RunFolder, TrainedModel};

use crate::masked_images::{VOLUMES, plan, weights};
use crate::plans::read_with;
use crate::train::{Watcher, train, try_train};

/// Colored images of 16 × 16 with a manifest.
fn colors(dir: &Path) {
    let mut rows = "input,split\n".to_owned();
    for image in 0..4_u32 {
        let of = |at: u32| (at * (image + 3) % 251) as u8;
        let raster = Raster::try_new(3, &[16, 16], (0..768).map(of).collect::<Vec<_>>());
        let raster = raster.expect("a raster");
        let volume = Volume::try_new("colors", vec![raster], [None; 3]).expect("a volume");
        write_volume(dir.join(format!("{image}.tif")), &volume, &Default::default())
            .expect("written");
        let split = if image == 0 { "test" } else { "train" };
        rows += &format!("{image}.tif,{split}\n");
    }
    fs::write(dir.join("volumes.csv"), rows).expect("written");
}

/// The numbers of every tensor in the exported weights of a run.
fn tensors(folder: &RunFolder, plan: &Plan) -> BTreeMap<String, Vec<u8>> {
    let bytes = weights(folder, plan);
    let (length, rest) = bytes.split_at(8);
    let length = u64::from_le_bytes(length.try_into().expect("8 bytes")) as usize;
    let header: serde_json::Value = serde_json::from_slice(&rest[..length]).expect("JSON");
    let tensors = header.as_object().expect("a table").iter();
    tensors
        .filter(|(name, _)| *name != "__metadata__")
        .map(|(name, tensor)| {
            let at = |end: usize| tensor["data_offsets"][end].as_u64().expect("a number") as usize;
            (name.clone(), rest[length..][at(0)..at(1)].to_vec())
        })
        .collect()
}

/// A classifier of generated images with the encoder of a run.
fn classifier(encoder: &Path, sets: &[&str]) -> Plan {
    let text = "[data]\nheight = 16\nwidth = 16\ntrain_images = 32\ntest_images = 16\n\
        [model]\nkind = \"vision-transformer\"\npatch = [4, 4]\nembedding = 8\nlayers = 2\n\
        heads = 2\n[train]\nepochs = 1\nbatch = 8\nlearning_rate = 1e-20\n";
    let encoder = format!("model.encoder={encoder:?}");
    let sets: Vec<&str> = sets.iter().copied().chain([encoder.as_str()]).collect();
    read_with(text, &sets).expect("valid").plan
}

#[test]
fn a_classifier_begins_with_the_encoder_of_a_run_and_refuses_other_shapes() {
    let dir = tempfile::tempdir().expect("temporary folder");
    colors(dir.path());
    let set = format!("data.dir={:?}", dir.path());
    let masked = plan(&[&set]);
    let pretrained = train(&masked, dir.path(), None, &mut Watcher::default()).folder;
    let expected = tensors(&pretrained, &masked);
    let checkpoint = pretrained.served_checkpoint(&masked).expect("a checkpoint");
    for encoder in [pretrained.path(), checkpoint.as_path()] {
        let plan = classifier(encoder, &[]);
        let mut stops = Watcher { stop_after: Some(1), ..Watcher::default() };
        let stopped = train(&plan, dir.path(), None, &mut stops).folder;
        let resumed = train(&plan, dir.path(), Some(stopped), &mut Watcher::default());
        // The learning rate is too small to move a number of f32.
        let found = tensors(&resumed.folder, &plan);
        let of_encoder: Vec<&String> =
            found.keys().filter(|name| name.starts_with("encoder.")).collect();
        assert!(of_encoder.len() > 20, "{of_encoder:?}");
        for name in of_encoder {
            assert!(found[name] == expected[name], "{name}");
        }
    }
    let refused = |plan: &Plan| {
        let trained = try_train(plan, dir.path(), None, &mut Watcher::default());
        trained.expect_err("refused").to_string()
    };
    let said = refused(&classifier(pretrained.path(), &["model.embedding=12"]));
    assert!(said.contains("`model.embedding` is 12 and that of the encoder's run `"), "{said}");
    let said = refused(&classifier(pretrained.path(), &["data.height=32"]));
    let sides = "`[data.height, data.width]` is [32, 16] and `data.patch` of the encoder's run `";
    assert!(said.contains(sides), "{said}");
    let said = refused(&classifier(pretrained.path(), &["model.layers=3"]));
    assert!(said.contains("`model.layers` is 3 and that of the encoder's run `"), "{said}");
    let other = classifier(pretrained.path(), &[]);
    let other = train(&other, dir.path(), None, &mut Watcher::default()).folder;
    let said = refused(&classifier(other.path(), &[]));
    assert!(said.contains("a run of `image-classification`; it must be one of"), "{said}");
    let said = refused(&classifier(&dir.path().join("nothing"), &[]));
    assert!(said.contains("nothing"), "{said}");
    let diverged = plan(&[
        &set,
        "train.learning_rate=1e30",
        "train.schedule={kind='constant'}",
        "train.optimizer={kind='sgd',momentum=0.0}",
        "train.non_finite={kind='ignore'}",
    ]);
    let diverged = train(&diverged, dir.path(), None, &mut Watcher::default()).folder;
    let said = refused(&classifier(diverged.path(), &[]));
    assert!(said.contains("`model.encoder` is") && said.contains("is not finite"), "{said}");
}

#[test]
fn settings_of_a_vision_transformer_are_refused_with_what_is_accepted() {
    for (sets, said) in [
        (vec!["model.patch=[5, 4]"], "`data.height` is 16; it must be one of a network"),
        (vec!["model.heads=3"], "`model.heads` is 3; it must be"),
        (vec!["model.kind=separable"], "is not read beside `model.kind = \"separable\"`"),
        (vec!["train.recompute_batch_norms=2"], "train.recompute_batch_norms"),
    ] {
        let text = "[data]\nheight = 16\nwidth = 16\n[model]\nkind = \"vision-transformer\"\n\
            patch = [4, 4]\nembedding = 8\nlayers = 2\nheads = 2\n";
        let error = read_with(text, &sets).err().expect("refused").to_string();
        assert!(error.contains(said), "{error}\n{said}");
    }
}

#[test]
fn vision_transformers_for_classes_and_images_are_captured_for_int8() {
    // Their parameters are drawn.
    let _alone = updraft_testing::alone();
    let classes = "[data]\nheight = 16\nwidth = 16\n[model]\nkind = \"vision-transformer\"\n\
        patch = [4, 4]\nembedding = 8\nlayers = 2\nheads = 2\n";
    for text in [classes, DENSE] {
        let plan = read_with(text, &[]).expect("valid").plan;
        plan.task.quantizer().expect("not refused").graph().expect("captured");
    }
}

/// A segmentation of generated cells by a vision transformer.
const DENSE: &str = "task = \"image-to-image\"\n\
    [data]\npatch = [16, 16]\npatches = 8\nsides = [32, 32]\ntrain_fields = 3\ntest_fields = 1\n\
    [model]\nkind = \"vision-transformer\"\npatch = [4, 4]\nembedding = 8\nlayers = 2\nheads = 2\n\
    [train]\nepochs = 2\nbatch = 4\n";

#[test]
fn a_segmentation_begins_with_the_encoder_of_a_run_and_resumes_to_the_same_bits() {
    let dir = tempfile::tempdir().expect("temporary folder");
    for more in [vec![], VOLUMES.to_vec()] {
        let masked = plan(&more);
        let pretrained = train(&masked, dir.path(), None, &mut Watcher::default()).folder;
        let encoder = format!("model.encoder={:?}", pretrained.path());
        let dense = |sets: &[&str]| {
            let sets: Vec<&str> = [&more[..], &[&encoder], sets].concat();
            read_with(DENSE, &sets).expect("valid").plan
        };
        // The learning rate is too small to move a number of f32.
        let still = dense(&["train.learning_rate=1e-20"]);
        let begun = train(&still, dir.path(), None, &mut Watcher::default()).folder;
        let (expected, found) = (tensors(&pretrained, &masked), tensors(&begun, &still));
        for (name, values) in found.iter().filter(|(name, _)| name.starts_with("encoder.")) {
            assert!(*values == expected[name], "{name}");
        }
        for sets in [&[][..], &["data.target=input", "train.recompute=segments"]] {
            let plan = dense(sets);
            let whole = train(&plan, dir.path(), None, &mut Watcher::default());
            let mut stops = Watcher { stop_after: Some(2), ..Watcher::default() };
            let stopped = train(&plan, dir.path(), None, &mut stops);
            let resumed = train(&plan, dir.path(), Some(stopped.folder), &mut Watcher::default());
            assert!(weights(&resumed.folder, &plan) == weights(&whole.folder, &plan), "{sets:?}");
            assert!(whole.test.expect("a score").loss().is_finite());
        }
    }
}

#[test]
fn a_vision_transformer_segments_cells() {
    let sets = [
        "train.epochs=8",
        "data.patches=32",
        "data.sides=[64, 64]",
        "data.labels=foreground",
        "model.embedding=32",
        "train.learning_rate=0.003",
    ];
    let dir = tempfile::tempdir().expect("temporary folder");
    let plan = read_with(DENSE, &sets).expect("valid").plan;
    let trained = train(&plan, dir.path(), None, &mut Watcher::default());
    let dice = trained.test.expect("a score").value("dice").expect("defined");
    // All background is 0, all foreground about 0.6.
    assert!(dice > 0.75, "{dice}");

    let _alone = updraft_testing::alone();
    let model = TrainedModel::load(trained.folder.path(), "flex").expect("a run");
    let config = CellsConfig { sides: vec![10, 40], seed: 3 };
    write_cells(dir.path(), &config, 2, 1, &mut |_| {}).expect("written");
    let input = dir.path().join("field000_fluorescence.ome.tif");
    let mut request = FilePrediction::new(&input, dir.path().join("mask.ome.tif"));
    // An image that is lower than the window is padded.
    let written = model.predict_image(&request, &mut |_| ControlFlow::Continue(()));
    assert_eq!(written.expect("predicted").sides, [10, 40]);
    request.window = Some(vec![8, 8]);
    let refused = model.predict_image(&request, &mut |_| ControlFlow::Continue(()));
    let said = refused.expect_err("refused").to_string();
    assert!(said.contains("leave out --window"), "{said}");
}

#[test]
fn settings_of_a_transformer_that_converts_images_are_refused_with_what_is_accepted() {
    for (sets, said) in [
        (vec!["data.patch=[16, 18]"], "the width of an image is 18, which patches of 4 do not"),
        (vec!["model.heads=3"], "`model.heads` is 3; it must be a divisor of `model.embedding`"),
        (vec!["model.patch=[4]"], "`model.patch` is [4]; it must be 2 sides, as `data.patch` is"),
        (vec!["model.filters=[2, 4]"], "is not read beside `model.kind = \"vision-transformer\"`"),
        (vec!["train.recompute_batch_norms=2"], "train.recompute_batch_norms"),
    ] {
        let error = read_with(DENSE, &sets).err().expect("refused").to_string();
        assert!(error.contains(said), "{error}\n{said}");
    }
}
