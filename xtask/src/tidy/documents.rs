//! Documents: every path in them exists, and every function named with its file is in it.

use crate::tidy::Fault;
use crate::tidy::device_record::RECORD;
use crate::tidy::workspace::Workspace;

/// Folders that a run or a build creates, and the record that tests on a device write.
const MADE: [&str; 6] = ["runs/", "target/", "data/", "kernel-choices/", "updraft-own/", RECORD];

pub(super) fn faults(workspace: &Workspace) -> Vec<Fault> {
    workspace
        .with_ending(".md")
        .flat_map(|(path, text)| {
            let mut faults = dead_paths(workspace, path, text);
            faults.extend(missing_functions(workspace, path, text));
            faults
        })
        .collect()
}

/// Functions, such as tests, that a line names before "in" and a file that does not have them.
fn missing_functions(workspace: &Workspace, document: &str, text: &str) -> Vec<Fault> {
    let mut faults = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        for (at, joint) in line.match_indices("` in `") {
            let file = line[at + joint.len()..].split('`').next().unwrap_or_default();
            let found = workspace.with_ending(".rs").find(|(path, _)| *path == file);
            let Some((_, source)) = found else { continue };
            for name in names_before(&line[..at]) {
                if !source.contains(&format!("fn {name}(")) {
                    let place = format!("{document}:{number}");
                    faults.push(Fault::new(place, format!("`{file}` has no function `{name}`")));
                }
            }
        }
    }
    faults
}

/// The functions of a list of names in backticks, with commas between them, at the end of a text.
fn names_before(text: &str) -> Vec<&str> {
    let mut names = Vec::new();
    for part in text.split("`, `").collect::<Vec<_>>().into_iter().rev() {
        let name = part.rsplit('`').next().unwrap_or_default();
        names.push(name);
        // Other text before the first name.
        if name.len() < part.len() {
            break;
        }
    }
    let plain = |character: char| character.is_ascii_alphanumeric() || character == '_';
    names.retain(|name| name.contains('_') && name.chars().all(plain));
    names
}

fn dead_paths(workspace: &Workspace, document: &str, text: &str) -> Vec<Fault> {
    let mut faults = Vec::new();
    let mut in_block = false;
    for (number, line) in (1..).zip(text.lines()) {
        if line.trim_start().starts_with("```") {
            in_block = !in_block;
        } else if !in_block {
            for path in spans(line).filter(|span| is_path(workspace, span)).chain(links(line)) {
                if !exists(workspace, document, path) {
                    let place = format!("{document}:{number}");
                    faults.push(Fault::new(place, format!("`{path}` does not exist")));
                }
            }
        }
    }
    faults
}

/// The text between backticks.
fn spans(line: &str) -> impl Iterator<Item = &str> {
    line.split('`').skip(1).step_by(2)
}

/// Whether a span is meant as a path of the workspace.
fn is_path(workspace: &Workspace, span: &str) -> bool {
    let plain = |character: char| character.is_ascii_alphanumeric() || "/._-".contains(character);
    if !span.chars().all(plain) || MADE.iter().any(|folder| span.starts_with(folder)) {
        return false;
    }
    let first = span.split('/').next().unwrap_or_default();
    let starts_at_root = span.contains('/') && workspace.paths.iter().any(|path| path == first);
    starts_at_root || span.ends_with('/') || (span.ends_with(".rs") && span != ".rs")
}

/// The targets of links within the workspace.
fn links(line: &str) -> impl Iterator<Item = &str> {
    line.split("](").skip(1).filter_map(|rest| rest.split([')', '#']).next()).filter(|target| {
        let is_foreign = target.contains("://") || target.starts_with("mailto:");
        !target.is_empty() && !is_foreign
    })
}

/// A path counts from the root, the document's folder, or the source beside it; in a document
/// about the whole repository, also by its end alone.
fn exists(workspace: &Workspace, document: &str, path: &str) -> bool {
    let folder = document.rsplit_once('/').map_or("", |(folder, _)| folder);
    let bases = ["".to_owned(), format!("{folder}/"), format!("{folder}/src/")];
    let has = |path: &String| workspace.paths.contains(path);
    if bases.iter().any(|base| has(&normal(&format!("{base}{path}")))) {
        return true;
    }
    let end = format!("/{}", normal(path));
    !folder.starts_with("crates/") && workspace.paths.iter().any(|path| path.ends_with(&end))
}

/// Resolves `..`, and drops a slash at either end.
fn normal(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/').filter(|part| !part.is_empty() && *part != ".") {
        if part == ".." {
            parts.pop();
        } else {
            parts.push(part);
        }
    }
    parts.join("/")
}
