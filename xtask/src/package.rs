//! `package`: packages every published crate, and checks that the packages build.
//!
//! The packages are unpacked into a separate workspace, in which they depend on each other, so that
//! a file that is missing from a package, or a dependency without a version, is an error.
//! That workspace has the versions, profiles and features of this one, so that third-party crates
//! are not compiled again.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use serde_json::Value;

use crate::cargo::{Cargo, program};
use crate::{complain, print, root, target};

/// The name of the member that enables the features of this workspace.
const FEATURES: &str = "updraft-features";

pub(crate) fn run(dry_run: bool) -> ExitCode {
    if dry_run {
        print("package every published crate, unpack them, and check that they build");
        return ExitCode::SUCCESS;
    }
    match check() {
        Ok(()) => ExitCode::SUCCESS,
        Err(code) => code,
    }
}

pub(crate) fn check() -> Result<(), ExitCode> {
    let metadata = metadata()?;
    let packages = packages(&metadata);
    let excluded: String = packages
        .iter()
        .filter(|p| !p.is_published)
        .map(|p| format!(" --exclude {}", p.name))
        .collect();
    let package = format!("package --workspace{excluded} --no-verify --allow-dirty --quiet");
    Cargo::new(&package).run()?;

    let published: Vec<_> = packages.into_iter().filter(|package| package.is_published).collect();
    let folder = target().join("package/unpacked");
    unpack(&folder, &published).map_err(failed)?;
    fs::write(folder.join("Cargo.toml"), workspace(&published).map_err(failed)?).map_err(failed)?;
    fs::copy(root().join("Cargo.lock"), folder.join("Cargo.lock")).map_err(failed)?;
    let features = folder.join(FEATURES);
    fs::create_dir_all(&features).map_err(failed)?;
    fs::write(features.join("lib.rs"), "//! No items.\n").map_err(failed)?;
    fs::write(features.join("Cargo.toml"), features_manifest(&metadata)).map_err(failed)?;
    build(&folder)
}

/// A package of this workspace.
struct Package {
    name: String,
    version: String,
    is_published: bool,
}

fn metadata() -> Result<Value, ExitCode> {
    let output = Command::new(program())
        .args(["metadata", "--format-version", "1", "--filter-platform", &host()?])
        .current_dir(root())
        .stderr(Stdio::inherit())
        .output()
        .map_err(failed)?;
    serde_json::from_slice(&output.stdout).map_err(failed)
}

/// The target triple of this machine.
fn host() -> Result<String, ExitCode> {
    let output = Command::new("rustc").arg("-vV").output().map_err(failed)?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let host = text.lines().find_map(|line| line.strip_prefix("host: ")).map(str::to_owned);
    host.ok_or_else(|| failed("`rustc -vV` does not print the host"))
}

fn packages(metadata: &Value) -> Vec<Package> {
    let members = metadata["workspace_members"].as_array().into_iter().flatten();
    let members: Vec<_> = members.collect();
    let all = metadata["packages"].as_array().into_iter().flatten();
    let ours = all.filter(|package| members.contains(&&package["id"]));
    ours.map(|package| Package {
        name: text(&package["name"]),
        version: text(&package["version"]),
        is_published: package["publish"].as_array().is_none_or(|registries| !registries.is_empty()),
    })
    .collect()
}

/// Unpacks the files that `cargo package` wrote; replaces an existing folder.
fn unpack(folder: &Path, published: &[Package]) -> Result<(), String> {
    if folder.exists() {
        fs::remove_dir_all(folder).map_err(|error| error.to_string())?;
    }
    fs::create_dir_all(folder).map_err(|error| error.to_string())?;
    for Package { name, version, .. } in published {
        let file = target().join(format!("package/{name}-{version}.crate"));
        let status = Command::new("tar").arg("-xzf").arg(&file).arg("-C").arg(folder).status();
        if !status.is_ok_and(|status| status.success()) {
            return Err(format!("`tar` cannot unpack {}", file.display()));
        }
    }
    Ok(())
}

