//! Comparisons that are called again after their config, profile or data changed.

use std::fs;
use std::path::Path;

use updraft_run::RunLock;

use crate::command::{Said, run, succeed};

const IMAGES: &str = "\
name = \"c\"
[data]
train_images = 40
test_images = 20
[model]
channels = 2
[train]
epochs = 1
batch = 20
";

const ROWS: &str = "\
task = \"tables\"
name = \"t\"
[data]
source = \"files\"
files = [\"t.csv\"]
[targets]
y = { kind = \"number\" }
[model]
kind = \"kan\"
hidden = [2]
[train]
epochs = 1
batch = 20
";

fn refused(said: &Said, words: &str) {
    assert_eq!(said.code, 2, "{}", said.stderr);
    assert!(said.stderr.contains(words), "`{words}` is missing: {}", said.stderr);
}

/// The run folders of the first arm and seed.
fn runs(dir: &Path) -> usize {
    let entries = fs::read_dir(dir.join("runs/compare/arm-1-seed-1")).expect("runs").flatten();
    entries.filter(|entry| entry.path().is_dir()).count()
}

#[test]
fn an_edited_config_or_profile_is_not_compared_with_runs_of_before() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let write = |name: &str, text: &str| fs::write(dir.path().join(name), text).expect("written");
    write("c.toml", IMAGES);
    write("p.toml", "[train]\nworkers = 1\n");
    let arms = ["--arm", "train.batch=20", "--arm", "train.batch=10", "--profile", "p.toml"];
    let compare = |seeds| [&["compare", "c.toml", "--seeds", seeds][..], &arms].concat();
    succeed(dir.path(), &compare("1"));
    write("c.toml", &IMAGES.replace("epochs = 1", "epochs = 3"));
    for more in [&[][..], &["--dry-run"]] {
        let said = run(dir.path(), &[&compare("2")[..], more].concat());
        refused(&said, "has runs with another `train.epochs` (1, here 3); name another folder");
    }
    write("c.toml", IMAGES);
    write("p.toml", "[train]\nworkers = 0\n");
    refused(&run(dir.path(), &compare("2")), "has runs with another `train.workers` (1, here 0)");
    write("p.toml", "[train]\nworkers = 1\n");

    // Without its record, a result is not used; with it, nothing is trained again.
    let record = dir.path().join("runs/compare/arm-1-seed-1/compare.json");
    let whole = fs::read(&record).expect("a record");
    fs::write(&record, &whole[..whole.len() / 2]).expect("written");
    refused(&run(dir.path(), &compare("1")), "compare.json` is damaged: ");
    fs::remove_file(&record).expect("removed");
    refused(&run(dir.path(), &compare("1")), "there is no `compare.json` beside it");
    fs::write(&record, &whole).expect("written");
    succeed(dir.path(), &compare("1"));
    assert_eq!((runs(dir.path()), fs::read(&record).expect("a record")), (1, whole));

    // A summary that cannot be read is not an absent one.
    let entries = fs::read_dir(record.parent().expect("a folder")).expect("runs").flatten();
    let mut summaries = entries.map(|entry| entry.path().join("summary.json"));
    let summary = summaries.find(|path| path.is_file()).expect("a summary");
    fs::rename(&summary, dir.path().join("summary.json")).expect("renamed");
    fs::create_dir(&summary).expect("created");
    refused(&run(dir.path(), &compare("1")), "summary.json`: it is not a regular file");
    assert_eq!(runs(dir.path()), 1);
}

#[test]
fn changed_data_is_not_compared_with_runs_of_before() {
    let dir = tempfile::tempdir().expect("temporary folder");
    fs::write(dir.path().join("c.toml"), ROWS).expect("written");
    let write = |last: usize| {
        let rows = (0..50).map(|at| format!("{at},{}\n", if at < 49 { at * 2 } else { last }));
        let text = format!("a,y\n{}", rows.collect::<String>());
        fs::write(dir.path().join("t.csv"), text).expect("written");
    };
    let arms = ["--arm", "train.batch=20", "--arm", "train.batch=10"];
    let compare =
        |seeds| [&["compare", "c.toml", "--data", ".", "--seeds", seeds][..], &arms].concat();
    write(98);
    let first = succeed(dir.path(), &compare("1"));
    write(97);
    let said = run(dir.path(), &compare("2"));
    refused(&said, "has runs with another digest of the data (");

    // A complete comparison, too, is not of changed data, or of other data in another folder.
    refused(&run(dir.path(), &compare("1")), "has runs with another digest of the data (");
    fs::create_dir(dir.path().join("other")).expect("made");
    fs::rename(dir.path().join("t.csv"), dir.path().join("other/t.csv")).expect("renamed");
    write(98);
    let in_folder =
        |folder| [&["compare", "c.toml", "--data", folder, "--seeds", "1"][..], &arms].concat();
    refused(&run(dir.path(), &in_folder("other")), "has runs with another digest of the data (");
    let same = succeed(dir.path(), &compare("1"));
    assert!(!same.stderr.contains("was not found"), "{}", same.stderr);
    assert!(same.stderr.contains(" train "), "{}", same.stderr);
    assert_eq!(same.stdout, first.stdout);

    // What is finished is printed without the data, also while another process trains.
    fs::remove_file(dir.path().join("t.csv")).expect("removed");
    let lock = RunLock::take(&dir.path().join("runs/compare")).expect("free");
    for folder in [".", "gone"] {
        let again = succeed(dir.path(), &in_folder(folder));
        assert_eq!((&again.stdout, runs(dir.path())), (&first.stdout, 1));
        let said = again.stderr.split_whitespace().collect::<Vec<_>>().join(" ");
        let note = "note the data was not found, so it was not compared with that of these runs: ";
        assert!(said.contains(note) && said.contains("t.csv"), "{said}");
        assert_eq!(said.matches(note).count(), 1, "{said}");
        assert!(!said.contains(" train "), "{said}");
    }
    drop(lock);
}

/// A folder of images and a manifest of volumes, without compression.
pub(crate) fn files(dir: &Path) {
    for class in ["a", "b"] {
        fs::create_dir_all(dir.join("train").join(class)).expect("made");
        for at in 0..8 {
            let shade = if class == "a" { at } else { 100 + at };
            let picture = image::RgbImage::from_pixel(16, 16, image::Rgb([shade, 9, 200]));
            picture.save(dir.join(format!("train/{class}/{at}.tif"))).expect("written");
        }
    }
    let mut manifest = "input,labels,split\n".to_owned();
    for at in 0..4 {
        let input = image::GrayImage::from_fn(32, 32, |x, y| image::Luma([(x + y) as u8 + at]));
        input.save(dir.join(format!("v{at}.tif"))).expect("written");
        mask(9).save(dir.join(format!("mask{at}.tif"))).expect("written");
        let split = if at == 0 { "test" } else { "train" };
        manifest += &format!("v{at}.tif,mask{at}.tif,{split}\n");
    }
    fs::write(dir.join("volumes.csv"), manifest).expect("written");
    for (name, text) in [("c.toml", FOLDERS), ("m.toml", MASKS)] {
        fs::write(dir.join(name), text).expect("written");
    }
}

fn mask(first: u32) -> image::GrayImage {
    image::GrayImage::from_fn(32, 32, |x, _| image::Luma([u8::from(x >= first)]))
}

/// The images of [`files`].
pub(crate) const FOLDERS: &str = "\
name = \"c\"
[data]
source = \"folders\"
train = \"train\"
test_fraction = 0.25
height = 16
width = 16
[model]
channels = 2
[train]
epochs = 1
batch = 4
";

const MASKS: &str = "\
task = \"image-to-image\"
name = \"m\"
[data]
target = \"labels\"
labels = \"foreground\"
patch = [16, 16]
patches = 2
[model]
kind = \"vision-transformer\"
patch = [4, 4]
embedding = 12
layers = 1
heads = 2
[train]
epochs = 1
batch = 2
";

#[test]
fn an_image_or_a_mask_that_was_replaced_by_one_of_the_same_length_is_other_data() {
    let dir = tempfile::tempdir().expect("temporary folder");
    files(dir.path());
    let picture = image::RgbImage::from_pixel(16, 16, image::Rgb([77, 9, 200]));
    picture.save(dir.path().join("c.tif")).expect("written");
    mask(10).save(dir.path().join("m.tif")).expect("written");
    for (name, file) in [("c", "train/b/3.tif"), ("m", "mask2.tif")] {
        let path = |file: &str| dir.path().join(file);
        let (config, runs) = (format!("{name}.toml"), format!("runs-{name}"));
        let compare = |seeds| {
            let place: [&str; 8] =
                ["compare", &config, "--data", ".", "--runs", &runs, "--seeds", seeds];
            let arms = ["--arm", "train.workers=0", "--arm", "train.workers=1"];
            run(dir.path(), &[&place[..], &arms].concat())
        };
        let first = compare("1");
        assert_eq!(first.code, 0, "{}", first.stderr);
        let (whole, found) = (fs::read(path(file)).expect("a file"), fs::metadata(path(file)));
        let time = found.and_then(|found| found.modified()).expect("a time");
        let other = fs::read(path(&format!("{name}.tif"))).expect("a file");
        assert_eq!(other.len(), whole.len());
        let write = |bytes: &[u8]| {
            fs::write(path(file), bytes).expect("written");
            let file = fs::File::options().write(true).open(path(file)).expect("a file");
            file.set_modified(time).expect("set");
        };
        write(&other);
        refused(&compare("2"), "has runs with another digest of the data (");
        write(&whole);
        let again = compare("2");
        assert_eq!(again.code, 0, "{}", again.stderr);
    }
}
