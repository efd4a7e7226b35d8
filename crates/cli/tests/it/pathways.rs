//! What the pathways of a network contribute: recorded by `train`, shown by `eval` and `report`.

use std::fs;

use crate::command::{json, succeed, tiny};

#[test]
fn contributions_are_recorded_by_train_and_shown_by_eval_and_report() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let sets =
        ["--set", "model.gate=adaptive", "--set", "model.penalty={entropy=0.01,balance=0.1}"];
    let folder = succeed(dir.path(), &tiny(&sets)).run_folder();
    let (path, name) = (dir.path().join(&folder), folder.to_str().expect("text"));
    let stored = fs::read_to_string(path.join("contributions.json")).expect("contributions");
    let places = json(&stored)["places"].as_array().expect("places").clone();
    assert_eq!(places.len(), 3);
    assert_eq!(places[2]["place"], "pooled");
    assert_eq!(places[2]["overall"]["images"], 40);

    let said = succeed(dir.path(), &["eval", name]);
    assert!(said.stdout.contains("loss-penalty"), "{}", said.stdout);
    let (_, table) = said.stderr.split_once("contributions to 40 test images").expect("a table");
    for (place, at) in ["stage 0", "stage 1", "pooled"].iter().zip(0..) {
        let line = table.lines().find(|line| line.starts_with(place)).expect("a place");
        let weight = places[at]["overall"]["mean"]["weights"]["color"].as_f64().expect("a number");
        assert!(line.contains(&format!(" {weight:.3} ")), "{weight} {line}");
    }
    assert!(said.stderr.lines().all(|line| line.chars().count() <= 80), "{}", said.stderr);
    // The other checkpoint has other weights.
    let said = succeed(dir.path(), &["eval", name, "--checkpoint", "6"]).stderr;
    assert!(said.contains("contributions are of the served checkpoint, step 12\n"), "{said}");
    assert!(!said.contains("contributions to") && !said.contains("no contributions"), "{said}");
    let said = succeed(dir.path(), &["eval", name, "--checkpoint", "12"]).stderr;
    assert!(said.contains("contributions to 40 test images"), "{said}");

    let page = || {
        let said = succeed(dir.path(), &["report", name]).stderr;
        (said, fs::read_to_string(path.join("report.html")).expect("a page"))
    };
    let (said, text) = page();
    assert!(!said.contains("warning"), "{said}");
    for expected in ["Contributions of the pathways", "Shares by class", "Weights by class"] {
        assert!(text.contains(expected), "`{expected}` is missing");
    }

    let mut edited = json(&stored);
    edited["weights"] = "0".into();
    fs::write(path.join("contributions.json"), edited.to_string()).expect("written");
    let (said, text) = page();
    assert!(said.contains("the page has no section about contributions"), "{said}");
    assert!(!text.contains("Contributions of the pathways"));
}
