//! The Python of the peers: its version and packages.

use std::collections::BTreeMap;
use std::process::Command;

use serde_json::Value;

/// The packages that decide which rows a report has.
pub(super) const PACKAGES: [&str; 5] =
    ["torch", "numpy", "flashkan", "onnxruntime", "onnxruntime-gpu"];

/// Prints versions as JSON. PyTorch's platform is read from its file, because importing it takes
/// seconds.
const PROGRAM: &str = r#"
import importlib.metadata, importlib.util, json, os, runpy, sys

NAMES = {"cuda": "CUDA", "hip": "ROCm"}

def version(name):
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None

def has(name):
    return importlib.util.find_spec(name) is not None

# The runner installs onnxruntime with its CUDA provider beside the other packages.
sys.path.append(os.path.join(sys.prefix, "onnxruntime-gpu"))
torch, about = importlib.util.find_spec("torch"), {}
if torch and torch.origin:
    about = runpy.run_path(os.path.join(os.path.dirname(torch.origin), "version.py"))
print(json.dumps({
    "version": list(sys.version_info[:3]),
    "venv": has("venv") and has("ensurepip"),
    "packages": {name: version(name) for name in sys.argv[1:]},
    "platform": next((f"{NAMES[key]} {about[key]}" for key in NAMES if about.get(key)), None),
}))
"#;

/// A Python.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Python {
    /// The program.
    pub(super) program: String,
    /// Whether nothing is installed: it is that of `--python`, or the environment is made already.
    pub(super) is_complete: bool,
    pub(super) version: [u64; 3],
    pub(super) makes_environments: bool,
    /// Versions of [`PACKAGES`] that it has.
    pub(super) packages: BTreeMap<String, String>,
    /// What PyTorch was built for, such as `CUDA 13.2` or `ROCm 7.1`; `None` for processors.
    pub(super) platform: Option<String>,
}

impl Python {
    /// Asks a program.
    ///
    /// # Errors
    /// A line with the reason if it is no Python.
    pub(super) fn read(program: &str, is_complete: bool) -> Result<Self, String> {
        let output = Command::new(program)
            .args(["-c", PROGRAM])
            .args(PACKAGES)
            .output()
            .map_err(|error| format!("`{program}` cannot be started: {error}"))?;
        let printed = String::from_utf8_lossy(&output.stdout);
        Self::parse(program, is_complete, &printed).ok_or_else(|| {
            let said = String::from_utf8_lossy(&output.stderr);
            let last = said.lines().rev().find(|line| !line.trim().is_empty());
            format!("`{program}` does not answer: {}", last.unwrap_or("no reason given"))
        })
    }

    fn parse(program: &str, is_complete: bool, printed: &str) -> Option<Self> {
        let value: Value = serde_json::from_str(printed.lines().last()?).ok()?;
        let version: Vec<u64> =
            value["version"].as_array()?.iter().filter_map(Value::as_u64).collect();
        let packages = value["packages"].as_object()?.iter();
        let packages = packages
            .filter_map(|(name, version)| Some((name.clone(), version.as_str()?.to_owned())))
            .collect();
        Some(Self {
            program: program.to_owned(),
            is_complete,
            version: version.try_into().ok()?,
            makes_environments: value["venv"] == true,
            packages,
            platform: value["platform"].as_str().map(str::to_owned),
        })
    }

    /// `3.11.7`.
    pub(super) fn version_text(&self) -> String {
        self.version.map(|part| part.to_string()).join(".")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_has_versions_and_the_platform_of_pytorch() {
        let printed = r#"{"version": [3, 11, 7], "venv": true, "platform": "CUDA 13.2",
            "packages": {"torch": "2.15.0", "flashkan": null}}"#;
        let printed = format!("a warning\n{}\n", printed.replace('\n', " "));
        let python = Python::parse("python3", false, &printed).unwrap();
        assert_eq!(python.version_text(), "3.11.7");
        assert!(python.makes_environments && !python.is_complete);
        assert_eq!(python.packages.get("torch").map(String::as_str), Some("2.15.0"));
        assert_eq!(python.packages.len(), 1);
        assert_eq!(python.platform.as_deref(), Some("CUDA 13.2"));
        assert_eq!(Python::parse("python3", false, "no JSON"), None);
    }

    #[test]
    fn a_program_that_does_not_start_is_named() {
        let reason = Python::read("no-such-python", true).unwrap_err();
        assert!(reason.contains("`no-such-python` cannot be started"), "{reason}");
    }
}
