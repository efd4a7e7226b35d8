//! Whether this machine may have a Vulkan device, which is looked for before anything is built.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use crate::libraries;

/// The library that loads drivers.
const LOADER: &str = "libvulkan.so.1";

/// Folders in which it looks for manifests, one for each driver.
const FOLDERS: [&str; 4] = [
    "/etc/vulkan/icd.d",
    "/usr/share/vulkan/icd.d",
    "/usr/local/etc/vulkan/icd.d",
    "/usr/local/share/vulkan/icd.d",
];

/// Variables with the manifests to take instead, files or folders; the first that is set counts.
const VARIABLES: [&str; 2] = ["VK_DRIVER_FILES", "VK_ICD_FILENAMES"];

/// What to install where there is no device.
pub(super) const INSTALL: &str = "install the driver of a card, or Mesa's lavapipe, which emulates \
                                  one (Debian's `mesa-vulkan-drivers` and `libvulkan1`)";

/// Why there can be no Vulkan device here, if so; a driver may still find none.
pub(super) fn missing() -> Option<String> {
    if !cfg!(target_os = "linux") {
        return Some("a Vulkan driver is looked for on Linux only".to_owned());
    }
    let named = VARIABLES.iter().find_map(|name| env::var_os(name).filter(|list| !list.is_empty()));
    let manifests: Vec<PathBuf> = match &named {
        Some(list) => env::split_paths(list).collect(),
        None => FOLDERS.iter().map(PathBuf::from).collect(),
    };
    lacks(has_loader(), &manifests)
}

/// The line about tests that do not run.
pub(super) fn not_tested(why: &str) -> String {
    format!("NOT TESTED: the code for GPUs: {why}. `cargo xtask test-device` tests all of it")
}

fn lacks(has_loader: bool, manifests: &[PathBuf]) -> Option<String> {
    if !has_loader {
        Some(format!("there is no Vulkan loader (`{LOADER}`): {INSTALL}"))
    } else if !manifests.iter().any(|path| holds_manifest(path)) {
        Some(format!("there is no Vulkan driver: {INSTALL}"))
    } else {
        None
    }
}

fn has_loader() -> bool {
    let named = env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    let mut folders = env::split_paths(&named).chain(libraries::folders());
    folders.any(|folder| folder.join(LOADER).is_file())
}

/// Whether a path is the manifest of a driver, or a folder with one.
fn holds_manifest(path: &Path) -> bool {
    let is_manifest = |path: &Path| path.extension().is_some_and(|end| end == "json");
    if path.is_file() {
        return is_manifest(path);
    }
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).any(|path| is_manifest(&path))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::root;

    #[test]
    fn a_manifest_is_a_file_or_in_a_folder() {
        // The record of tests on devices has the ending of a manifest.
        assert!(holds_manifest(&root().join("xtask").join("device-suite.json")));
        assert!(holds_manifest(&root().join("xtask")));
        assert!(!holds_manifest(&root().join("xtask").join("src")));
        assert!(!holds_manifest(&root().join("xtask").join("Cargo.toml")));
        assert!(!holds_manifest(&root().join("no such folder")));
    }

    #[test]
    fn the_line_says_what_is_not_tested_what_is_missing_and_what_installs_it() {
        let drivers = [root().join("no such folder"), root().join("xtask")];
        assert_eq!(lacks(true, &drivers), None);
        for (has_loader, drivers, missing) in [
            (false, &drivers[..], "no Vulkan loader (`libvulkan.so.1`)"),
            (true, &drivers[..1], "no Vulkan driver"),
            (true, &drivers[..0], "no Vulkan driver"),
        ] {
            let line = not_tested(&lacks(has_loader, drivers).unwrap());
            assert!(line.starts_with("NOT TESTED: the code for GPUs: there is "), "{line}");
            for part in [missing, "`mesa-vulkan-drivers` and `libvulkan1`", "test-device"] {
                assert!(line.contains(part), "{line}");
            }
            assert_eq!(line.lines().count(), 1, "{line}");
        }
    }
}
