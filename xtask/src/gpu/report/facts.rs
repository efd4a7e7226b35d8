//! The facts of a machine that decide whether a report can be made.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use sha2::{Digest, Sha256};

use super::super::driver;
use super::amd;
use super::meter::Meter;
use super::nvidia::{self, Card};
use super::python::Python;
use super::reach::{self, Reach};
use crate::{cargo, root, target};

/// The requirements of the peers' environment, in the order of benches/src/peers.rs.
const REQUIREMENTS: [&str; 3] = ["requirements.txt", "optional.txt", "optional-cuda.txt"];

/// The facts; what a system does not report is `None`.
#[derive(Debug, Clone)]
pub(super) struct Facts {
    /// As Rust names it: `linux`, `macos`, `windows`.
    pub(super) os: &'static str,
    /// The commit of the sources, with `-dirty` where they differ from it.
    pub(super) commit: Option<String>,
    pub(super) cargo: Option<String>,
    pub(super) rustc: Option<String>,
    /// The machine's memory in bytes, or what its control group allows.
    pub(super) memory_bytes: Option<u64>,
    pub(super) free_memory_bytes: Option<u64>,
    /// Free bytes of the disk with the folder that cargo builds into.
    pub(super) free_disk_bytes: Option<u64>,
    pub(super) built: Built,
    /// The cards that NVIDIA's driver lists, or why there is none.
    pub(super) nvidia: Result<Vec<Card>, String>,
    /// The value of `CUDA_VISIBLE_DEVICES`.
    pub(super) visible: Option<String>,
    /// The device folder of a card of AMD.
    pub(super) amd: Option<PathBuf>,
    /// Whether the tools of `ROCm` are installed.
    pub(super) has_rocm: bool,
    /// Why Vulkan cannot work.
    pub(super) vulkan_lacks: Option<String>,
    /// Whether the kernel shows a card; without one a GPU is emulated.
    pub(super) shows_card: bool,
    pub(super) python: Result<Python, String>,
    pub(super) llvm: Reach,
    pub(super) pypi: Reach,
}

/// What earlier commands have built already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Built {
    pub(super) tests: bool,
    pub(super) runner: bool,
}

impl Facts {
    /// Reads them, in a second; a few more if downloads are tried.
    pub(super) fn read(device: &str, python: Option<&str>, tries_downloads: bool) -> Self {
        let nvidia = nvidia::cards();
        let built = Built {
            tests: target().join("gpu").join("deps").is_dir(),
            runner: target().join("release").join("deps").is_dir(),
        };
        let python = peers_python(python);
        let is_complete = python.as_ref().is_ok_and(|python| python.is_complete);
        let pypi = match (&python, tries_downloads) {
            _ if is_complete => Reach::NotNeeded("the packages of this Python are used"),
            (_, false) => Reach::DRY,
            (Ok(python), true) => {
                reach::pypi(&python.program, &target().join("tmp").join("gpu-report-pypi"))
            }
            (Err(_), true) => Reach::NotTried("there is no Python"),
        };
        let shows_card = match env::consts::OS {
            "linux" => {
                shows_card(Path::new("/dev")) || nvidia.as_ref().is_ok_and(|c| !c.is_empty())
            }
            _ => true,
        };
        Self {
            os: env::consts::OS,
            commit: commit(),
            cargo: said(&cargo::program().to_string_lossy(), &["--version"]),
            rustc: said("rustc", &["--version"]),
            memory_bytes: memory_bytes(),
            free_memory_bytes: meminfo("MemAvailable"),
            free_disk_bytes: free_disk_bytes(&target()),
            built,
            visible: env::var("CUDA_VISIBLE_DEVICES").ok(),
            amd: amd::device(Path::new(amd::CARDS)),
            has_rocm: Path::new("/opt/rocm").is_dir() || said("rocminfo", &[]).is_some(),
            vulkan_lacks: (env::consts::OS == "linux").then(driver::missing).flatten(),
            shows_card,
            nvidia,
            python,
            llvm: reach::llvm(device, tries_downloads),
            pypi,
        }
    }

    /// NVIDIA's card that a backend takes: for `cuda` the one that CUDA numbers 0.
    pub(super) fn nvidia_card(&self, device: &str) -> Option<&Card> {
        let cards = self.nvidia.as_ref().ok()?;
        match device {
            "cuda" => nvidia::first(cards, self.visible.as_deref()),
            "metal" | "rocm" => None,
            _ => cards.first(),
        }
    }

    /// The same, if the adapter that the backend has found may be it: a machine can have cards of
    /// several makers.
    pub(super) fn nvidia_card_of(&self, device: &str, adapter: &str) -> Option<&Card> {
        let is_other = device != "cuda" && !adapter.to_lowercase().contains("nvidia");
        self.nvidia_card(device).filter(|_| !is_other)
    }

    /// The free memory of the card of a backend in MiB, or of its adapter once that is known: of
    /// AMD's cards all of it, of Apple's half of the machine's.
    pub(super) fn free_card_mib(&self, device: &str, adapter: Option<&str>) -> Option<f64> {
        if device == "metal" {
            return Some(self.memory_bytes? as f64 / f64::from(1 << 21));
        }
        let card = match adapter {
            Some(adapter) => self.nvidia_card_of(device, adapter),
            None => self.nvidia_card(device),
        };
        let may_be_amd = adapter.map_or(device != "cuda", |adapter| is_amd(device, adapter));
        let amd = self.amd.as_ref().filter(|_| may_be_amd);
        card.and_then(|card| card.free_mib).or_else(|| amd::memory_mib(amd?))
    }

