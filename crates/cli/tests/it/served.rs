//! Advice about a damaged checkpoint for commands that take no `--checkpoint`.

use std::fs;

use crate::command::{run, succeed, tiny};

#[test]
fn a_command_without_a_choice_of_the_checkpoint_advises_what_works() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let folder = succeed(dir.path(), &tiny(&[])).run_folder();
    let (name, path) = (folder.to_str().expect("text"), dir.path().join(&folder));
    image::RgbImage::new(4, 4).save(dir.path().join("a.png")).expect("written");
    succeed(dir.path(), &["quantize", name, "--calibration", "20"]);
    let teacher = format!("train.teacher={name}");
    let student = tiny(&["--set", &teacher]);
    let advice = format!("`train --resume {name} --checkpoint 6`");
    let refused = |arguments: &[&str]| {
        let said = run(dir.path(), arguments);
        let shown = format!("{arguments:?}: {}", said.stderr);
        assert_eq!((said.code, said.stdout.as_str()), (2, ""), "{shown}");
        assert!(said.stderr.contains(&advice), "{shown}");
        assert!(!said.stderr.contains("with `--checkpoint"), "{shown}");
    };
    let newest = path.join("checkpoints/step-00000012");
    let manifest = newest.join("manifest.json");
    let text = fs::read(&manifest).expect("a manifest");
    fs::remove_file(&manifest).expect("removed");
    for arguments in [
        &["quantize", name][..],
        &["quantize", name, "--dry-run"],
        &["eval", name, "--int8"],
        &["eval", name, "--int8", "--dry-run"],
        &["predict", name, "a.png", "--int8"],
        &student,
    ] {
        refused(arguments);
    }
    // An option of the command stays advice.
    let said = run(dir.path(), &["eval", name]);
    assert!(said.stderr.contains("use it with `--checkpoint 6`"), "{}", said.stderr);
    fs::write(&manifest, text).expect("written");

    let model = newest.join("model.bpk");
    let mut bytes = fs::read(&model).expect("a model");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&model, bytes).expect("written");
    refused(&["quantize", name]);

    // What is advised works.
    succeed(dir.path(), &["train", "--resume", name, "--checkpoint", "6"]);
    succeed(dir.path(), &["quantize", name, "--calibration", "20"]);
}
