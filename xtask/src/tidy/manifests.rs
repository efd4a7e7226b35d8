//! Manifests: every feature has a comment line, and published crates have metadata.

use crate::tidy::Fault;
use crate::tidy::workspace::Workspace;

pub(super) fn faults(workspace: &Workspace) -> Vec<Fault> {
    let manifests = || workspace.with_ending("Cargo.toml");
    let mut faults: Vec<_> = manifests().flat_map(|(path, text)| undescribed(path, text)).collect();
    faults.extend(manifests().flat_map(|(path, text)| without_metadata(path, text)));
    faults
}

/// The metadata that crates.io and docs.rs show, and that a published crate lacks.
fn without_metadata(path: &str, text: &str) -> Vec<Fault> {
    let Ok(manifest) = text.parse::<toml::Table>() else { return Vec::new() };
    let Some(package) = manifest.get("package") else { return Vec::new() };
    if !path.starts_with("crates/") || package.get("publish").is_some() {
        return Vec::new();
    }
    let docs = package.get("metadata").and_then(|metadata| metadata.get("docs")?.get("rs"));
    let required = ["description", "keywords", "categories"];
    let mut missing: Vec<_> =
        required.into_iter().filter(|key| package.get(key).is_none()).collect();
    if docs.is_none() {
        missing.push("metadata.docs.rs");
    }
    let fault = |key| Fault::new(path, format!("a published crate needs `package.{key}`"));
    missing.into_iter().map(fault).collect()
}

/// Features without a comment line above them.
fn undescribed(path: &str, text: &str) -> Vec<Fault> {
    let mut faults = Vec::new();
    let mut in_features = false;
    let mut before = "";
    for (number, line) in (1..).zip(text.lines()) {
        if line.starts_with('[') {
            in_features = line.trim() == "[features]";
        } else if in_features
            && !line.starts_with('#')
            && let Some((name, _)) = line.split_once(" = ")
            && !name.starts_with(char::is_whitespace)
            && !before.starts_with('#')
        {
            let message = format!("feature `{name}` needs a comment line that says what it does");
            faults.push(Fault::new(format!("{path}:{number}"), message));
        }
        before = line;
    }
    faults
}
