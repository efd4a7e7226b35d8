//! The checks before a report starts: what is missing, and how to get it.

use serde_json::{Value, json};

use super::super::driver::INSTALL;
use super::facts::{Built, Facts};
use super::lines::filled;
use super::python::Python;
use super::reach::Reach;

/// A check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Check {
    pub(super) subject: &'static str,
    pub(super) found: String,
    pub(super) verdict: Verdict,
}

/// What a check means for the report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Verdict {
    Good,
    /// The report is made; what differs.
    Note(String),
    /// The report cannot be made; what to do.
    Missing(String),
}

use Verdict::{Good, Missing, Note};

/// Columns of a terminal, and those before what was found.
const COLUMNS: usize = 80;
const INDENT: usize = 26;

const GIB: u64 = 1 << 30;

/// Disk space of the tests' build, of the runner's, and of the peers' packages, in GiB: PyTorch for
/// cards has the libraries of CUDA.
const TESTS_GIB: u64 = 10;
const RUNNER_GIB: u64 = 4;
const PEERS_GIB: u64 = 9;

/// What a build takes again that was made before, in GiB.
const AGAIN_GIB: u64 = 1;

/// Memory with which the compiler and the linker end, and with which they do not wait, in GiB.
const MEMORY_GIB: u64 = 6;
const AMPLE_MEMORY_GIB: u64 = 8;

/// Free memory of a card below which not even small entries fit, in MiB.
const CARD_MIB: f64 = 2048.0;

/// The oldest driver of NVIDIA for CUDA 12, and the oldest that our kernels ran with.
const OLDEST_DRIVER: u32 = 525;
const TRIED_DRIVER: u32 = 580;

/// The oldest Python of the peers' packages.
const PYTHON: [u64; 3] = [3, 11, 0];

/// What follows on cards of AMD.
const PYTORCH_OF_AMD: &str = "PyPI's PyTorch knows no cards of AMD, so that peers would compute on \
                              the processor; install the one for ROCm \
                              (https://pytorch.org/get-started), and name its Python by `--python`";

/// The oldest compiler of the workspace.
const RUST: &str = env!("CARGO_PKG_RUST_VERSION");

/// All checks for a backend.
pub(super) fn checks(facts: &Facts, device: &str) -> Vec<Check> {
    let mut checks = vec![system(facts, device), driver(facts, device)];
    checks.extend(card_memory(facts, device));
    checks.extend([memory(facts), disk(facts), rust(facts)]);
    checks.extend(python(facts, device));
    checks.extend([
        download("LLVM", &facts.llvm, "use `--device vulkan`, which downloads none"),
        download("packages", &facts.pypi, "name a Python with PyTorch by `--python PROGRAM`"),
    ]);
    checks
}

fn check(subject: &'static str, found: impl Into<String>, verdict: Verdict) -> Check {
    Check { subject, found: found.into(), verdict }
}

fn system(facts: &Facts, device: &str) -> Check {
    let verdict = match (device, facts.os) {
        ("metal", "macos") => Good,
        ("metal", _) => Missing("`metal` needs macOS; use `--device vulkan` or `cuda`".to_owned()),
        (_, "macos") if device != "wgpu" => {
            Missing(format!("`{device}` is not on macOS; use `--device metal`"))
        }
        (_, "windows") => Note("no part of this command was tried on Windows".to_owned()),
        _ => Good,
    };
    check("system", facts.os, verdict)
}

fn driver(facts: &Facts, device: &str) -> Check {
    let subject = "driver";
    match device {
        "cuda" => nvidia_driver(facts),
        "rocm" if facts.has_rocm => check(subject, "ROCm", Good),
        "rocm" => {
            let remedy = "install ROCm (https://rocm.docs.amd.com), or use `--device vulkan`";
            check(subject, "no `rocminfo`", Missing(remedy.to_owned()))
        }
        "metal" => check(subject, "part of macOS", Good),
        _ if facts.os == "macos" => check(subject, "part of macOS", Good),
        _ if facts.os != "linux" => {
            check(subject, "not looked for on this system", Note(INSTALL.to_owned()))
        }
        _ => match (&facts.vulkan_lacks, facts.shows_card) {
            (Some(why), _) => check(subject, "none of Vulkan", Missing(why.clone())),
            (None, true) => check(subject, "Vulkan", Good),
            (None, false) if device == "vulkan" => {
                let remedy = "the system shows no card, and `vulkan` crashes a driver that emulates \
                              one: use `--device wgpu`";
                check(subject, "Vulkan, without a card", Missing(remedy.to_owned()))
            }
            (None, false) => {
                let note = "the processor emulates a GPU: this tries the command, and its times say \
                            nothing about cards";
                check(subject, "Vulkan, without a card", Note(note.to_owned()))
            }
        },
    }
}

