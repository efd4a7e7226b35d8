//! `predict` of many files: a folder, parts that are kept, and the same lines as of single files.

use std::fs;
use std::path::Path;

use crate::command::{Said, TASKS, run, succeed};

fn predict(dir: &Path, trained: &str, rest: &[&str]) -> Said {
    succeed(dir, &[&["predict", trained], rest].concat())
}

#[test]
fn a_folder_in_kept_parts_has_the_lines_of_its_files() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let small = &TASKS[0];
    let trained = small.succeed(dir.path(), "train", &["train.epochs=1"]).run_folder();
    let trained = trained.to_str().expect("text");
    fs::create_dir(dir.path().join("in")).expect("made");
    let names: Vec<String> = (0..5_u8).map(|at| format!("in/{at}.png")).collect();
    for (at, name) in names.iter().enumerate() {
        let pixel = |x, y| image::Rgb([(x * 9) as u8, (y * 7) as u8, 50 * at as u8]);
        image::RgbImage::from_fn(16, 16, pixel).save(dir.path().join(name)).expect("saved");
    }
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let expected = predict(dir.path(), trained, &names).stdout;
    assert_eq!(expected.lines().count(), 5, "{expected}");
    assert_eq!(predict(dir.path(), trained, &["in"]).stdout, expected);
    let parts = ["in", "--parts", "parts"];
    assert_eq!(predict(dir.path(), trained, &parts).stdout, expected);
    let part = |at: u32| dir.path().join(format!("parts/part-{at:08}.txt"));
    assert_eq!(
        (0..5).map(|at| fs::read_to_string(part(at)).expect("a part")).collect::<String>(),
        expected
    );

    // What is there is not predicted again; one part that is missing is.
    let written =
        |at: u32| fs::metadata(part(at)).and_then(|file| file.modified()).expect("a time");
    let before = written(0);
    fs::remove_file(part(3)).expect("removed");
    let again = predict(dir.path(), trained, &parts);
    assert_eq!(again.stdout, expected);
    assert!(written(0) == before && !again.stderr.contains("note "), "{}", again.stderr);

    // Parts that were emptied, cut off or edited are predicted again, which a note says.
    for (at, text) in [(0, ""), (1, &expected[..3]), (2, "kept\n"), (4, "")] {
        fs::write(part(at), text).expect("written");
    }
    let again = predict(dir.path(), trained, &parts);
    assert_eq!(again.stdout, expected);
    let note =
        "note     4 files in `parts`, from `part-00000000.txt` on, are damaged or incomplete";
    assert!(again.stderr.contains(note), "{}", again.stderr);
    let again = predict(dir.path(), trained, &parts);
    assert!(again.stdout == expected && !again.stderr.contains("note "), "{}", again.stderr);

    // Parts of other options or files.
    for (arguments, words) in [
        (vec!["in", "--parts", "parts", "--top", "2"], "options `top 1, json false"),
        (vec!["in/0.png", "--parts", "parts"], "files `5` there, `1` here"),
    ] {
        let said = run(dir.path(), &[&["predict", trained][..], &arguments].concat());
        assert_eq!(said.code, 2, "{}", said.stderr);
        assert!(said.stderr.contains(words), "{}", said.stderr);
    }

    // A file that fails ends it; what is finished stays.
    fs::write(dir.path().join("in/3.png"), "no image").expect("written");
    let said = run(dir.path(), &["predict", trained, "in", "--parts", "fresh"]);
    assert!(said.code == 2 && said.stdout.is_empty(), "{}", said.stderr);
    assert!(said.stderr.contains("in/3.png"), "{}", said.stderr);
    let kept = fs::read_dir(dir.path().join("fresh")).expect("a folder").flatten();
    let kept = kept.filter(|entry| !entry.file_name().to_string_lossy().starts_with('.'));
    assert_eq!(kept.count(), 4, "the key and three parts");
}
