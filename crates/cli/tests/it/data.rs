//! Sources, caches, splits and bad samples of a config's images.

use std::fs;
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;

use crate::command::{metrics, run, succeed};

/// Images of two classes: `class/number.png`, which differ in brightness.
fn images(folder: &Path, of_each: u8) {
    for (class, level) in [("dark", 40), ("light", 190)] {
        let folder = folder.join(class);
        fs::create_dir_all(&folder).expect("created");
        for index in 0..of_each {
            let pixel = image::Rgb([level, level + index, level]);
            let path = folder.join(format!("{index:02}.png"));
            image::RgbImage::from_pixel(10, 12, pixel).save(path).expect("saved");
        }
    }
}

/// A run of one epoch on the given `data`, with further settings.
fn small<'a>(config: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let mut arguments = vec!["train", config];
    let sets = ["data.height=8", "data.width=8", "model.channels=2", "train.epochs=1"];
    for set in sets.iter().chain(&["train.batch=5"]).chain(more) {
        arguments.extend(["--set", *set]);
    }
    arguments
}

/// A folder with a config whose `[data]` is the given lines.
fn config(data: &str) -> (tempfile::TempDir, String) {
    let dir = tempfile::tempdir().expect("temporary folder");
    fs::write(dir.path().join("c.toml"), format!("[data]\n{data}\n")).expect("written");
    (dir, "c.toml".to_owned())
}

fn json(path: &Path) -> serde_json::Value {
    serde_json::from_slice(&fs::read(path).expect("a file")).expect("JSON")
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    std::io::Write::write_all(&mut encoder, bytes).expect("written");
    encoder.finish().expect("finished")
}

#[test]
fn every_image_cache_trains_the_same_model_and_a_damaged_file_is_reported() {
    let (dir, config) = config("source = \"folders\"\ndir = \"mine\"");
    images(&dir.path().join("mine"), 20);
    let trained = |cache: &str| {
        let cache = format!("data.cache={cache}");
        let said = succeed(dir.path(), &small(&config, &[&cache]));
        (metrics(&dir.path().join(said.run_folder())), said.stderr)
    };
    let (whole, _) = trained("{kind='whole'}");
    // The held-out images depend only on labels and seed.
    for cache in ["{kind='memory',budget_mib=1}", "{kind='file',folder='kept'}", "{kind='none'}"] {
        let (lines, output) = trained(cache);
        assert_eq!(lines, whole, "{cache}");
        assert!(!output.contains("rebuilt"), "{output}");
    }
    let ahead = succeed(dir.path(), &small(&config, &["train.transfer=ahead"]));
    assert_eq!(metrics(&dir.path().join(ahead.run_folder())), whole, "moved ahead");
    let kept = dir.path().join("kept/training-8x8.images");
    let mut bytes = fs::read(&kept).expect("the kept images");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&kept, bytes).expect("written");
    let (lines, output) = trained("{kind='file',folder='kept'}");
    assert_eq!(lines, whole);
    assert!(output.contains("training images rebuilt"), "{output}");
    assert!(output.contains("does not fit its checksum"), "{output}");
}

#[test]
fn bad_images_are_left_out_and_written_down_as_the_config_says() {
    let (dir, config) =
        config("source = \"folders\"\ntrain = \"train\"\ntest = \"test\"\ndir = \".\"");
    images(&dir.path().join("train"), 10);
    images(&dir.path().join("test"), 5);
    for bad in ["train/dark/03.png", "train/light/07.png", "test/dark/01.png"] {
        fs::write(dir.path().join(bad), "not an image").expect("written");
    }
    let refused = run(dir.path(), &small(&config, &[]));
    assert_eq!(refused.code, 2);
    assert!(refused.stderr.contains("dark/03.png"), "{}", refused.stderr);

    let skip = ["data.faults={kind='skip',at_most=2}"];
    let folder = succeed(dir.path(), &small(&config, &skip)).run_folder();
    let lines = metrics(&dir.path().join(&folder));
    let epoch = lines.last().expect("an epoch");
    assert_eq!((&epoch["left_out"], &epoch["test"]["samples"]), (&2.into(), &9.into()), "{epoch}");
    assert!(!dir.path().join("bad.jsonl").exists());

    let quarantine = ["data.faults={kind='quarantine',at_most=2,file='bad.jsonl'}"];
    let output = succeed(dir.path(), &small(&config, &quarantine));
    assert_eq!(metrics(&dir.path().join(output.run_folder())), lines);
    let written = || fs::read_to_string(dir.path().join("bad.jsonl")).expect("a quarantine");
    let text = written();
    assert_eq!(text.lines().count(), 3, "{text}");
    for name in ["dark/03.png", "light/07.png", "test/dark/01.png"] {
        assert!(text.contains(name), "{name} is not in {text}");
    }
    // A command that only reads writes nothing, and leaves out the same.
    let folder = output.run_folder();
    let score = succeed(dir.path(), &["eval", folder.to_str().expect("text"), "--json"]);
    let score: serde_json::Value = serde_json::from_str(&score.stdout).expect("JSON");
    assert_eq!(score, epoch["test"]);
    assert_eq!(written(), text);

    let few = ["data.faults={kind='skip',at_most=1}"];
    let refused = run(dir.path(), &small(&config, &few));
    assert_eq!(refused.code, 2);
    assert!(refused.stderr.contains("more than 1 samples"), "{}", refused.stderr);
}

