//! `--captured` of `eval` and `predict`.

use crate::command::{run, succeed, tiny};

#[test]
fn captured_results_are_the_plain_ones_and_the_reason_is_printed_once() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let folder = succeed(dir.path(), &tiny(&[])).run_folder();
    let name = folder.to_str().expect("text");
    for file in ["a.png", "b.png"] {
        image::RgbImage::new(4, 4).save(dir.path().join(file)).expect("written");
    }
    let device = ["--device", "flex"];
    for arguments in [&["eval", name][..], &["predict", name, "a.png", "b.png"]] {
        let arguments = [arguments, &device].concat();
        let plain = succeed(dir.path(), &arguments);
        let captured = succeed(dir.path(), &[&arguments[..], &["--captured"]].concat());
        assert_eq!(captured.stdout, plain.stdout, "{arguments:?}");
        let reason = "no forward pass was replayed: burn offers no graphs on";
        // Lines are wrapped.
        let said: Vec<&str> = captured.stderr.split_whitespace().collect();
        assert_eq!(said.join(" ").matches(reason).count(), 1, "{}", captured.stderr);
        assert!(!plain.stderr.contains("replayed"), "{}", plain.stderr);
    }
}

#[test]
fn captured_passes_are_refused_with_options_that_they_exclude() {
    let dir = tempfile::tempdir().expect("temporary folder");
    for arguments in [
        &["eval", "runs/x", "--captured", "--int8"][..],
        &["eval", "runs/x", "--captured", "--tta", "flip"],
        &["eval", "runs/x", "--captured", "--trace-steps", "1"],
        &["predict", "runs/x", "a.png", "--captured", "--int8"],
        &["predict", "runs/x", "a.png", "--captured", "--parts", "parts"],
    ] {
        let said = run(dir.path(), arguments);
        assert_eq!(said.code, 2, "{arguments:?}");
        assert!(said.stderr.contains("cannot be used with"), "{}", said.stderr);
    }
}
