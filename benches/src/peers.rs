//! The peers' programs, installed once in pinned versions.

use std::path::{Path, PathBuf};
use std::process::Command;

use sha2::{Digest, Sha256};

/// The folder of the peers' scripts and of what they need.
pub(crate) fn scripts() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("peers")
}

/// The Python with the pinned packages, made in `folder` if it is not there.
///
/// # Errors
/// One line with the reason if there is none: a peer that cannot be installed is not an error.
pub(crate) fn python(folder: &Path) -> Result<PathBuf, String> {
    let requirements = scripts().join("requirements.txt");
    let text = std::fs::read(&requirements)
        .map_err(|error| format!("`{}`: {error}", requirements.display()))?;
    let python = folder.join("bin").join("python");
    let stamp = folder.join("requirements.sha256");
    let digest = Sha256::digest(&text).iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    if python.exists() && std::fs::read_to_string(&stamp).is_ok_and(|made| made == digest) {
        return Ok(python);
    }
    let folder_text = folder.to_string_lossy();
    run("python3", &["-m", "venv", "--clear", &folder_text])?;
    let file = requirements.to_string_lossy();
    let install = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r", &file];
    run(&python.to_string_lossy(), &install)?;
    std::fs::write(&stamp, digest).map_err(|error| format!("`{}`: {error}", stamp.display()))?;
    Ok(python)
}

/// A worker that is a package of its own, built in `folder` with its own lock file.
///
/// # Errors
/// One line with the reason if there is none.
pub(crate) fn package(name: &str, folder: &Path) -> Result<PathBuf, String> {
    let manifest = scripts().join(name).join("Cargo.toml");
    let folder = folder.join(name);
    let (manifest, target) = (manifest.to_string_lossy(), folder.to_string_lossy());
    let options = ["--release", "--locked", "--quiet", "--manifest-path", &manifest];
    let arguments: Vec<&str> =
        ["build"].into_iter().chain(options).chain(["--target-dir", &target]).collect();
    run("cargo", &arguments)?;
    let name = format!("updraft-bench-{name}{}", std::env::consts::EXE_SUFFIX);
    Ok(folder.join("release").join(name))
}

fn run(program: &str, arguments: &[&str]) -> Result<(), String> {
    let output = Command::new(program)
        .args(arguments)
        .output()
        .map_err(|error| format!("not installed: `{program}` cannot be started: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let last = said.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("no reason given");
    Err(format!("not installed: `{program} {}`: {last}", arguments[..2].join(" ")))
}