fn nvidia_driver(facts: &Facts) -> Check {
    let subject = "driver";
    let missing = |found: String, remedy: &str| check(subject, found, Missing(remedy.to_owned()));
    let cards = match &facts.nvidia {
        Ok(cards) => cards,
        Err(reason) => {
            let remedy = "install NVIDIA's driver (https://www.nvidia.com/drivers, or the package \
                          `nvidia-driver`); CUDA's toolkit is not needed";
            return missing(reason.clone(), remedy);
        }
    };
    if cards.is_empty() {
        let remedy = "look at `nvidia-smi`: the driver may not know the card, or not reach it";
        return missing("the driver lists no card".to_owned(), remedy);
    }
    let Some(card) = facts.nvidia_card("cuda") else {
        let found = format!("{} cards, of which CUDA sees none", cards.len());
        return missing(found, "unset `CUDA_VISIBLE_DEVICES`, and look at `nvidia-smi`");
    };
    let found = format!("{}, {}", card.driver, card.name);
    match card.driver_major() {
        Some(major) if major < OLDEST_DRIVER => {
            let remedy =
                format!("CUDA 12 needs a driver from {OLDEST_DRIVER} on: install a newer one");
            check(subject, found, Missing(remedy))
        }
        Some(major) if major < TRIED_DRIVER => {
            let note = format!(
                "our kernels were tried from {TRIED_DRIVER} on, and PyTorch for CUDA 13 needs that"
            );
            check(subject, found, Note(note))
        }
        _ if cards.len() > 1 => {
            let note = format!(
                "one of {} cards: if they differ, set CUDA_DEVICE_ORDER=PCI_BUS_ID, so that CUDA \
                 numbers them as the driver does",
                cards.len()
            );
            check(subject, found, Note(note))
        }
        _ => check(subject, found, Good),
    }
}

/// The memory of the card, where its driver reports it before a build.
fn card_memory(facts: &Facts, device: &str) -> Option<Check> {
    let subject = "card's memory";
    if device == "metal" || !facts.shows_card {
        return None;
    }
    let Some(free) = facts.free_card_mib(device, None) else {
        let note = "not known before the build, so that middle-sized entries are timed; `--size \
                    full` takes the largest";
        return Some(check(subject, "not reported", Note(note.to_owned())));
    };
    let found = format!("{free:.0} MiB free");
    if free >= CARD_MIB {
        return Some(check(subject, found, Good));
    }
    let memory = facts.nvidia_card(device).and_then(|card| card.memory_mib);
    let remedy = match memory.is_some_and(|memory| memory > CARD_MIB) {
        true => format!("{CARD_MIB} are needed: end the programs that `nvidia-smi` lists"),
        false => format!("{CARD_MIB} are needed: use another card, or `--ignore-checks`"),
    };
    Some(check(subject, found, Missing(remedy)))
}

fn memory(facts: &Facts) -> Check {
    let subject = "memory";
    let Some(total) = facts.memory_bytes else {
        return check(subject, "not known", Note(format!("a build takes {MEMORY_GIB} GiB")));
    };
    let free = facts.free_memory_bytes.unwrap_or(total).min(total);
    let found = format!("{} of {} GiB free", free / GIB, total / GIB);
    let verdict = if total < MEMORY_GIB * GIB {
        Missing(format!("a build takes {MEMORY_GIB} GiB: use a machine with more"))
    } else if free < AMPLE_MEMORY_GIB * GIB {
        Note("set CARGO_BUILD_JOBS=1 if the compiler is ended for its memory".to_owned())
    } else {
        Good
    };
    check(subject, found, verdict)
}

fn disk(facts: &Facts) -> Check {
    let subject = "disk";
    let needed = disk_gib(facts);
    let Some(free) = facts.free_disk_bytes else {
        return check(subject, "not known", Note(format!("the builds take {needed} GiB")));
    };
    let found = format!("{} GiB free, {needed} GiB needed", free / GIB);
    let verdict = if free < needed * GIB {
        Missing("free some, or set CARGO_TARGET_DIR to a folder on a larger disk".to_owned())
    } else {
        Good
    };
    check(subject, found, verdict)
}

