//! Searches that are called again in a folder that changed.

use std::fs;

use crate::command::{run, succeed};
use crate::compare_again::{FOLDERS, files};
use crate::tune::{CONFIG, folder, last_json};

/// Trials on other rows cannot be compared.
#[test]
fn a_study_is_not_continued_on_other_data() {
    let config = CONFIG
        .replace(
            "source = \"formula\"\ntrain_rows = 60\ntest_rows = 30",
            "source = \"files\"\nfiles = [\"t.csv\"]",
        )
        .replace("[model]", "[targets]\ny = { kind = \"number\" }\n\n[model]")
        .replace("trials = 5", "trials = 1");
    let dir = folder(&config);
    let rows = |last: usize| {
        let rows = (0..50)
            .map(|at| format!("{at},{},{}\n", at * at % 7, if at < 49 { at * 2 } else { last }));
        format!("a,b,y\n{}", rows.collect::<String>())
    };
    let write = |text: &str| fs::write(dir.path().join("t.csv"), text).expect("written");
    let arguments = ["tune", "c.toml", "--data", ".", "--study", "s"];
    write(&rows(98));
    succeed(dir.path(), &arguments);
    succeed(dir.path(), &arguments);
    write(&rows(97));
    let said = run(dir.path(), &arguments);
    assert_eq!(said.code, 2, "{}", said.stderr);
    assert!(said.stderr.contains("another digest of the data ("), "{}", said.stderr);
    write(&rows(98));
    assert_eq!(last_json(&succeed(dir.path(), &arguments))["finished"], 1);
}

/// A kill after a trial was recorded, and before the folders of its earlier attempts were removed.
#[test]
fn folders_of_earlier_attempts_are_removed_by_the_next_call() {
    let dir = folder(&CONFIG.replace("trials = 5", "trials = 1"));
    let arguments = ["tune", "c.toml", "--study", "s"];
    succeed(dir.path(), &arguments);
    let study = dir.path().join("s");
    let journal = fs::read_to_string(study.join("journal.jsonl")).expect("a journal");
    let journal = journal.replace("\"attempt\":1", "\"attempt\":2");
    let journal = journal.replace("trials/0000/", "trials/0000-2/");
    fs::write(study.join("journal.jsonl"), journal).expect("written");
    let earlier = study.join("trials/0000");
    let own = study.join("trials/0000-2");
    fs::rename(&earlier, &own).expect("renamed");
    fs::create_dir_all(earlier.join("run/checkpoints")).expect("created");
    assert_eq!(last_json(&succeed(dir.path(), &arguments))["finished"], 1);
    assert!(!earlier.exists() && own.exists());
    // Without the run of the best trial there is nothing to write a config from.
    fs::remove_dir_all(own).expect("removed");
    let said = run(dir.path(), &arguments);
    assert_eq!(said.code, 2, "{}", said.stderr);
    assert!(said.stderr.contains("the run of trial 0, is gone"), "{}", said.stderr);
}

/// An image without compression that was replaced by one of the same length.
#[test]
fn a_study_is_not_continued_on_an_image_of_the_same_length() {
    let config = format!(
        "{FOLDERS}[tune]\ntrials = 1\nsampler = {{ kind = \"random\" }}\n[tune.space]\n\
         \"train.learning_rate\" = {{ kind = \"float\", low = 1e-4, high = 1e-2 }}\n"
    );
    let dir = folder(&config);
    files(dir.path());
    fs::write(dir.path().join("c.toml"), config).expect("written");
    let arguments = ["tune", "c.toml", "--data", ".", "--study", "s"];
    succeed(dir.path(), &[&arguments[..], &["--dry-run"]].concat());
    succeed(dir.path(), &arguments);
    let path = dir.path().join("train/a/2.tif");
    let whole = fs::read(&path).expect("an image");
    image::RgbImage::from_pixel(16, 16, image::Rgb([77, 9, 200])).save(&path).expect("written");
    assert_eq!(fs::metadata(&path).expect("an image").len(), whole.len() as u64);
    for more in [&[][..], &["--dry-run"]] {
        let said = run(dir.path(), &[&arguments[..], more].concat());
        assert_eq!(said.code, 2, "{}", said.stderr);
        assert!(said.stderr.contains("another digest of the data ("), "{}", said.stderr);
    }
    fs::write(&path, whole).expect("written");
    assert_eq!(last_json(&succeed(dir.path(), &arguments))["finished"], 1);
}