    /// What samples the adapter that a backend has found.
    pub(super) fn meter(&self, device: &str, adapter: &str) -> Meter {
        match (self.nvidia_card_of(device, adapter), &self.amd) {
            _ if self.os == "macos" => {
                Meter::Nothing("macOS shows them to its administrator alone")
            }
            (Some(card), _) => Meter::Nvidia { uuid: card.uuid.clone() },
            (None, Some(folder)) if is_amd(device, adapter) => {
                Meter::Amd { device: folder.clone() }
            }
            _ => Meter::Nothing("no driver of NVIDIA or AMD reports this card"),
        }
    }
}

fn is_amd(device: &str, adapter: &str) -> bool {
    device == "rocm" || ["AMD", "Radeon"].iter().any(|name| adapter.contains(name))
}

/// The environment of the peers that the runner makes.
fn environment() -> PathBuf {
    target().join("bench").join("peers")
}

/// The Python of the peers: the given one, that of their environment, or the one that will make it.
///
/// # Errors
/// A line with the reason if there is none.
pub(super) fn peers_python(given: Option<&str>) -> Result<Python, String> {
    if let Some(program) = given {
        return Python::read(program, true);
    }
    let stamp = fs::read_to_string(environment().join("requirements.sha256"));
    if stamp.is_ok_and(|stamp| requirements().is_some_and(|now| now == stamp)) {
        let program = environment().join("bin").join("python");
        return Python::read(&program.to_string_lossy(), true);
    }
    Python::read("python3", false)
}

/// What the runner writes into the environment when it is complete: SHA-256 of its requirements.
fn requirements() -> Option<String> {
    let mut digest = Sha256::new();
    for file in REQUIREMENTS {
        digest.update(fs::read(root().join("benches").join("peers").join(file)).ok()?);
    }
    Some(digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}

fn commit() -> Option<String> {
    said("git", &["describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"])
}

/// Whether a folder of devices, `/dev`, has one that renders: of the kernel's drivers, NVIDIA's or
/// WSL's.
fn shows_card(devices: &Path) -> bool {
    let render = fs::read_dir(devices.join("dri")).into_iter().flatten().flatten();
    let renders = |name: std::ffi::OsString| name.to_string_lossy().starts_with("renderD");
    render.map(|entry| entry.file_name()).any(renders)
        || ["nvidia0", "dxg"].iter().any(|name| devices.join(name).exists())
}

fn memory_bytes() -> Option<u64> {
    let of_machine = match env::consts::OS {
        "macos" => said("sysctl", &["-n", "hw.memsize"])?.parse().ok(),
        _ => meminfo("MemTotal"),
    }?;
    let limit = fs::read_to_string("/sys/fs/cgroup/memory.max").ok();
    let limit = limit.and_then(|text| text.trim().parse::<u64>().ok());
    Some(limit.map_or(of_machine, |limit| limit.min(of_machine)))
}

/// A value of Linux' table of memory, in bytes.
fn meminfo(name: &str) -> Option<u64> {
    of_meminfo(&fs::read_to_string("/proc/meminfo").ok()?, name)
}

fn of_meminfo(table: &str, name: &str) -> Option<u64> {
    let value = table.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    let kib: u64 = value.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

/// The free bytes of the disk of a folder, which may not exist yet.
fn free_disk_bytes(folder: &Path) -> Option<u64> {
    let existing = folder.ancestors().find(|folder| folder.is_dir())?;
    of_df(&said("df", &["-Pk", &existing.to_string_lossy()])?)
}

/// Free bytes from POSIX' format of `df`: the fourth column of the second line, in KiB.
fn of_df(printed: &str) -> Option<u64> {
    let kib: u64 = printed.lines().nth(1)?.split_whitespace().nth(3)?.parse().ok()?;
    Some(kib * 1024)
}

/// What a program prints, if it succeeds.
fn said(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program).args(arguments).current_dir(root()).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_and_disk_are_read_from_what_a_system_prints() {
        let table = "MemTotal:       24576000 kB\nMemFree:  1 kB\nMemAvailable:   12288000 kB\n";
        assert_eq!(of_meminfo(table, "MemTotal"), Some(24_576_000 * 1024));
        assert_eq!(of_meminfo(table, "MemAvailable"), Some(12_288_000 * 1024));
        assert_eq!(of_meminfo(table, "SwapTotal"), None);
        let printed = "Filesystem     1024-blocks     Used Available Capacity Mounted on\n\
                       /dev/vda         263174212 84934656  10485760      89% /\n";
        assert_eq!(of_df(printed), Some(10 << 30));
        assert_eq!(of_df("df: no such folder"), None);
    }

    #[test]
    fn a_card_shows_as_a_device_that_renders() {
        let devices = target().join("tmp").join("gpu-report-devices");
        let _ = fs::remove_dir_all(&devices);
        fs::create_dir_all(devices.join("dri")).unwrap();
        fs::write(devices.join("dri").join("card0"), "").unwrap();
        assert!(!shows_card(&devices));
        fs::write(devices.join("dri").join("renderD128"), "").unwrap();
        assert!(shows_card(&devices));
        assert!(!shows_card(&devices.join("no such folder")));
    }

    /// An environment of other requirements is made anew, which has to be known before.
    #[test]
    fn the_requirements_of_the_peers_are_those_of_the_runner() {
        assert_eq!(requirements().unwrap().len(), 64);
        let runner = fs::read_to_string(root().join("benches/src/peers.rs")).unwrap();
        assert!(runner.contains(r#"["requirements.txt", OPTIONAL, OPTIONAL_CUDA]"#));
        for name in REQUIREMENTS {
            assert!(runner.contains(&format!("\"{name}\"")), "{name}");
        }
    }

    #[test]
    fn the_disk_of_a_folder_that_is_not_there_is_that_of_its_parent() {
        if cfg!(unix) {
            assert!(free_disk_bytes(&root().join("no such").join("folder")).is_some());
        }
    }
}