/// What the builds and the packages will take, about.
fn disk_gib(facts: &Facts) -> u64 {
    let Built { tests, runner } = facts.built;
    let part = |is_built: bool, gib: u64| if is_built { AGAIN_GIB } else { gib };
    let is_complete = facts.python.as_ref().is_ok_and(|python| python.is_complete);
    let peers = if is_complete { 0 } else { PEERS_GIB };
    part(tests, TESTS_GIB) + part(runner, RUNNER_GIB) + peers
}

fn rust(facts: &Facts) -> Check {
    let subject = "Rust";
    let (Some(cargo), Some(rustc)) = (&facts.cargo, &facts.rustc) else {
        let remedy = "install Rust by https://rustup.rs: `rustc` has to be in PATH";
        return check(subject, "no compiler", Missing(remedy.to_owned()));
    };
    let found = format!("{cargo}, {rustc}");
    if version(rustc) < version(RUST) {
        return check(subject, found, Missing(format!("`rustup update`: {RUST} is needed")));
    }
    check(subject, found, Good)
}

/// The first version in a text, as far as it has numbers; empty without one.
fn version(text: &str) -> Vec<u64> {
    let numbers =
        |word: &str| word.split('.').map_while(|part| part.parse::<u64>().ok()).collect::<Vec<_>>();
    text.split_whitespace().map(numbers).find(|numbers| numbers.len() > 1).unwrap_or_default()
}

fn python(facts: &Facts, device: &str) -> Vec<Check> {
    let subject = "Python";
    let python = match &facts.python {
        Ok(python) => python,
        Err(reason) => {
            let remedy = "install Python 3.11 or newer, with its module `venv`";
            return vec![check(subject, reason.clone(), Missing(remedy.to_owned()))];
        }
    };
    let found = format!("{} (`{}`)", python.version_text(), python.program);
    if !python.is_complete {
        let verdict = if python.version < PYTHON {
            let remedy = "the peers' packages need 3.11: install it as `python3`, or name a Python \
                          with PyTorch by `--python`";
            Missing(remedy.to_owned())
        } else if !python.makes_environments {
            Missing("it makes no environments: install `python3-venv`".to_owned())
        } else if is_on_amd(facts, device) {
            Note(PYTORCH_OF_AMD.to_owned())
        } else {
            Good
        };
        return vec![check(subject, found, verdict)];
    }
    let mut checks = vec![check(subject, found, Good), pytorch(python, facts, device)];
    let is_on_nvidia = device != "metal" && facts.nvidia_card("cuda").is_some();
    let runtime = if is_on_nvidia { "onnxruntime-gpu" } else { "onnxruntime" };
    for name in ["flashkan", runtime] {
        if !python.packages.contains_key(name) {
            let note = format!(
                "its rows have the reason; `{} -m pip install {name}` adds them",
                python.program
            );
            checks.push(check("peers", format!("no {name}"), Note(note)));
        }
    }
    checks
}

/// The PyTorch of a Python in which nothing is installed.
fn pytorch(python: &Python, facts: &Facts, device: &str) -> Check {
    let subject = "PyTorch";
    let (Some(version), true) =
        (python.packages.get("torch"), python.packages.contains_key("numpy"))
    else {
        let remedy = format!("`{} -m pip install torch numpy`", python.program);
        return check(subject, "not installed, or without numpy", Missing(remedy));
    };
    let has_card = facts.shows_card && facts.os != "macos";
    match &python.platform {
        Some(platform) if is_on_amd(facts, device) && platform.starts_with("CUDA") => {
            check(subject, format!("{version}, for {platform}"), Note(PYTORCH_OF_AMD.to_owned()))
        }
        Some(platform) => check(subject, format!("{version}, for {platform}"), Good),
        None if has_card => {
            let note = "it is built for processors, on which the peers would compute; install one \
                        for your card (https://pytorch.org/get-started)";
            check(subject, version.clone(), Note(note.to_owned()))
        }
        None => check(subject, version.clone(), Good),
    }
}

/// Whether PyTorch would compute on a card of AMD.
fn is_on_amd(facts: &Facts, device: &str) -> bool {
    device == "rocm" || (facts.amd.is_some() && facts.nvidia_card(device).is_none())
}

