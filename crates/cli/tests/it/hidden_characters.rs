//! Names with characters that are not shown, in the terminal and on pages.

use std::fs;

use crate::command::{run, succeed};

/// Line separators, bidirectional marks and characters without a width.
const HIDDEN: &str =
    "\u{2028}\u{2029}\u{200e}\u{200f}\u{202a}\u{202e}\u{2066}\u{2069}\u{61c}\u{ad}\u{2060}\u{feff}";

#[test]
fn names_with_hidden_characters_are_shown_escaped() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let (class, column) = (format!("b{HIDDEN}"), format!("y{HIDDEN}"));
    let row = |at: usize| {
        let class = if at.is_multiple_of(2) { "a" } else { class.as_str() };
        format!("{at},{at},{class}\n")
    };
    let rows: String = (0..40).map(row).collect();
    fs::write(dir.path().join("a.csv"), format!("x,{column},c\n{rows}")).expect("written");
    let text = format!(
        "task = \"tables\"\n[data]\nsource = \"files\"\nfiles = [\"a.csv\"]\n\
         [targets]\nc = {{ kind = \"classes\" }}\n'{column}' = {{ kind = \"number\" }}\n\
         [train]\nepochs = 2\nbatch = 4\n[model]\nhidden = 4\n"
    );
    fs::write(dir.path().join("c.toml"), text).expect("written");
    let trained = succeed(dir.path(), &["train", "c.toml", "--data", "."]);
    let folder = trained.run_folder();
    let name = folder.to_str().expect("text");
    let predicted = succeed(dir.path(), &["predict", name, "a.csv"]);
    let as_json = succeed(dir.path(), &["predict", name, "--json", "a.csv"]);
    let reported = succeed(dir.path(), &["report", name]);
    let missing = run(dir.path(), &["predict", name, &format!("gone{HIDDEN}.csv")]);
    assert_eq!(missing.code, 2, "{}", missing.stderr);
    let is_hidden = |c: char| HIDDEN.contains(c);
    for said in [&trained, &predicted, &as_json, &reported, &missing] {
        for text in [&said.stdout, &said.stderr] {
            assert!(!text.chars().any(is_hidden), "{text:?}");
        }
    }
    assert!(missing.stderr.contains("gone\\u{2028}\\u{2029}\\u{200e}"), "{}", missing.stderr);
    for line in as_json.stdout.lines() {
        let value: serde_json::Value = serde_json::from_str(line).expect("JSON");
        assert!(value["sample"].is_string(), "{line}");
    }
    let page = fs::read_to_string(dir.path().join(&folder).join("report.html")).expect("a page");
    assert!(!page.chars().any(is_hidden), "a name changes what shows the page");
    assert!(page.contains("y\\u{2028}"), "the column is not on the page");
}
