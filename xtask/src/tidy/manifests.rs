//! Manifests: every feature says what it is for.

use crate::tidy::Fault;
use crate::tidy::workspace::Workspace;

pub(super) fn faults(workspace: &Workspace) -> Vec<Fault> {
    workspace.with_ending("Cargo.toml").flat_map(|(path, text)| undescribed(path, text)).collect()
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