/// The manifest of the workspace: the unpacked crates replace those of the registry.
fn workspace(published: &[Package]) -> Result<String, String> {
    let manifest =
        fs::read_to_string(root().join("Cargo.toml")).map_err(|error| error.to_string())?;
    let manifest: toml::Table = manifest.parse().map_err(|error| format!("Cargo.toml: {error}"))?;
    let mut text = String::from("[workspace]\nresolver = \"3\"\nmembers = [\"*\"]\n\n");
    text.push_str("[patch.crates-io]\n");
    for Package { name, version, .. } in published {
        let _ = writeln!(text, "{name} = {{ path = \"{name}-{version}\" }}");
    }
    if let Some(profile) = manifest.get("profile") {
        let profiles = toml::Table::from_iter([("profile".to_owned(), profile.clone())]);
        let _ =
            write!(text, "\n{}", toml::to_string(&profiles).map_err(|error| error.to_string())?);
    }
    Ok(text)
}

/// The manifest of a package that depends on every direct third-party dependency, with the features
/// that it has in this workspace.
fn features_manifest(metadata: &Value) -> String {
    let nodes = || metadata["resolve"]["nodes"].as_array().into_iter().flatten();
    let members: Vec<_> = metadata["workspace_members"].as_array().into_iter().flatten().collect();
    let direct: Vec<_> = nodes()
        .filter(|node| members.contains(&&node["id"]))
        .flat_map(|node| node["dependencies"].as_array().into_iter().flatten())
        .collect();
    let mut manifest = format!(
        "[package]\nname = \"{FEATURES}\"\nedition = \"2024\"\n\n[lib]\npath = \"lib.rs\"\n"
    );
    for (at, package) in metadata["packages"].as_array().into_iter().flatten().enumerate() {
        let Some(node) = nodes().find(|node| node["id"] == package["id"]) else { continue };
        if package["source"].is_null() || !direct.contains(&&package["id"]) {
            continue;
        }
        let _ = write!(
            manifest,
            "\n[dependencies.d{at}]\npackage = {}\nversion = \"={}\"\ndefault-features = false\n\
             features = {}\n",
            package["name"],
            text(&package["version"]),
            node["features"],
        );
    }
    manifest
}

fn build(folder: &Path) -> Result<(), ExitCode> {
    let status = Command::new(program())
        .args(["check", "--workspace", "--offline", "--quiet"])
        .env("CARGO_TARGET_DIR", target_absolute())
        .current_dir(folder)
        .status()
        .map_err(failed)?;
    if status.success() {
        return Ok(());
    }
    Err(failed(format!("a package does not build; the packages are in {}", folder.display())))
}

/// The target folder of cargo as an absolute path.
fn target_absolute() -> PathBuf {
    root().join(target())
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn failed(error: impl std::fmt::Display) -> ExitCode {
    complain(&format!("error: {error}"));
    ExitCode::FAILURE
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_the_features_of_direct_dependencies_are_enabled() {
        let package = |id: &str, source: Value| json!({ "id": id, "name": id, "version": "1.2.3", "source": source, "publish": null });
        let node = |id: &str, dependencies: &[&str], features: &[&str]| json!({ "id": id, "dependencies": dependencies, "features": features });
        let metadata = json!({
            "workspace_members": ["ours"],
            "packages": [
                package("ours", Value::Null),
                package("near", json!("registry")),
                package("far", json!("registry")),
            ],
            "resolve": { "nodes": [
                node("ours", &["near"], &[]),
                node("near", &["far"], &["fast", "std"]),
                node("far", &[], &["std"]),
            ] },
        });
        let manifest: toml::Table = features_manifest(&metadata).parse().expect("TOML");
        let dependencies = manifest["dependencies"].as_table().expect("a table");
        assert_eq!(dependencies.len(), 1);
        let near = dependencies.values().next().expect("one");
        assert_eq!(near["package"].as_str(), Some("near"));
        assert_eq!(near["version"].as_str(), Some("=1.2.3"));
        assert_eq!(near["features"].as_array().map(Vec::len), Some(2));
    }

    #[test]
    fn packages_that_are_not_published_are_left_out() {
        let metadata = json!({
            "workspace_members": ["a", "b"],
            "packages": [
                { "id": "a", "name": "a", "version": "0.1.0", "publish": null },
                { "id": "b", "name": "b", "version": "0.1.0", "publish": [] },
                { "id": "c", "name": "c", "version": "0.1.0", "publish": null },
            ],
        });
        let published: Vec<_> =
            packages(&metadata).into_iter().filter(|p| p.is_published).map(|p| p.name).collect();
        assert_eq!(published, ["a"]);
    }
}
