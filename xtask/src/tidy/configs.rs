//! Configurations: their index mentions each.

use crate::tidy::Fault;
use crate::tidy::workspace::Workspace;

const INDEX: &str = "configs/README.md";

pub(super) fn faults(workspace: &Workspace) -> Vec<Fault> {
    let index = workspace.files.iter().find(|(path, _)| path == INDEX).map_or("", |(_, text)| text);
    let is_config = |path: &&str| path.starts_with("configs/");
    let configs = workspace.with_ending(".toml").map(|(path, _)| path).filter(is_config);
    configs
        .filter(|path| !index.contains(path.trim_start_matches("configs/")))
        .map(|path| Fault::new(path, format!("is not mentioned in {INDEX}")))
        .collect()
}
