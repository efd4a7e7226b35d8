//! Manifests: every feature has a comment line, published crates have metadata, and packages outside
//! of the workspace ask for features that exist.

use crate::tidy::Fault;
use crate::tidy::workspace::Workspace;

pub(super) fn faults(workspace: &Workspace) -> Vec<Fault> {
    let manifests = || workspace.with_ending("Cargo.toml");
    let mut faults: Vec<_> = manifests().flat_map(|(path, text)| undescribed(path, text)).collect();
    faults.extend(manifests().flat_map(|(path, text)| without_metadata(path, text)));
    faults.extend(manifests().flat_map(|(path, text)| unknown_features(workspace, path, text)));
    faults
}

/// Features of our crates that a dependency by path names and that do not exist.
///
/// Cargo reports them within the workspace; a package outside is only read when it is built.
fn unknown_features(workspace: &Workspace, path: &str, text: &str) -> Vec<Fault> {
    let Ok(manifest) = text.parse::<toml::Table>() else { return Vec::new() };
    let Some(dependencies) = manifest.get("dependencies").and_then(|value| value.as_table()) else {
        return Vec::new();
    };
    let mut faults = Vec::new();
    for (name, dependency) in dependencies {
        let asked = dependency.get("features").and_then(|features| features.as_array());
        let to = dependency.get("path").and_then(|to| to.as_str());
        let (Some(asked), Some(to)) = (asked, to) else { continue };
        let other = joined(path, to);
        let Some((_, other)) = workspace.files.iter().find(|(path, _)| *path == other) else {
            continue;
        };
        let declared = other.parse::<toml::Table>().unwrap_or_default();
        let declared = declared.get("features").and_then(|features| features.as_table());
        for feature in asked.iter().filter_map(|feature| feature.as_str()) {
            if declared.is_none_or(|declared| !declared.contains_key(feature)) {
                faults.push(Fault::new(path, format!("`{name}` has no feature `{feature}`")));
            }
        }
    }
    faults
}

/// The manifest in the folder `to`, which is relative to the folder of another manifest.
fn joined(manifest: &str, to: &str) -> String {
    let mut parts: Vec<&str> = manifest.split('/').collect();
    parts.pop();
    for part in to.split('/') {
        match part {
            ".." => drop(parts.pop()),
            "." => {}
            part => parts.push(part),
        }
    }
    parts.push("Cargo.toml");
    parts.join("/")
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
