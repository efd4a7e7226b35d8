//! The peers' programs, installed once in pinned versions.

use std::path::{Path, PathBuf};
use std::process::Command;

use sha2::{Digest, Sha256};

/// Packages that peers on a GPU need, and that may not install.
const OPTIONAL: &str = "optional.txt";

/// The same for cards of NVIDIA.
const OPTIONAL_CUDA: &str = "optional-cuda.txt";

/// The folder of onnxruntime with its CUDA provider, in that of the environment.
const RUNTIME_OF_CARDS: &str = "onnxruntime-gpu";

/// How pip is called.
const PIP: [&str; 5] = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"];

/// The folder of the peers' scripts and of what they need.
pub(crate) fn scripts() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("peers")
}

/// The Python with the pinned packages, made in `folder` if it is not there.
///
/// # Errors
/// One line with the reason if there is none: a peer that cannot be installed is not an error.
pub(crate) fn python(folder: &Path) -> Result<PathBuf, String> {
    let files = ["requirements.txt", OPTIONAL, OPTIONAL_CUDA].map(|name| scripts().join(name));
    let mut text = String::new();
    for file in &files {
        let of_file = std::fs::read_to_string(file);
        text.push_str(&of_file.map_err(|error| format!("`{}`: {error}", file.display()))?);
    }
    let python = folder.join("bin").join("python");
    let stamp = folder.join("requirements.sha256");
    let digest = Sha256::digest(&text).iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    if python.exists() && std::fs::read_to_string(&stamp).is_ok_and(|made| made == digest) {
        return Ok(python);
    }
    let folder_text = folder.to_string_lossy();
    run("python3", &["-m", "venv", "--clear", &folder_text])?;
    let program = python.to_string_lossy();
    let [required, optional, optional_cuda] = files.map(|file| file.display().to_string());
    let install = |more: &[&str]| run(&program, &[&PIP[..], more].concat());
    install(&["-r", &required])?;
    // A peer without its package is a line of the table with the reason.
    let _ = install(&["--no-deps", "-r", &optional]);
    if has_nvidia_card() {
        // In a folder of its own: it replaces the files of onnxruntime.
        let beside = folder.join(RUNTIME_OF_CARDS).display().to_string();
        let _ = install(&["--no-deps", "--target", &beside, "-r", &optional_cuda]);
    }
    std::fs::write(&stamp, digest).map_err(|error| format!("`{}`: {error}", stamp.display()))?;
    Ok(python)
}

/// Whether NVIDIA's driver lists a card.
fn has_nvidia_card() -> bool {
    let cards = Command::new("nvidia-smi").arg("-L").output();
    cards.is_ok_and(|output| output.status.success() && !output.stdout.is_empty())
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
