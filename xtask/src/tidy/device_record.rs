//! The code that only builds for GPUs compile: its files have names that begin with `cube` or
//! `fusion`, and it is as it was when tests on a device last passed.

use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::tidy::Fault;
use crate::tidy::workspace::Workspace;

/// The record of tests on devices, which `cargo xtask test-device` writes.
pub(crate) const RECORD: &str = "xtask/device-suite.json";

/// The versions that cargo resolved.
pub(super) const LOCK: &str = "Cargo.lock";

/// The list of the tests, which are others if it changes.
const CASES: &str = "xtask/src/gpu/cases.rs";

/// How the names of these files, or of a folder that they are in, begin.
const NAMES: [&str; 2] = ["cube", "fusion"];

/// Features without which a module is for GPUs alone.
const FEATURES: [&str; 2] = ["feature = \"cube\"", "feature = \"fusion\""];

/// How the names of packages begin whose versions change what runs on a GPU.
const PACKAGES: [&str; 3] = ["burn", "cubecl", "cubek"];

const COMMAND: &str = "cargo xtask test-device --device wgpu";

pub(super) fn faults(workspace: &Workspace) -> Vec<Fault> {
    let sources = workspace.with_ending(".rs");
    let mut faults: Vec<_> = sources.flat_map(|(path, text)| misnamed(path, text)).collect();
    let Some(digest) = digest(workspace) else { return faults };
    let record = workspace.files.iter().find(|(path, _)| path == RECORD);
    let Some((_, record)) = record else {
        let message = format!("does not exist; run `{COMMAND}`, and commit it");
        faults.push(Fault::new(RECORD, message));
        return faults;
    };
    let record: Value = serde_json::from_str(record).unwrap_or_default();
    let runs = record["runs"].as_array().map_or(&[][..], Vec::as_slice);
    if runs.iter().all(|run| run["digest"] != digest.as_str()) {
        let message = format!(
            "the code that only builds for GPUs compile, or the version of burn or CubeCL, has \
             changed since its tests last passed on a device; run `{COMMAND}`, or with the backend \
             of a card, and commit the file"
        );
        faults.push(Fault::new(RECORD, message));
    }
    faults
}

