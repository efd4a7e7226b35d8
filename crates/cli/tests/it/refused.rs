//! Every setting and flag of the tables is refused by name, and `docs/refused.md` lists what each
//! prints.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use updraft_run::TASKS;

use crate::command::{config, run};
use crate::{hostile, hostile_tasks};

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/refused.md");

const START: &str = "# Input that is refused\n\n\
    What the command line prints for settings and flags that no run can use.\n\
    The test `every_kind_of_bad_setting_or_flag_is_refused_by_name` tries each of them and writes \
    this page (`UPDATE_EXPECT=1`).\n\
    Tables with bad rows, edited run folders and damaged checkpoints are in \
    `crates/cli/tests/it/hostile.rs` and `crates/cli/tests/it/hostile_tasks.rs`.\n";

/// A row of the page, or the fault in it.
fn row(dir: &Path, arguments: &[&str], shown: &str, words: &str) -> Result<String, String> {
    let said = run(dir, arguments);
    let line = said.stderr.lines().next().unwrap_or_default();
    if said.code != 2 || !said.stderr.contains(words) || !said.stdout.is_empty() {
        return Err(format!("{arguments:?}: `{words}`: {} {}", said.code, said.stderr));
    }
    let cell = |text: &str| text.replace('|', "\\|");
    let line = line.strip_prefix("error: ").unwrap_or(line);
    Ok(format!("| `{}` | {} |\n", cell(shown), cell(line)))
}

/// The first parts of keys.
const SECTIONS: [&str; 6] = ["train", "data", "model", "augment", "log", "targets"];

/// Whether an error names the key of a `--set`, or one inside it or beside it, and every key in
/// full.
fn is_named(set: &str, line: &str) -> bool {
    let Some((key, _)) = set.split_once('=').filter(|(key, _)| !key.is_empty()) else {
        return true;
    };
    let texts: Vec<&str> = line.split('`').skip(1).step_by(2).collect();
    let is_whole = |text: &&str| {
        let is_of_key = |c: char| c.is_ascii_lowercase() || c == '_' || c == '.';
        let is_path = text.contains('.') && text.chars().all(is_of_key);
        !is_path || SECTIONS.contains(&text.split('.').next().unwrap_or_default())
    };
    texts.iter().any(|text| text.starts_with(key)) && texts.iter().all(is_whole)
}

#[test]
fn every_kind_of_bad_setting_or_flag_is_refused_by_name() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let trial = |name: &str| TASKS.iter().find(|kind| kind.name() == name).expect("a task").trial();
    let file = |name: &str| fs::read_to_string(config(name)).expect("a configuration");
    let (mut page, mut faults, mut count) = (String::new(), Vec::new(), 0);
    let mut add = |page: &mut String, row: Result<String, String>| match row {
        Ok(row) => {
            count += 1;
            page.push_str(&row);
        }
        Err(fault) => faults.push(fault),
    };
    for (task, text, rows) in [
        ("image-classification", file("quickstart.toml"), hostile::IMAGES),
        ("tables, KAN layers on a formula", file("kan-quickstart.toml"), hostile::TABLES),
        ("image-to-image", trial("image-to-image").to_owned(), hostile_tasks::IMAGES),
        ("masked-images", trial("masked-images").to_owned(), hostile_tasks::MASKED),
        ("tables", trial("tables").to_owned(), hostile_tasks::TABLES),
    ] {
        fs::write(dir.path().join("c.toml"), text).expect("written");
        let _ = write!(page, "\n## Settings of {task}\n\n| `--set` | Error |\n|---|---|\n");
        for (set, words) in rows {
            let arguments = ["explain", "c.toml", "--set", set];
            let row = row(dir.path(), &arguments, set, words);
            add(
                &mut page,
                row.and_then(|row| match row.split("` | ").nth(1) {
                    Some(line) if is_named(set, line) => Ok(row),
                    _ => Err(format!("{set}: the key is not named in full: {row}")),
                }),
            );
        }
    }
    page.push_str("\n## Flags\n\n| Arguments | Error |\n|---|---|\n");
    for (arguments, words) in hostile::FLAGS {
        add(&mut page, row(dir.path(), arguments, &arguments.join(" "), words));
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    assert!(!dir.path().join("runs").exists());
    assert!(count >= 150, "{count}");
    let page = format!("{START}{page}");
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        fs::write(PAGE, page).expect("written");
        return;
    }
    let expected = fs::read_to_string(PAGE).expect("the page");
    let other = page.lines().zip(expected.lines()).find(|(found, expected)| found != expected);
    assert_eq!(other, None, "docs/refused.md is out of date: UPDATE_EXPECT=1 writes it");
    assert_eq!(page.lines().count(), expected.lines().count(), "docs/refused.md is out of date");
}
