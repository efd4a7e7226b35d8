//! `package`: packages every published crate, and checks that the packages build.
//!
//! The packages are unpacked into a separate workspace, in which they depend on each other, so that
//! a file that is missing from a package, or a dependency without a version, is an error.
//! That workspace has the versions, profiles and features of this one, so that third-party crates
//! are not compiled again.

use std::collections::{BTreeMap, BTreeSet};
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

    let features = features_manifest(&tree()?, &packages);
    let published: Vec<_> = packages.into_iter().filter(|package| package.is_published).collect();
    let folder = target().join("package/unpacked");
    unpack(&folder, &published).map_err(failed)?;
    fs::write(folder.join("Cargo.toml"), workspace(&published).map_err(failed)?).map_err(failed)?;
    fs::copy(root().join("Cargo.lock"), folder.join("Cargo.lock")).map_err(failed)?;
    let enables = folder.join(FEATURES);
    fs::create_dir_all(&enables).map_err(failed)?;
    fs::write(enables.join("lib.rs"), "//! No items.\n").map_err(failed)?;
    fs::write(enables.join("Cargo.toml"), features).map_err(failed)?;
    build(&folder)
}

/// A package of this workspace.
struct Package {
    name: String,
    version: String,
    is_published: bool,
}

fn metadata() -> Result<Value, ExitCode> {
    serde_json::from_slice(&output_of(&["metadata", "--format-version", "1", "--no-deps"])?)
        .map_err(failed)
}

/// The direct dependencies of the workspace with the features of its builds, a line each.
///
/// `cargo metadata` reports more features than a build has.
fn tree() -> Result<String, ExitCode> {
    let words = "tree --workspace --depth 1 --edges normal,dev --prefix none --format {p}|{f}";
    let words: Vec<&str> = words.split(' ').collect();
    String::from_utf8(output_of(&words)?).map_err(failed)
}

fn output_of(arguments: &[&str]) -> Result<Vec<u8>, ExitCode> {
    let mut command = Command::new(program());
    let output = command.args(arguments).current_dir(root()).stderr(Stdio::inherit()).output();
    let output = output.map_err(failed)?;
    match output.status.success() {
        true => Ok(output.stdout),
        false => Err(failed(format!("`cargo {}` failed", arguments.join(" ")))),
    }
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
        // With the time of now: cargo gives files of packages one time of 2006, by which a later build
        // would take changed ones for those that it has compiled.
        let status = Command::new("tar").arg("-xmzf").arg(&file).arg("-C").arg(folder).status();
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
/// that it has in this workspace: the lines of [`tree`] but for those of our packages.
fn features_manifest(tree: &str, ours: &[Package]) -> String {
    let mut direct: BTreeMap<(&str, &str), BTreeSet<&str>> = BTreeMap::new();
    for line in tree.lines() {
        let Some((package, features)) = line.trim_end_matches(" (*)").split_once('|') else {
            continue;
        };
        let mut words = package.split(' ');
        let (name, version) = (words.next(), words.next().and_then(|it| it.strip_prefix('v')));
        let (Some(name), Some(version)) = (name, version) else { continue };
        if ours.iter().all(|package| package.name != name) {
            let known = direct.entry((name, version)).or_default();
            known.extend(features.split(',').filter(|feature| !feature.is_empty()));
        }
    }
    let mut manifest = format!(
        "[package]\nname = \"{FEATURES}\"\nedition = \"2024\"\n\n[lib]\npath = \"lib.rs\"\n"
    );
    for (at, ((name, version), features)) in direct.into_iter().enumerate() {
        let _ = write!(
            manifest,
            "\n[dependencies.d{at}]\npackage = \"{name}\"\nversion = \"={version}\"\n\
             default-features = false\nfeatures = {:?}\n",
            Vec::from_iter(features),
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
    fn direct_dependencies_have_the_features_of_all_their_builds() {
        let package = |name: &str| Package {
            name: name.to_owned(),
            version: "0.1.0".to_owned(),
            is_published: true,
        };
        let tree = "ours v0.1.0 (/work)|default\nnear v1.2.3|std\nmacros v2.0.0 (proc-macro)|\n\n\
                    other v0.1.0 (/work)|\nnear v1.2.3|fast,std (*)\n";
        let manifest = features_manifest(tree, &[package("ours"), package("other")]);
        let manifest: toml::Table = manifest.parse().expect("TOML");
        let dependencies = manifest["dependencies"].as_table().expect("a table");
        let of = |name: &str| {
            let mut all = dependencies.values();
            all.find(|one| one["package"].as_str() == Some(name)).expect("a dependency")
        };
        assert_eq!(dependencies.len(), 2);
        assert_eq!(of("near")["version"].as_str(), Some("=1.2.3"));
        let features = of("near")["features"].as_array().expect("a list");
        assert!(features.iter().filter_map(|it| it.as_str()).eq(["fast", "std"]));
        assert_eq!(of("macros")["features"].as_array().map(Vec::len), Some(0));
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