fn download(subject: &'static str, reach: &Reach, otherwise: &str) -> Check {
    match reach {
        Reach::NotNeeded(why) => check(subject, *why, Good),
        Reach::Reached => check(subject, "can be downloaded", Good),
        Reach::NotTried(why) => check(
            subject,
            format!("not tried: {why}"),
            Note("the command downloads what is missing".to_owned()),
        ),
        Reach::Failed(reason) => {
            let remedy = format!("connect this machine to the Internet, or {otherwise}");
            check(subject, reason.clone(), Missing(remedy))
        }
    }
}

/// A line for each check, and one for what differs or is missing.
pub(super) fn table(checks: &[Check]) -> String {
    let mut lines = Vec::new();
    for Check { subject, found, verdict } in checks {
        let (word, more) = match verdict {
            Good => ("ok", None),
            Note(note) => ("note", Some(note)),
            Missing(remedy) => ("MISSING", Some(remedy)),
        };
        let mut place = format!("  {word:<8} {subject:<14} ");
        for (text, indent) in [(Some(found), 0), (more, 2)] {
            for line in text.map_or_else(Vec::new, |text| filled(text, COLUMNS - INDENT - indent)) {
                lines.push(format!("{place}{:indent$}{line}", "").trim_end().to_owned());
                place = " ".repeat(INDENT);
            }
        }
    }
    lines.join("\n")
}

/// The subjects that are missing.
pub(super) fn missing(checks: &[Check]) -> Vec<&'static str> {
    let missing = checks.iter().filter(|check| matches!(check.verdict, Missing(_)));
    missing.map(|check| check.subject).collect()
}

