//! Folders of photographs such as `ImageNet`: many classes, JPEGs of many sizes.

use std::fs;
use std::path::Path;

use image::{Rgb, RgbImage};
use updraft_data::{Image, decode};
use updraft_run::{ConfigError, Opening, Plan, Planned, TASKS, TrainedModel};
use updraft_trainer::Ending;

use crate::any_run::contents;
use crate::plans::read_with;
use crate::train::{Watcher, train};

/// A photograph of its own size: 20 to 38 pixels high and wide.
fn photograph(number: u8) -> RgbImage {
    let (width, height) = (20 + 3 * u32::from(number), 38 - 3 * u32::from(number));
    RgbImage::from_fn(width, height, |x, y| Rgb([30 * number, (9 * x) as u8, (7 * y) as u8]))
}

/// The parts `train` and `val` with class folders: two images of each class, and one.
fn folders(root: &Path, classes: usize) {
    let files: Vec<Vec<u8>> = (0..7)
        .map(|number| {
            let mut bytes = std::io::Cursor::new(Vec::new());
            let format = image::ImageFormat::Jpeg;
            photograph(number).write_to(&mut bytes, format).expect("encoded");
            bytes.into_inner()
        })
        .collect();
    for (part, of_each) in [("train", 2), ("val", 1)] {
        for class in 0..classes {
            let folder = root.join(part).join(format!("n{class:08}"));
            fs::create_dir_all(&folder).expect("created");
            for number in 0..of_each {
                let bytes = &files[(5 * class + number) % files.len()];
                fs::write(folder.join(format!("{number}.JPEG")), bytes).expect("written");
            }
        }
    }
}

/// A configuration of the repository on the folders of `data`, made small.
fn small(name: &str, data: &Path, sets: &[&str]) -> Plan {
    let _alone = updraft_testing::alone();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../configs").join(name);
    let text = fs::read_to_string(&path).expect("the configuration");
    let mut all = vec![format!("data.dir={:?}", data.display().to_string())];
    let sizes = ["data.height=16", "data.width=16", "model.channels=2", "train.epochs=1"];
    all.extend(sizes.iter().chain(&["train.batch=20"]).chain(sets).map(|set| (*set).to_owned()));
    Plan::read(TASKS, &text, &path, &all).expect("valid").plan
}

#[test]
fn a_run_of_many_classes_stopped_within_an_epoch_ends_in_the_bits_of_the_whole_one() {
    let dir = tempfile::tempdir().expect("temporary folder");
    folders(dir.path(), 120);
    for name in ["imagenet.toml", "imagenet-bf16.toml"] {
        let runs = dir.path().join(name.replace(".toml", ""));
        let plan = |sets: &[&str]| small(name, dir.path(), sets);
        let whole = train(&plan(&["train.workers=0"]), &runs, None, &mut Watcher::default());
        let kept = ["train.workers=2", "data.cache={kind='memory',budget_mib=1}"];
        let mut watcher = Watcher { stop_after: Some(5), ..Watcher::default() };
        let stopped = train(&plan(&kept), &runs, None, &mut watcher);
        assert_eq!(stopped.ending, Ending::Stopped, "an epoch has 12 updates");
        let resumed = plan(&["train.workers=1"]);
        let resumed = train(&resumed, &runs, Some(stopped.folder), &mut Watcher::default());
        assert_eq!(resumed.ending, Ending::Complete);
        assert!(contents(&resumed.folder) == contents(&whole.folder), "{name}");
        assert_eq!(resumed.test, whole.test);
        assert_eq!(whole.folder.pictures().expect("pictures").len(), 2);
        let classes: Vec<String> =
            serde_json::from_slice(&whole.folder.read("classes.json").expect("a file"))
                .expect("names");
        assert_eq!((classes.len(), classes[119].as_str()), (120, "n00000119"));
    }
}

#[test]
fn data_of_one_class_is_refused_by_its_folder_with_that_class() {
    let dir = tempfile::tempdir().expect("temporary folder");
    folders(dir.path(), 1);
    fs::write(dir.path().join("list.csv"), "path,class\ntrain/n00000000/0.JPEG,cat\n")
        .expect("written");
    let manifest = ["data.source=manifest", "data.train=list.csv", "data.resize="];
    for (sets, file, class) in [
        (&[][..], "train", "n00000000"),
        (&["data.test=", "data.test_fraction=0.5"], "train", "n00000000"),
        (&[&manifest[..], &["data.test=", "data.test_fraction=0.5"]].concat(), "list.csv", "cat"),
    ] {
        let plan = small("imagenet.toml", dir.path(), sets);
        let opening = Opening { dir: None, run: None, progress: &mut |_, _| {} };
        let error = plan.task.open(&plan, opening).err().expect("refused").to_string();
        let path = dir.path().join(file);
        let words = format!("`{}` has one class, `{class}`; a classifier needs at", path.display());
        assert!(error.starts_with(&words), "{error}");
    }
}

