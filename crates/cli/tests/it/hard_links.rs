//! Class folders with an image that has another name elsewhere.

use std::fs;
use std::path::Path;

use crate::command::{run, succeed};

/// Images of two classes, `class/number.png`.
fn images(folder: &Path, numbers: std::ops::Range<u8>) {
    for (class, level) in [("dark", 40), ("light", 190)] {
        let folder = folder.join(class);
        fs::create_dir_all(&folder).expect("made");
        for number in numbers.clone() {
            let pixel = image::Rgb([level, level + number, level]);
            let path = folder.join(format!("{number:02}.png"));
            image::RgbImage::from_pixel(8, 8, pixel).save(path).expect("saved");
        }
    }
}

#[test]
fn an_image_that_would_be_trained_on_and_tested_is_refused_with_both_names() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let path = |name: &str| dir.path().join(name);
    images(&path("train"), 0..10);
    images(&path("test"), 10..15);
    let text = "[data]\nsource = \"folders\"\ndir = \".\"\ntrain = \"train\"\nheight = 8\n\
                width = 8\n[model]\nchannels = 2\n[train]\nepochs = 1\nbatch = 5\n";
    fs::write(path("c.toml"), text).expect("written");
    let apart = ["train", "c.toml", "--set", "data.test=test"];
    let together = ["train", "c.toml", "--set", "data.test_fraction=0.2"];
    succeed(dir.path(), &apart);
    succeed(dir.path(), &together);
    fs::remove_dir_all(path("runs")).expect("removed");
    let refused = |arguments: &[&str], names: [&str; 2]| {
        let said = run(dir.path(), arguments);
        assert_eq!((said.code, said.stdout.as_str()), (2, ""), "{}", said.stderr);
        for words in ["are one file; remove one of them", names[0], names[1]] {
            assert!(said.stderr.contains(words), "`{words}` is missing: {}", said.stderr);
        }
        assert!(!path("runs").exists());
    };
    fs::hard_link(path("train/dark/03.png"), path("test/dark/99.png")).expect("a link");
    refused(&apart, ["train/dark/03.png", "test/dark/99.png"]);
    fs::hard_link(path("train/dark/03.png"), path("train/light/98.png")).expect("a link");
    refused(&together, ["train/dark/03.png", "train/light/98.png"]);
}