impl Check {
    pub(super) fn json(&self) -> Value {
        let (verdict, more) = match &self.verdict {
            Good => ("good", None),
            Note(note) => ("note", Some(note)),
            Missing(remedy) => ("missing", Some(remedy)),
        };
        json!({ "subject": self.subject, "found": self.found, "verdict": verdict, "remedy": more })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::meter::Meter;
    use super::super::nvidia::Card;
    use super::*;

    fn card(driver: &str, free_mib: f64) -> Card {
        Card {
            index: "0".to_owned(),
            uuid: "GPU-1".to_owned(),
            name: "a card".to_owned(),
            driver: driver.to_owned(),
            memory_mib: Some(81_559.0),
            free_mib: Some(free_mib),
            most_clock_mhz: None,
            most_memory_clock_mhz: None,
            power_limit_w: None,
        }
    }

    fn with_packages(names: &[&str], platform: Option<&str>) -> Python {
        let packages = names.iter().map(|name| ((*name).to_owned(), "1.0".to_owned()));
        Python {
            program: "python3".to_owned(),
            is_complete: true,
            version: [3, 12, 1],
            makes_environments: true,
            packages: packages.collect::<BTreeMap<_, _>>(),
            platform: platform.map(str::to_owned),
        }
    }

    /// A machine on which a report on a card of NVIDIA can be made.
    fn facts() -> Facts {
        let names = ["torch", "numpy", "flashkan", "onnxruntime-gpu"];
        Facts {
            os: "linux",
            commit: None,
            cargo: Some("cargo 1.95.0 (abc 2026-01-01)".to_owned()),
            rustc: Some("rustc 1.95.0 (def 2026-01-01)".to_owned()),
            memory_bytes: Some(64 * GIB),
            free_memory_bytes: Some(60 * GIB),
            free_disk_bytes: Some(100 * GIB),
            built: Built { tests: false, runner: false },
            nvidia: Ok(vec![card("580.159.04", 80_000.0)]),
            visible: None,
            amd: None,
            has_rocm: false,
            vulkan_lacks: None,
            shows_card: true,
            python: Ok(with_packages(&names, Some("CUDA 13.2"))),
            llvm: Reach::Reached,
            pypi: Reach::NotNeeded("the packages of this Python are used"),
        }
    }

    fn no_card() -> Facts {
        let nvidia = Err("`nvidia-smi` cannot be started".to_owned());
        Facts { nvidia, shows_card: false, ..facts() }
    }

    /// The verdict on a subject, with what the check has to say.
    fn verdict(facts: &Facts, device: &str, subject: &str) -> Verdict {
        let found = checks(facts, device).into_iter().find(|check| check.subject == subject);
        found.unwrap_or_else(|| panic!("no check of `{subject}`")).verdict
    }

    fn is_missing_with(facts: &Facts, device: &str, subject: &str, part: &str) {
        match verdict(facts, device, subject) {
            Missing(remedy) => assert!(remedy.contains(part), "{remedy}"),
            other => panic!("{subject}: {other:?}"),
        }
    }

    fn is_noted_with(facts: &Facts, device: &str, subject: &str, part: &str) {
        match verdict(facts, device, subject) {
            Note(note) => assert!(note.contains(part), "{note}"),
            other => panic!("{subject}: {other:?}"),
        }
    }

    #[test]
    fn a_machine_with_everything_has_good_checks_alone() {
        let checks = checks(&facts(), "cuda");
        assert!(checks.iter().all(|check| check.verdict == Good), "{checks:#?}");
        assert!(missing(&checks).is_empty());
    }

    #[test]
    fn everything_that_is_missing_is_listed_at_once_with_its_remedy() {
        let facts = Facts {
            rustc: None,
            memory_bytes: Some(4 * GIB),
            free_disk_bytes: Some(3 * GIB),
            python: Err("`python3` cannot be started".to_owned()),
            llvm: Reach::Failed("github.com:443: refused".to_owned()),
            ..no_card()
        };
        let checks = checks(&facts, "cuda");
        assert_eq!(missing(&checks), ["driver", "memory", "disk", "Rust", "Python", "LLVM"]);
        let table = table(&checks);
        for part in [
            "MISSING  driver         `nvidia-smi` cannot be started",
            "install NVIDIA's driver",
            "3 GiB free, 23 GiB needed",
            "CARGO_TARGET_DIR",
            "rustup.rs",
            "github.com:443: refused",
            "`--device vulkan`",
        ] {
            assert!(table.contains(part), "{part}\n{table}");
        }
        assert!(table.lines().all(|line| line.chars().count() <= COLUMNS), "{table}");
    }

    #[test]
    fn a_card_of_amd_needs_another_pytorch() {
        let amd = || Facts { amd: Some("card0".into()), shows_card: true, ..no_card() };
        is_noted_with(&amd(), "vulkan", "PyTorch", "ROCm");
        is_noted_with(&facts(), "rocm", "PyTorch", "ROCm");
        let fresh = Python { is_complete: false, ..with_packages(&[], None) };
        is_noted_with(&Facts { python: Ok(fresh), ..amd() }, "vulkan", "Python", "ROCm");
        let right = Ok(with_packages(&["torch", "numpy"], Some("ROCm 7.1")));
        assert_eq!(verdict(&Facts { python: right, ..amd() }, "vulkan", "PyTorch"), Good);
    }

    /// A laptop has an adapter of its processor and a card.
    #[test]
    fn samples_are_of_the_adapter_that_computes() {
        let both = Facts { amd: Some("card0".into()), ..facts() };
        let nvidia = |device: &str, adapter: &str| {
            matches!(both.meter(device, adapter), Meter::Nvidia { .. })
        };
        let amd =
            |device: &str, adapter: &str| matches!(both.meter(device, adapter), Meter::Amd { .. });
        assert!(nvidia("cuda", "cuda:0: a card") && nvidia("vulkan", "vulkan:0: NVIDIA H200"));
        assert!(amd("vulkan", "vulkan:0: AMD Radeon RX 7900 XTX (RADV NAVI31)"));
        assert!(amd("rocm", "rocm:0: gfx1100"));
        let intel = "vulkan:0: Intel(R) Arc(tm) A770 Graphics (DG2)";
        assert!(!nvidia("vulkan", intel) && !amd("vulkan", intel));
        assert_eq!(both.free_card_mib("vulkan", Some(intel)), None);
        assert_eq!(both.free_card_mib("vulkan", Some("NVIDIA H200")), Some(80_000.0));
        assert_eq!(both.free_card_mib("rocm", None), None);
    }

    #[test]
    fn a_driver_is_old_or_was_not_tried() {
        let of = |driver: &str| Facts { nvidia: Ok(vec![card(driver, 80_000.0)]), ..facts() };
        is_missing_with(&of("470.82.01"), "cuda", "driver", "from 525 on");
        is_noted_with(&of("550.54.15"), "cuda", "driver", "from 580 on");
        let hidden = Facts { visible: Some("3".to_owned()), ..facts() };
        is_missing_with(&hidden, "cuda", "driver", "CUDA_VISIBLE_DEVICES");
        let cards = vec![card("580.1", 80_000.0), card("580.1", 80_000.0)];
        is_noted_with(&Facts { nvidia: Ok(cards), ..facts() }, "cuda", "driver", "one of 2 cards");
    }

    #[test]
    fn a_machine_without_a_card_tries_the_command_on_wgpu_alone() {
        is_noted_with(&no_card(), "wgpu", "driver", "emulates");
        is_missing_with(&no_card(), "vulkan", "driver", "use `--device wgpu`");
        assert_eq!(verdict(&facts(), "vulkan", "driver"), Good);
        let without =
            Facts { vulkan_lacks: Some("there is no Vulkan driver".to_owned()), ..no_card() };
        is_missing_with(&without, "wgpu", "driver", "there is no Vulkan driver");
        assert!(checks(&no_card(), "wgpu").iter().all(|check| check.subject != "card's memory"));
    }

    #[test]
    fn a_backend_belongs_to_a_system() {
        is_missing_with(&facts(), "metal", "system", "macOS");
        let mac = Facts { os: "macos", ..no_card() };
        assert_eq!(verdict(&mac, "metal", "system"), Good);
        is_missing_with(&mac, "cuda", "system", "`--device metal`");
        is_missing_with(&facts(), "rocm", "driver", "install ROCm");
        assert_eq!(verdict(&Facts { has_rocm: true, ..facts() }, "rocm", "driver"), Good);
    }

    #[test]
    fn a_card_in_use_is_missing_and_one_without_a_report_is_a_note() {
        let busy = Facts { nvidia: Ok(vec![card("580.1", 500.0)]), ..facts() };
        is_missing_with(&busy, "cuda", "card's memory", "`nvidia-smi`");
        let of_amd = Facts { shows_card: true, ..no_card() };
        is_noted_with(&of_amd, "vulkan", "card's memory", "`--size full`");
    }

    #[test]
    fn what_was_built_before_needs_no_disk_space() {
        let python = || Python { is_complete: false, ..with_packages(&[], None) };
        let of = |tests, runner, is_complete| {
            let python = if is_complete { with_packages(&["torch"], None) } else { python() };
            let built = Built { tests, runner };
            disk_gib(&Facts { built, python: Ok(python), ..facts() })
        };
        assert_eq!(of(false, false, false), 23);
        assert_eq!(of(true, false, false), 14);
        assert_eq!(of(true, true, true), 2);
    }

    #[test]
    fn a_python_without_packages_makes_an_environment_if_it_can() {
        let of = |version, makes_environments| {
            let python = with_packages(&[], None);
            let python = Python { is_complete: false, version, makes_environments, ..python };
            Facts { python: Ok(python), ..facts() }
        };
        assert_eq!(verdict(&of([3, 11, 0], true), "cuda", "Python"), Good);
        is_missing_with(&of([3, 9, 18], true), "cuda", "Python", "3.11");
        is_missing_with(&of([3, 11, 2], false), "cuda", "Python", "`python3-venv`");
    }

    #[test]
    fn packages_of_a_given_python_are_needed_or_rows_are_left_out() {
        let of = |names: &[&str], platform| Facts {
            python: Ok(with_packages(names, platform)),
            ..facts()
        };
        is_missing_with(&of(&["numpy"], None), "cuda", "PyTorch", "pip install torch numpy");
        is_noted_with(&of(&["torch", "numpy"], None), "cuda", "PyTorch", "built for processors");
        let bare = of(&["torch", "numpy"], Some("CUDA 13.2"));
        let peers = checks(&bare, "cuda").into_iter().filter(|check| check.subject == "peers");
        let found: Vec<_> = peers.map(|check| check.found).collect();
        assert_eq!(found, ["no flashkan", "no onnxruntime-gpu"]);
        let small = Card { memory_mib: Some(2000.0), ..card("580.1", 1900.0) };
        let small = Facts { nvidia: Ok(vec![small]), ..facts() };
        is_missing_with(&small, "cuda", "card's memory", "another card");
        let unlisted = Facts { nvidia: Ok(Vec::new()), ..facts() };
        is_missing_with(&unlisted, "cuda", "driver", "not reach it");
        let emulated = Facts { python: Ok(with_packages(&["torch", "numpy"], None)), ..no_card() };
        assert_eq!(verdict(&emulated, "wgpu", "PyTorch"), Good);
    }

    #[test]
    fn a_compiler_is_new_enough_by_its_numbers() {
        let of = |rustc: &str| Facts { rustc: Some(rustc.to_owned()), ..facts() };
        is_missing_with(&of("rustc 1.9.0 (abc)"), "cuda", "Rust", RUST);
        assert_eq!(verdict(&of("rustc 1.100.0-nightly (abc)"), "cuda", "Rust"), Good);
        assert_eq!(version("rustc 1.95.0 (def)"), [1, 95, 0]);
        assert_eq!(version("no version"), [0_u64; 0]);
    }
}
