//! Files of a run that belong to its model, with another content than the run wrote.

use std::fs;
use std::path::Path;

use crate::command::{TASKS, run, succeed, texts, tiny};

/// Insists that the commands refuse a file with a content, and accept the file as it was.
fn refused(dir: &Path, (folder, file): (&str, &str), content: &str, commands: &[&[&str]]) {
    let path = dir.join(folder).join(file);
    let whole = fs::read(&path).expect("a file");
    assert!(whole != content.as_bytes());
    fs::write(&path, content).expect("written");
    for arguments in commands {
        let said = run(dir, arguments);
        assert_eq!((said.code, said.stdout.as_str()), (2, ""), "{arguments:?}: {}", said.stderr);
        let reason = format!("{file}` was changed or replaced");
        assert!(said.stderr.contains(&reason), "{arguments:?}: {}", said.stderr);
    }
    fs::write(&path, whole).expect("written");
    for arguments in commands.iter().filter(|arguments| arguments[0] != "train") {
        succeed(dir, arguments);
    }
}

#[test]
fn a_changed_file_of_a_run_is_refused_by_name() {
    let dir = tempfile::tempdir().expect("temporary folder");
    image::RgbImage::new(16, 16).save(dir.path().join("a.png")).expect("written");
    let folder = succeed(dir.path(), &tiny(&["--set", "train.epochs=1"])).run_folder();
    let name = folder.to_str().expect("text");
    let path = dir.path().join(name).join("classes.json");
    let text = fs::read_to_string(path).expect("classes");
    let exchanged = text.replace("red disc", "-").replace("blue ring", "red disc");
    let exchanged = exchanged.replace("\"-\"", "\"blue ring\"");
    let commands = [&["predict", name, "a.png"][..], &["eval", name], &["train", "--resume", name]];
    refused(dir.path(), (name, "classes.json"), &exchanged, &commands);

    let small = TASKS.iter().find(|small| small.config == "tables-quickstart.toml");
    let small = small.expect("tables");
    let sets = ["data.validation_fraction=0.25", "train.epochs=1"];
    let train = small.arguments("train", &sets);
    let folder = succeed(dir.path(), &texts(&train)).run_folder();
    let name = folder.to_str().expect("text");
    let text = |file: &str| fs::read_to_string(dir.path().join(name).join(file)).expect(file);
    // The same values in another form: any other content is refused.
    for file in ["targets.json", "encoder.json"] {
        let other = text(file).replacen('\n', "", 1);
        refused(dir.path(), (name, file), &other, &[&["eval", name]]);
    }
    let targets: serde_json::Value = serde_json::from_str(&text("targets.json")).expect("JSON");
    let mut edited = targets.clone();
    let mut found = 0;
    for code in edited.as_array_mut().expect("a list") {
        if let Some(thresholds) = code["thresholds"].as_array_mut() {
            thresholds.fill(serde_json::json!(0.125));
            found += 1;
        }
    }
    assert!(found > 0, "{targets}");
    refused(dir.path(), (name, "targets.json"), &edited.to_string(), &[&["eval", name]]);
}
