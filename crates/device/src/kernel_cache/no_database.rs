//! The cache of a build without the feature `persistence`: there is none.

use std::path::{Path, PathBuf};

use super::contents::Entries;

const MISSING: &str = "the cargo feature `persistence` is off";

pub(super) fn active() -> PathBuf {
    cubecl_environment::environment::path()
}

pub(super) fn use_file(_: &Path) {}

pub(super) fn entries(_: &Path) -> Result<Vec<Entries>, String> {
    Err(MISSING.to_owned())
}

pub(super) fn copy(_: &[&Path], _: &Path, _: &str, _: Option<&str>) -> Result<(), String> {
    Err(MISSING.to_owned())
}

pub(super) fn label(_: &Path) -> Result<String, String> {
    Err(MISSING.to_owned())
}

pub(super) fn add_to_active(_: &Path) -> Result<u64, String> {
    Err(MISSING.to_owned())
}