#[test]
fn files_of_other_formats_beside_the_images_are_told() {
    let (dir, config) = config("source = \"folders\"\ndir = \"mine\"");
    images(&dir.path().join("mine"), 20);
    let trained = || succeed(dir.path(), &small(&config, &[])).stderr;
    assert!(!trained().contains("passed over"));
    for name in ["a.webp", "b.gif", "deeper/c.png"] {
        let path = dir.path().join("mine/dark").join(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("created");
        fs::write(path, "not read").expect("written");
    }
    let said = trained().split_whitespace().collect::<Vec<_>>().join(" ");
    let expected = "passed over `dark/a.webp`, `dark/b.gif`, `dark/deeper`: no files in class";
    assert!(said.contains(expected), "{said}");
}

#[test]
fn a_manifest_names_images_and_classes_in_columns_of_any_name() {
    let (dir, config) = config("source = \"manifest\"\ndir = \".\"\ntrain = \"list.tsv\"");
    images(&dir.path().join("mine"), 20);
    let mut rows = vec!["kind\timage".to_owned()];
    for class in ["dark", "light"] {
        rows.extend((0..20).map(|index| format!("{class}\tmine/{class}/{index:02}.png")));
    }
    fs::write(dir.path().join("list.tsv"), rows.join("\n")).expect("written");
    let refused = run(dir.path(), &small(&config, &[]));
    assert!(refused.stderr.contains("no column `path`"), "{}", refused.stderr);
    let columns = ["data.path_column=image", "data.class_column=kind", "data.test_fraction=0.25"];
    let said = succeed(dir.path(), &small(&config, &columns));
    assert!(said.stderr.contains("30 training and 10 test images of 2 classes"), "{}", said.stderr);
    // The same images as a folder train the same model.
    let folders = ["data.source=folders", "data.train=mine", "data.test_fraction=0.25"];
    let same = succeed(dir.path(), &small(&config, &folders));
    let [listed, found] = [said, same].map(|said| metrics(&dir.path().join(said.run_folder())));
    assert_eq!(listed, found);
}

#[test]
fn an_image_that_the_manifests_of_training_and_test_list_is_refused() {
    let data = "source = \"manifest\"\ndir = \".\"\ntrain = \"a.csv\"\ntest = \"b.csv\"";
    let (dir, config) = config(data);
    images(&dir.path().join("mine"), 20);
    let rows = |from: usize, to: usize| {
        let row = |at: usize| format!("mine/dark/{at:02}.png,dark\nmine/light/{at:02}.png,light\n");
        format!("path,class\n{}", (from..to).map(row).collect::<String>())
    };
    fs::write(dir.path().join("a.csv"), rows(0, 15)).expect("written");
    fs::write(dir.path().join("b.csv"), rows(15, 20)).expect("written");
    let said = succeed(dir.path(), &small(&config, &[]));
    assert!(said.stderr.contains("30 training and 10 test images of 2 classes"), "{}", said.stderr);
    fs::remove_dir_all(dir.path().join("runs")).expect("removed");
    fs::write(dir.path().join("b.csv"), rows(14, 20).replace("mine/", "./mine/")).expect("written");
    let refused = run(dir.path(), &small(&config, &[]));
    assert_eq!(refused.code, 2, "{}", refused.stderr);
    let expected = "line 30 of `./a.csv` and line 2 of `./b.csv` list the same file";
    assert!(refused.stderr.contains(expected), "{}", refused.stderr);
    assert!(!dir.path().join("runs").exists());
}

/// A tar of class names and records, as CIFAR's binary version comes.
fn cifar(files: &[(&str, Vec<u8>)]) -> Vec<u8> {
    let mut archive = tar::Builder::new(Vec::new());
    for (name, bytes) in files {
        let mut header = tar::Header::new_gnu();
        header.set_size(bytes.len() as u64);
        header.set_cksum();
        archive.append_data(&mut header, format!("binary/{name}"), &**bytes).expect("appended");
    }
    archive.into_inner().expect("finished")
}

fn names(count: usize) -> Vec<u8> {
    (0..count).flat_map(|at| format!("c{at}\n").into_bytes()).collect()
}

#[test]
fn cifar_comes_from_its_folder_or_archive_with_either_label() {
    let (dir, config) = config("dir = \".\"");
    let ten = |labels: &[u8]| -> Vec<u8> {
        labels.iter().flat_map(|&label| [vec![label], vec![label * 20; 3072]].concat()).collect()
    };
    fs::create_dir(dir.path().join("binary")).expect("created");
    let write = |name: &str, bytes: &[u8]| {
        fs::write(dir.path().join("binary").join(name), bytes).expect("written");
    };
    write("batches.meta.txt", &names(10));
    for batch in 1..=5 {
        write(&format!("data_batch_{batch}.bin"), &ten(&[1, 2, 3]));
    }
    write("test_batch.bin", &ten(&[3, 1]));
    let sets = ["data.source=cifar-10", "data.files=binary"];
    let said = succeed(dir.path(), &small(&config, &sets));
    assert!(said.stderr.contains("15 training and 2 test images of 10 classes"), "{}", said.stderr);

    let hundred = |of: u8| -> Vec<u8> {
        (0..of).flat_map(|at| [vec![at % 20, at], vec![at * 9; 3072]].concat()).collect()
    };
    let files = [
        ("coarse_label_names.txt", names(20)),
        ("fine_label_names.txt", names(100)),
        ("train.bin", hundred(12)),
        ("test.bin", hundred(4)),
    ];
    fs::write(dir.path().join("c.tar.gz"), gzip(&cifar(&files))).expect("written");
    for (labels, classes) in [("fine", 100), ("coarse", 20)] {
        let labels = format!("data.labels={labels}");
        let sets = ["data.source=cifar-100", "data.files=c.tar.gz", &labels];
        let said = succeed(dir.path(), &small(&config, &sets));
        let expected = format!("12 training and 4 test images of {classes} classes");
        assert!(said.stderr.contains(&expected), "{}", said.stderr);
    }
}

#[test]
fn an_archive_is_inflated_into_the_folder_that_the_config_names() {
    let data = "source = \"archives\"\ndir = \".\"\ntrain = \"a.tar.gz\"\ntest = \"b.tar\"";
    let (dir, config) = config(data);
    images(&dir.path().join("mine"), 5);
    let mut archive = tar::Builder::new(Vec::new());
    archive.append_dir_all("mine", dir.path().join("mine")).expect("appended");
    let bytes = archive.into_inner().expect("finished");
    fs::write(dir.path().join("a.tar.gz"), gzip(&bytes)).expect("written");
    fs::write(dir.path().join("b.tar"), &bytes).expect("written");
    let trained = |sets: &[&str]| {
        let said = succeed(dir.path(), &small(&config, sets));
        (metrics(&dir.path().join(said.run_folder())), said.stderr)
    };
    let tars = || -> Vec<PathBuf> {
        let Ok(entries) = fs::read_dir(dir.path().join("inflated")) else { return Vec::new() };
        let paths = entries.map(|entry| entry.expect("readable").path());
        paths.filter(|path| path.extension().is_some_and(|ending| ending == "tar")).collect()
    };
    let (in_memory, _) = trained(&[]);
    assert!(tars().is_empty());
    let (cached, _) = trained(&["data.inflate_to=inflated"]);
    assert_eq!(cached, in_memory);
    let found = tars();
    assert_eq!(found.len(), 1);
    assert_eq!(fs::read(&found[0]).expect("a tar"), bytes);
    fs::write(&found[0], &bytes[1..]).expect("written");
    let (again, output) = trained(&["data.inflate_to=inflated"]);
    assert_eq!(again, in_memory);
    assert!(output.contains("training archive rebuilt"), "{output}");
}

#[test]
fn a_run_keeps_its_division_and_refuses_images_that_were_not_there() {
    let (dir, config) = config("source = \"folders\"\ndir = \"mine\"\ntest_fraction = 0.25");
    images(&dir.path().join("mine"), 20);
    let folder = succeed(dir.path(), &small(&config, &[])).run_folder();
    let split = json(&dir.path().join(&folder).join("split.json"));
    let indices = |name: &str| -> Vec<u64> {
        let list = split[name].as_array().expect("a list");
        list.iter().map(|index| index.as_u64().expect("an index")).collect()
    };
    let held_out = indices("held_out");
    // Five of each class: dark comes first.
    assert_eq!((held_out.len(), held_out.iter().filter(|&&index| index < 20).count()), (10, 5));
    let mut all = [indices("kept"), held_out].concat();
    all.sort_unstable();
    assert_eq!(all, (0..40).collect::<Vec<u64>>());
    assert_eq!(split["hash"].as_str().map(str::len), Some(64));

    let name = folder.to_str().expect("text");
    succeed(dir.path(), &["eval", name]);
    image::RgbImage::new(10, 12).save(dir.path().join("mine/dark/99.png")).expect("saved");
    for command in ["eval", "quantize"] {
        let refused = run(dir.path(), &[command, name]);
        assert_eq!(refused.code, 2);
        let expected = "split.json` is not a train/test split of this data";
        assert!(refused.stderr.contains(expected), "{command}: {}", refused.stderr);
    }
}

#[test]
fn a_quantization_names_its_calibration_images_and_takes_them_again() {
    let (dir, config) = config("source = \"folders\"\ndir = \"mine\"\ntest_fraction = 0.25");
    images(&dir.path().join("mine"), 20);
    let folder = dir.path().join(succeed(dir.path(), &small(&config, &[])).run_folder());
    let name = folder.to_str().expect("text");
    let path = folder.join("calibration.json");
    let quantized = |count: &str| {
        succeed(dir.path(), &["quantize", name, "--calibration", count]);
        (json(&path), fs::read(folder.join("model.int8")).expect("a model"))
    };
    let (first, model) = quantized("10");
    let chosen = first["held_out"].as_array().expect("a list");
    // The training set has 15 images of each class; dark comes first.
    let dark = chosen.iter().filter(|index| index.as_u64() < Some(15)).count();
    assert_eq!((chosen.len(), dark), (10, 5), "{first}");
    assert_eq!(quantized("10"), (first.clone(), model.clone()));
    let (other, _) = quantized("6");
    assert_eq!(other["held_out"].as_array().map(Vec::len), Some(6));
    assert_eq!(quantized("10"), (first.clone(), model));

    let mut damaged = first;
    damaged["held_out"][0] = 29.into();
    fs::write(&path, damaged.to_string()).expect("written");
    let refused = run(dir.path(), &["quantize", name, "--calibration", "10"]);
    assert_eq!(refused.code, 2);
    let expected = "calibration.json` is not a train/test split";
    assert!(refused.stderr.contains(expected), "{}", refused.stderr);
    fs::write(&path, "garbage").expect("written");
    let refused = run(dir.path(), &["quantize", name, "--calibration", "10"]);
    assert_eq!(refused.code, 2);
    assert!(refused.stderr.contains(expected), "{}", refused.stderr);
    assert!(refused.stderr.contains("delete it"), "{}", refused.stderr);
    fs::remove_file(&path).expect("removed");
    succeed(dir.path(), &["quantize", name, "--calibration", "10"]);
}

#[test]
fn images_of_other_classes_are_refused_instead_of_scored() {
    let data = "source = \"folders\"\ntrain = \"train\"\ntest = \"test\"\ndir = \"mine\"";
    let (dir, config) = config(data);
    images(&dir.path().join("mine/train"), 10);
    images(&dir.path().join("mine/test"), 5);
    let folder = succeed(dir.path(), &small(&config, &[])).run_folder();
    let name = folder.to_str().expect("text");
    images(&dir.path().join("others/train"), 10);
    images(&dir.path().join("others/test"), 5);
    for part in ["train", "test"] {
        let others = dir.path().join("others").join(part);
        fs::rename(others.join("dark"), others.join("shadow")).expect("renamed");
    }
    let other = ["--data", "others"];
    for arguments in [&["eval", name][..], &["quantize", name], &["train", "--resume", name]] {
        let refused = run(dir.path(), &[arguments, &other].concat());
        assert_eq!((refused.code, refused.stdout.as_str()), (2, ""), "{arguments:?}");
        for word in ["is not what the run", "`light`, `shadow`", "`dark`, `light`", "--data"] {
            assert!(refused.stderr.contains(word), "{arguments:?}: {}", refused.stderr);
        }
    }
}
