//! The content of the workspace: its text files, and its packages by `cargo metadata`.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::cargo::program;
use crate::tidy::Fault;
use crate::tidy::device_record::{LOCK, RECORD};

/// The endings of files that a rule reads.
const ENDINGS: [&str; 3] = [".rs", ".toml", ".md"];

/// Other files that a rule reads.
const OTHERS: [&str; 2] = [LOCK, RECORD];

/// Folders without files of the repository.
const FOREIGN: [&str; 4] = ["target", "runs", "data", ".git"];

/// The workspace, read once.
pub(crate) struct Workspace {
    /// Path from the root, with forward slashes, and text; sorted.
    pub(crate) files: Vec<(String, String)>,
    /// Every file and folder, by its path from the root.
    pub(crate) paths: Vec<String>,
    pub(crate) packages: Vec<Package>,
}

/// A package of the workspace.
pub(crate) struct Package {
    /// The last folder of its path: `data`, `xtask`.
    pub(crate) folder: String,
    /// Its manifest, from the root.
    pub(crate) manifest: String,
    pub(crate) dependencies: Vec<Dependency>,
}

/// A dependency on another package of the workspace.
pub(crate) struct Dependency {
    /// The other's folder.
    pub(crate) folder: String,
    pub(crate) is_dev: bool,
    pub(crate) has_version: bool,
}

impl Workspace {
    pub(crate) fn read(root: &Path) -> Result<Self, Fault> {
        let mut workspace =
            Self { files: Vec::new(), paths: Vec::new(), packages: packages(root)? };
        workspace.collect(root, "")?;
        workspace.files.sort();
        Ok(workspace)
    }

    /// The files with an ending.
    pub(crate) fn with_ending(&self, ending: &str) -> impl Iterator<Item = (&str, &str)> {
        self.files
            .iter()
            .filter(move |(path, _)| path.ends_with(ending))
            .map(|(path, text)| (path.as_str(), text.as_str()))
    }

    fn collect(&mut self, folder: &Path, inside: &str) -> Result<(), Fault> {
        let fault =
            |error| Fault::new(folder.display().to_string(), format!("unreadable: {error}"));
        for entry in fs::read_dir(folder).map_err(fault)? {
            let path = entry.map_err(fault)?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let from_root = format!("{inside}{name}");
            if path.is_dir() {
                if !FOREIGN.contains(&from_root.as_str()) {
                    self.paths.push(from_root.clone());
                    self.collect(&path, &format!("{from_root}/"))?;
                }
                continue;
            }
            let is_read = ENDINGS.iter().any(|ending| name.ends_with(ending));
            if is_read || OTHERS.contains(&from_root.as_str()) {
                let text = fs::read_to_string(&path).map_err(|error| {
                    Fault::new(from_root.clone(), format!("unreadable: {error}"))
                })?;
                self.files.push((from_root.clone(), text));
            }
            self.paths.push(from_root);
        }
        Ok(())
    }
}

/// The packages by `cargo metadata`, so that dotted tables, targets and renames all count.
fn packages(root: &Path) -> Result<Vec<Package>, Fault> {
    let fault = |message: String| Fault::new("Cargo.toml", message);
    let output = Command::new(program())
        .args(["metadata", "--no-deps", "--format-version", "1", "--offline"])
        .current_dir(root)
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| fault(format!("cargo metadata cannot be started: {error}")))?;
    if !output.status.success() {
        return Err(fault("cargo metadata refuses the workspace".to_owned()));
    }
    let metadata: Value = serde_json::from_slice(&output.stdout)
        .map_err(|error| fault(format!("cargo metadata is no JSON: {error}")))?;
    let root = text(&metadata["workspace_root"]).to_owned();
    Ok(list(&metadata["packages"]).iter().map(|package| read_package(package, &root)).collect())
}

fn read_package(package: &Value, root: &str) -> Package {
    let manifest = from_root(text(&package["manifest_path"]), root);
    let dependencies = list(&package["dependencies"])
        .iter()
        .filter(|dependency| dependency["path"].is_string())
        .map(|dependency| Dependency {
            folder: last_folder(&text(&dependency["path"]).replace('\\', "/")),
            is_dev: dependency["kind"] == "dev",
            has_version: dependency["req"] != "*",
        })
        .collect();
    let folder = manifest.strip_suffix("/Cargo.toml").unwrap_or(&manifest);
    Package { folder: last_folder(folder), manifest: manifest.clone(), dependencies }
}

fn from_root(path: &str, root: &str) -> String {
    path.strip_prefix(root).unwrap_or(path).replace('\\', "/").trim_start_matches('/').to_owned()
}

fn last_folder(path: &str) -> String {
    path.rsplit('/').next().unwrap_or(path).to_owned()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}
