//! Runs that are resumed after an image was replaced by another of the same length.

use std::fs;
use std::path::{Path, PathBuf};

use crate::command::{everything_in, metrics, run, succeed};

const CONFIG: &str = "\
name = \"c\"
[data]
source = \"folders\"
dir = \".\"
train = \"train\"
test = \"test\"
height = 16
width = 16
[model]
channels = 2
[train]
epochs = 2
batch = 4
checkpoint_every_steps = 1
keep_checkpoints = 20
";

/// Saves an image without compression: all have the same length.
fn save(path: &Path, shade: u8) {
    let picture = image::RgbImage::from_pixel(16, 16, image::Rgb([shade, 9, 200]));
    picture.save(path).expect("written");
}

/// Sixteen training and four test images of two classes.
fn images(dir: &Path) {
    for (part, count) in [("train", 8), ("test", 2)] {
        for (class, first) in [("a", 0), ("b", 100)] {
            let folder = dir.join(part).join(class);
            fs::create_dir_all(&folder).expect("made");
            for at in 0..count {
                save(&folder.join(format!("{at}.tif")), first + at);
            }
        }
    }
}

fn train(dir: &Path, cache: &str) -> PathBuf {
    fs::write(dir.join("c.toml"), CONFIG).expect("written");
    let cache = format!("data.cache={cache}");
    dir.join(succeed(dir, &["train", "c.toml", "--set", &cache]).run_folder())
}

/// What a kill after a step leaves, without later checkpoints.
fn cut_back(run: &Path, step: u64) {
    for later in step + 1..=8 {
        fs::remove_dir_all(run.join(format!("checkpoints/step-{later:08}"))).expect("removed");
    }
    fs::remove_file(run.join("summary.json")).expect("removed");
}

#[test]
fn a_replaced_image_is_refused_by_its_name_and_the_same_images_give_the_same_bits() {
    let caches = ["{kind='none'}", "{kind='whole'}", "{kind='memory'}", "{kind='file',folder='k'}"];
    for cache in caches {
        let dir = tempfile::tempdir().expect("temporary folder");
        images(dir.path());
        let run_folder = train(dir.path(), cache);
        let name = run_folder.to_str().expect("text");
        let unbroken = metrics(&run_folder);
        assert_eq!(unbroken.len(), 10, "four steps and an epoch, twice");
        // The end of the first epoch: every image is read again.
        cut_back(&run_folder, 4);
        for (file, shade) in [("train/b/3.tif", 103), ("test/a/1.tif", 1)] {
            let path = dir.path().join(file);
            let length = fs::metadata(&path).expect("a file").len();
            save(&path, 77);
            assert_eq!(fs::metadata(&path).expect("a file").len(), length);
            let said = run(dir.path(), &["train", "--resume", name]);
            assert_eq!(said.code, 2, "{cache}: {}", said.stderr);
            let expected = format!("{file}` (sample ");
            let errors: Vec<_> = said.stderr.lines().filter(|it| it.contains("error: ")).collect();
            let [error] = errors[..] else { panic!("{cache}: {}", said.stderr) };
            assert!(error.contains(&expected), "{cache}: {error}");
            let what = "has another content than when it was first read; put the file back";
            assert!(error.contains(what), "{cache}: {error}");
            save(&path, shade);
            // A test image is noticed after the steps of the epoch.
            for step in 5..=8 {
                let _ = fs::remove_dir_all(run_folder.join(format!("checkpoints/step-{step:08}")));
            }
        }
        succeed(dir.path(), &["train", "--resume", name]);
        assert_eq!(metrics(&run_folder), unbroken, "{cache}");
        // Scores of other images are not compared.
        save(&dir.path().join("test/a/1.tif"), 77);
        succeed(dir.path(), &["eval", name]);
    }
}

#[test]
fn new_images_are_reported_at_the_end_of_an_epoch_and_refused_within_one() {
    let dir = tempfile::tempdir().expect("temporary folder");
    images(dir.path());
    let run_folder = train(dir.path(), "{kind='none'}");
    let name = run_folder.to_str().expect("text");
    save(&dir.path().join("train/a/9.tif"), 50);
    let before = everything_in(&run_folder);
    let said = run(dir.path(), &["train", "--resume", name, "--checkpoint", "2"]);
    assert_eq!(said.code, 2, "{}", said.stderr);
    let expected = "the loader state was taken with samples 16, this loader has samples 17; resume \
                    with the data and the settings of the run";
    assert!(said.stderr.contains(expected), "{}", said.stderr);
    // Later checkpoints have their names, and the summary is there.
    assert_eq!(everything_in(&run_folder), before);

    let said = run(dir.path(), &["train", "--resume", name, "--checkpoint", "4"]);
    assert_eq!(said.code, 0, "{}", said.stderr);
    let text = said.stderr.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains("note the training images are others than before: files were"), "{text}");
    // From then on they are the images of the run.
    let said = succeed(dir.path(), &["train", "--resume", name]);
    assert!(!said.stderr.contains("are others"), "{}", said.stderr);
}

#[test]
fn contents_that_were_edited_are_refused_and_a_run_without_them_continues() {
    let dir = tempfile::tempdir().expect("temporary folder");
    images(dir.path());
    let run_folder = train(dir.path(), "{kind='none'}");
    let name = run_folder.to_str().expect("text");
    let path = run_folder.join("file-contents.json");
    let text = fs::read_to_string(&path).expect("contents");
    // The last digit of a hash, and a text that is no JSON.
    let end = text.rfind(|it: char| it.is_ascii_hexdigit()).expect("a hash");
    let digit = if text[end..].starts_with('1') { "2" } else { "1" };
    for other in [[&text[..end], digit, &text[end + 1..]].concat(), "{".to_owned()] {
        fs::write(&path, other).expect("written");
        let said = run(dir.path(), &["train", "--resume", name]);
        assert_eq!(said.code, 2, "{}", said.stderr);
        let words = "file-contents.json` was changed or replaced since the run wrote it";
        assert!(said.stderr.contains(words), "{}", said.stderr);
        assert!(said.stderr.contains("or remove it to continue"), "{}", said.stderr);
    }
    // As a run of an earlier version, and as the guide says for images that stay as they are.
    fs::remove_file(&path).expect("removed");
    save(&dir.path().join("train/a/1.tif"), 77);
    cut_back(&run_folder, 4);
    succeed(dir.path(), &["train", "--resume", name]);
    assert!(path.is_file());
}
