//! Test-time augmentation, reported beside the plain score.

use crate::command::{TASKS, json, succeed};

#[test]
fn views_are_scored_beside_the_plain_images() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let run = TASKS[0].succeed(dir.path(), "train", &[]).run_folder();
    let run = run.to_str().expect("text");
    let plain = json(&succeed(dir.path(), &["eval", run, "--json"]).stdout);
    assert!(plain.get("tta").is_none(), "{plain}");
    for views in ["flip", "flip-translate"] {
        let mut both = json(&succeed(dir.path(), &["eval", run, "--tta", views, "--json"]).stdout);
        let averaged = both["tta"].take();
        assert_eq!((&both["loss"], &both["accuracy"]), (&plain["loss"], &plain["accuracy"]));
        assert_eq!(averaged["views"], views);
        assert_eq!(averaged["score"]["samples"], plain["samples"]);
        assert_ne!(averaged["score"]["loss"], plain["loss"]);
        let text = succeed(dir.path(), &["eval", run, "--tta", views]).stdout;
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 2, "{text}");
        assert!(lines[0].starts_with("test "), "{text}");
        assert!(lines[1].starts_with(&format!("tta {views} ")), "{text}");
    }
}