/// A digest of the code that only builds for GPUs compile, of their tests, and of the versions of
/// burn and CubeCL; `None` if there is no such code. Line endings and the order of files do not
/// change it.
pub(super) fn digest(workspace: &Workspace) -> Option<String> {
    let mut sources: Vec<_> =
        workspace.with_ending(".rs").filter(|(path, _)| is_for_devices(path)).collect();
    if sources.is_empty() {
        return None;
    }
    sources.extend(workspace.with_ending(".rs").filter(|(path, _)| *path == CASES));
    sources.sort_unstable();
    let mut digest = Sha256::new();
    for (path, text) in sources {
        digest.update(path);
        digest.update([0_u8]);
        digest.update(text.replace("\r\n", "\n"));
        digest.update([0_u8]);
    }
    let lock = workspace.files.iter().find(|(path, _)| path == LOCK);
    for version in lock.map_or_else(Vec::new, |(_, text)| versions(text)) {
        digest.update(version);
        digest.update([0_u8]);
    }
    Some(digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Whether a file of a crate's `src` or `tests` is for GPUs alone, by its name or its folder's.
fn is_for_devices(path: &str) -> bool {
    let mut parts = path.split('/');
    let is_of_a_crate = parts.next() == Some("crates") && parts.next().is_some();
    let is_code = matches!(parts.next(), Some("src" | "tests"));
    is_of_a_crate && is_code && parts.any(|part| NAMES.iter().any(|name| part.starts_with(name)))
}

/// The packages that decide what runs on a GPU, each with its version.
fn versions(lock: &str) -> Vec<String> {
    let value = |line: &str, key: &str| {
        let quoted = line.strip_prefix(key)?.strip_prefix(" = \"")?.strip_suffix('"')?;
        Some(quoted.to_owned())
    };
    let mut versions = Vec::new();
    let mut name = None;
    for line in lock.lines() {
        if let Some(found) = value(line, "name") {
            name = Some(found);
        } else if let Some(version) = value(line, "version")
            && let Some(name) = name.take()
            && PACKAGES.iter().any(|package| name.starts_with(package))
        {
            versions.push(format!("{name} {version}"));
        }
    }
    versions.sort_unstable();
    versions
}

/// Modules in files of their own that need a feature for GPUs, and whose names do not say so: the
/// digest would leave them out.
fn misnamed(path: &str, text: &str) -> Vec<Fault> {
    if !path.starts_with("crates/") || is_for_devices(path) {
        return Vec::new();
    }
    let mut faults = Vec::new();
    let mut is_gated = false;
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.trim();
        if line.starts_with("#[cfg(") {
            let is_one_of_many = line.contains("any(") || line.contains("not(");
            is_gated |= !is_one_of_many && FEATURES.iter().any(|feature| line.contains(feature));
        } else if !line.starts_with('#') && !line.starts_with("//") {
            let name = module(line).filter(|_| is_gated);
            if let Some(name) = name.filter(|name| !NAMES.iter().any(|way| name.starts_with(way))) {
                let message = format!(
                    "the module `{name}` is compiled for GPUs alone; begin its name with `cube` or \
                     `fusion`, so that a change to it needs tests on a device"
                );
                faults.push(Fault::new(format!("{path}:{number}"), message));
            }
            is_gated = false;
        }
    }
    faults
}

/// The name of a module that a line declares, if it is in a file of its own.
fn module(line: &str) -> Option<&str> {
    let (before, name) = line.strip_suffix(';')?.rsplit_once("mod ")?;
    (before.is_empty() || before.starts_with("pub")).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_for_devices_by_their_names_and_those_of_their_folders() {
        for path in [
            "crates/kan/src/kernels/cube/dense/forward.rs",
            "crates/kan/src/ops/cube_expanded.rs",
            "crates/kan/src/kernels/cube_cost/mod.rs",
            "crates/kan/src/ops/fusion.rs",
            "crates/run/tests/it/cube.rs",
        ] {
            assert!(is_for_devices(path), "{path}");
        }
        for path in [
            "crates/kan/src/kernels/forward.rs",
            "crates/cube/src/lib.rs",
            "xtask/src/cube.rs",
            "crates/kan/benches/cube.rs",
        ] {
            assert!(!is_for_devices(path), "{path}");
        }
    }

    #[test]
    fn versions_are_those_of_burn_and_cubecl_in_any_order() {
        let package =
            |name, version| format!("[[package]]\nname = \"{name}\"\nversion = \"{version}\"\n");
        let (burn, cube, other) =
            (package("burn-core", "0.22.1"), package("cubecl", "0.11.3"), package("serde", "1.0"));
        let expected = ["burn-core 0.22.1", "cubecl 0.11.3"];
        assert_eq!(versions(&[&*cube, &*other, &*burn].concat()), expected);
        assert_eq!(versions(&[&*burn, &*cube].concat()), expected);
    }

    #[test]
    fn a_gated_module_is_one_that_no_other_feature_compiles() {
        let count = |text: &str| misnamed("crates/kan/src/lib.rs", text).len();
        assert_eq!(count("#[cfg(feature = \"cube\")]\nmod tiles;\n"), 1);
        assert_eq!(count("#[cfg(all(feature = \"cube\", test))]\npub(crate) mod tiles;\n"), 1);
        assert_eq!(count("#[cfg(feature = \"cube\")]\n#[path = \"x.rs\"]\nmod tiles;\n"), 1);
        assert_eq!(count("#[cfg(feature = \"cube\")]\nmod cube_tiles;\n"), 0);
        assert_eq!(count("#[cfg(any(feature = \"cube\", feature = \"flex\"))]\nmod tiles;\n"), 0);
        assert_eq!(count("#[cfg(feature = \"cube\")]\nuse a::tiles;\nmod tiles;\n"), 0);
        assert_eq!(count("#[cfg(all(test, feature = \"cube\"))]\nmod tests {\n"), 0);
    }
}
