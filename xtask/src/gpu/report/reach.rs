//! Whether what a build downloads can be reached, before it starts.

use std::env;
use std::net::{TcpStream, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// How long a server may take to accept a connection.
const PATIENCE: Duration = Duration::from_secs(5);

/// Variables that name a proxy, which a connection of ours would not use.
const PROXIES: [&str; 4] = ["HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"];

/// The package of `PyPI` that is downloaded to try it: 11 kB.
const TRIED: &str = "flashkan==0.2.0";

/// What a look at a source of downloads found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Reach {
    /// Nothing is downloaded from there.
    NotNeeded(&'static str),
    Reached,
    /// Why it was not reached.
    Failed(String),
    /// Why it was not tried.
    NotTried(&'static str),
}

impl Reach {
    /// What a dry run finds of a source that is needed.
    pub(super) const DRY: Self = Self::NotTried("this is a dry run");
}

/// The server of the LLVM that a build of `cuda` and of `rocm` downloads.
pub(super) fn llvm(device: &str, tries: bool) -> Reach {
    if !matches!(device, "cuda" | "rocm") {
        return Reach::NotNeeded("only `cuda` and `rocm` download LLVM");
    }
    if data_folder().is_some_and(|folder| has_llvm(&folder.join("tracel"))) {
        return Reach::NotNeeded("LLVM was downloaded before");
    }
    if !tries {
        return Reach::DRY;
    }
    if PROXIES.iter().any(|name| env::var_os(name).is_some_and(|value| !value.is_empty())) {
        return Reach::NotTried("there is a proxy");
    }
    match connected("github.com:443") {
        Ok(()) => Reach::Reached,
        Err(reason) => Reach::Failed(reason),
    }
}

/// `PyPI`, or another index that pip is set to, by a small download to `folder`.
pub(super) fn pypi(python: &str, folder: &Path) -> Reach {
    let to = folder.to_string_lossy();
    let patience = PATIENCE.as_secs().to_string();
    let output = Command::new(python)
        .args(["-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"])
        .args(["--retries", "0", "--timeout", &patience, "--dest", &to, TRIED])
        .output();
    match output {
        Ok(output) if output.status.success() => Reach::Reached,
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            if said.contains("No module named pip") {
                return Reach::NotTried("this Python has no pip, which its environments have");
            }
            let line = said.lines().rev().find(|line| !line.trim().is_empty());
            Reach::Failed(line.unwrap_or("pip gives no reason").to_owned())
        }
        Err(error) => Reach::Failed(format!("`{python}` cannot be started: {error}")),
    }
}

/// Whether a folder holds an LLVM that the build script has unpacked.
fn has_llvm(folder: &Path) -> bool {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).any(|path| path.join(".tracel-llvm-installed").is_file())
}

/// The folder of a user's data that does not follow to other machines, where the LLVM is unpacked.
fn data_folder() -> Option<PathBuf> {
    let variable = |name| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    match env::consts::OS {
        "windows" => variable("LOCALAPPDATA"),
        "macos" => Some(variable("HOME")?.join("Library/Application Support")),
        _ => variable("XDG_DATA_HOME").or_else(|| Some(variable("HOME")?.join(".local/share"))),
    }
}

fn connected(server: &str) -> Result<(), String> {
    let addresses = server.to_socket_addrs().map_err(|error| format!("{server}: {error}"))?;
    let mut reason = format!("{server} has no address");
    for address in addresses {
        match TcpStream::connect_timeout(&address, PATIENCE) {
            Ok(_) => return Ok(()),
            Err(error) => reason = format!("{server}: {error}"),
        }
    }
    Err(reason)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::target;

    #[test]
    fn only_backends_that_compile_by_llvm_download_it() {
        for device in ["wgpu", "vulkan", "metal"] {
            assert!(matches!(llvm(device, true), Reach::NotNeeded(_)), "{device}");
        }
    }

    #[test]
    fn an_unpacked_llvm_has_a_mark() {
        let folder = target().join("tmp").join("gpu-report-llvm");
        let llvm = folder.join("tracel-llvm-23.1.0-4");
        std::fs::create_dir_all(&llvm).unwrap();
        let mark = llvm.join(".tracel-llvm-installed");
        let _ = std::fs::remove_file(&mark);
        assert!(!has_llvm(&folder));
        std::fs::write(mark, "").unwrap();
        assert!(has_llvm(&folder));
        assert!(!has_llvm(&folder.join("no such folder")));
    }

    #[test]
    fn a_program_that_does_not_start_is_a_reason() {
        let reach = pypi("no-such-python", Path::new("nowhere"));
        assert!(matches!(&reach, Reach::Failed(why) if why.contains("`no-such-python`")));
    }
}