#[test]
fn training_data_that_is_divided_is_cropped_from_whole_pictures_too() {
    let dir = tempfile::tempdir().expect("temporary folder");
    folders(dir.path(), 10);
    let divided = |sets: &[&str]| {
        let sets = [&["data.test=", "data.test_fraction=0.5", "train.batch=5"][..], sets].concat();
        let plan = small("imagenet.toml", dir.path(), &sets);
        let trained = train(&plan, &dir.path().join("runs"), None, &mut Watcher::default());
        assert_eq!(trained.test.as_ref().expect("a score").samples, 10);
        contents(&trained.folder)
    };
    let none = divided(&["data.cache={kind='none'}"]);
    assert!(divided(&["data.cache={kind='memory',budget_mib=1}"]) == none);
    // Parts of stretched pictures are other images.
    let stretched = ["data.resize={kind='stretch'}", "data.cache={kind='none'}"];
    assert!(divided(&stretched) != none);
}

#[test]
fn a_prediction_sees_the_center_as_the_evaluation_does() {
    // Loading a model draws its parameters first, from the process's random state.
    let _alone = updraft_testing::alone();
    let dir = tempfile::tempdir().expect("temporary folder");
    folders(dir.path(), 4);
    let sets = ["data.resize.factor=1.0", "train.batch=4"];
    let plan = small("imagenet.toml", dir.path(), &sets);
    let trained = train(&plan, &dir.path().join("runs"), None, &mut Watcher::default());
    let model = TrainedModel::load(trained.folder.path(), "flex").expect("a run");
    let file = dir.path().join("val/n00000001/0.JPEG");
    let whole = || decode(&fs::read(&file).expect("a file"), "a JPEG").expect("an image");
    // Of 16 x 16 pixels, an image is its own center.
    let predicted = |name: &str, image: Image<'_>| {
        let path = dir.path().join(name);
        let image = RgbImage::from_raw(16, 16, image.into_pixels()).expect("16 x 16");
        image.save(&path).expect("saved");
        model.predict_file(&path).expect("a prediction")
    };
    let found = model.predict_file(&file).expect("a prediction");
    assert_ne!(whole().height(), whole().width());
    assert_eq!(found, predicted("center.png", whole().center_crop(16, 16, 1.0)));
    assert_ne!(found, predicted("stretched.png", whole().resize(16, 16)));
}

#[test]
fn parts_of_whole_pictures_exclude_caches_of_one_size() {
    let folders = "[data]\nsource = \"folders\"\nresize = { kind = \"center-crop\" }\n";
    let cropped = format!("{folders}[augment]\nrandom_resized_crop = {{ min_area = 0.8 }}\n");
    let cache = |text: &str| {
        let Planned { plan, .. } = read_with(text, &[]).expect("valid");
        plan.table()["data"]["cache"]["kind"].as_str().expect("a word").to_owned()
    };
    assert_eq!([cache(folders), cache(&cropped)], ["whole", "memory"]);
    assert_eq!(cache(&cropped.replace("center-crop", "stretch")), "whole");
    let refused = |sets: &[&str]| {
        let error: ConfigError = read_with(&cropped, sets).err().expect("refused");
        error.to_string()
    };
    for cache in ["{kind='whole'}", "{kind='file',folder='kept'}"] {
        let said = refused(&[&format!("data.cache={cache}")]);
        assert!(said.contains("`data.cache.kind` is "), "{said}");
        assert!(said.contains("it must be `memory` or `none` with `augment.random_"), "{said}");
    }
    for factor in ["0.5", "16.5"] {
        let said = refused(&[&format!("data.resize.factor={factor}")]);
        let expected = format!("`data.resize.factor` is {factor}; it must be 1 to 16");
        assert!(said.contains(&expected), "{said}");
    }
    let said = refused(&["data.resize={kind='pad'}"]);
    assert!(said.contains("`data.resize.kind` is ") && said.contains("`center-crop`"), "{said}");
}
