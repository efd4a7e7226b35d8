//! Folders that are named by paths with `.` and `..`.

use std::fs;
use std::path::Path;

use crate::command::{run, succeed, tiny};

/// Images of so many classes, `class/number.png`.
fn images(folder: &Path, classes: &[&str]) {
    for class in classes {
        fs::create_dir_all(folder.join(class)).expect("made");
        for number in 0..4 {
            let path = folder.join(class).join(format!("{number}.png"));
            image::RgbImage::from_pixel(8, 8, image::Rgb([number; 3])).save(path).expect("saved");
        }
    }
}

#[test]
fn messages_about_data_have_no_dots_in_their_paths() {
    let dir = tempfile::tempdir().expect("temporary folder");
    images(&dir.path().join("only"), &["a"]);
    // `data.train` is `.` by default.
    fs::write(dir.path().join("c.toml"), "[data]\nsource = \"folders\"\n").expect("written");
    for data in ["only", "only/", "only/.", "only/./"] {
        let said = run(dir.path(), &["train", "c.toml", "--data", data]);
        assert_eq!(said.code, 2, "{}", said.stderr);
        let expected = "error: `only` has one class, `a`";
        assert!(said.stderr.contains(expected), "{data}: {}", said.stderr);
    }
    let said = run(dir.path(), &["train", "c.toml", "--set", "data.dir=only/."]);
    assert!(said.stderr.contains("error: `only` has one class, `a`"), "{}", said.stderr);
}

#[test]
fn a_run_has_its_name_and_a_short_path_under_any_path() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let train = tiny(&["--runs", "runs/.", "--set", "train.epochs=1"]);
    let folder = succeed(dir.path(), &train).run_folder();
    let path = folder.to_str().expect("text");
    let name = folder.file_name().expect("a name").to_str().expect("text");
    // Equal paths may have other dots.
    assert_eq!(path, format!("runs/{name}"));
    let dotted = format!("./{path}/.");
    let would = succeed(dir.path(), &["eval", &dotted, "--dry-run"]).stdout;
    let would = would.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(would.contains(&format!("the model in ./{path}/checkpoints/step-")), "{would}");
    let evaluated = succeed(dir.path(), &["eval", &dotted]).stderr;
    assert!(evaluated.contains(&format!(" ./{path}\n")), "{evaluated}");

    // The title of a page is the name of the folder, from inside it, too.
    let own = dir.path().join(path);
    for run in [".", "checkpoints/..", &format!("../{name}/.")] {
        succeed(&own, &["report", run]);
        let page = fs::read_to_string(own.join("report.html")).expect("a page");
        assert!(page.contains(&format!("<h1>{name}</h1>")), "{run}");
    }

    images(&dir.path().join("images"), &["a"]);
    let predicted = succeed(dir.path(), &["predict", path, "images/."]).stdout;
    let lines: Vec<&str> = predicted.lines().collect();
    assert_eq!(lines.len(), 4, "{predicted}");
    assert!(lines.iter().all(|line| !line.contains("/./")), "{predicted}");
}
