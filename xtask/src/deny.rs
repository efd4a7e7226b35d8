//! `deny`: licenses, banned crates and sources of every dependency, by the rules of `deny.toml`.

use std::process::{Command, ExitCode, Stdio};

use serde_json::Value;
use toml::Table;

use crate::cargo::program;
use crate::{complain, print, root};

/// The rules, in the format of cargo-deny.
const RULES: &str = "deny.toml";

/// What `deny.toml` allows.
struct Rules {
    licenses: Vec<String>,
    /// Crate and expression, where a manifest has none.
    clarified: Vec<(String, String)>,
    banned: Vec<String>,
    registries: Vec<String>,
}

pub(crate) fn run(dry_run: bool) -> ExitCode {
    if dry_run {
        print("> read the manifest of every dependency and report what deny.toml refuses");
        return ExitCode::SUCCESS;
    }
    check().err().unwrap_or(ExitCode::SUCCESS)
}

/// Reports every dependency that the rules refuse.
pub(crate) fn check() -> Result<(), ExitCode> {
    let failed = |error: String| {
        complain(&format!("error: {error}"));
        ExitCode::FAILURE
    };
    let text = std::fs::read_to_string(root().join(RULES))
        .map_err(|error| failed(format!("{RULES} cannot be read: {error}")))?;
    let rules = Rules::parse(&text).map_err(|error| failed(format!("{RULES}: {error}")))?;
    let packages = packages().map_err(failed)?;
    let faults: Vec<String> = packages.iter().filter_map(|package| rules.fault(package)).collect();
    for fault in &faults {
        complain(fault);
    }
    if faults.is_empty() { Ok(()) } else { Err(ExitCode::FAILURE) }
}

impl Rules {
    fn parse(text: &str) -> Result<Self, String> {
        let rules: Table = text.parse().map_err(|error| format!("{error}"))?;
        let list = |table: &str, key: &str| {
            rules.get(table).and_then(|table| table.get(key)).and_then(toml::Value::as_array)
        };
        let texts = |table: &str, key: &str| -> Result<Vec<String>, String> {
            list(table, key)
                .ok_or_else(|| format!("`{table}.{key}` must be a list"))?
                .iter()
                .map(|value| value.as_str().map(str::to_owned))
                .collect::<Option<_>>()
                .ok_or_else(|| format!("`{table}.{key}` must be a list of strings"))
        };
        let field = |value: &toml::Value, key: &str| {
            value.get(key).and_then(toml::Value::as_str).unwrap_or_default().to_owned()
        };
        let tables = |table: &str, key: &str| list(table, key).map_or(&[][..], Vec::as_slice);
        Ok(Self {
            licenses: texts("licenses", "allow")?,
            clarified: tables("licenses", "clarify")
                .iter()
                .map(|value| (field(value, "crate"), field(value, "expression")))
                .collect(),
            banned: tables("bans", "deny").iter().map(|value| field(value, "crate")).collect(),
            registries: texts("sources", "allow-registry")?,
        })
    }

    /// Why a package of `cargo metadata` is refused.
    fn fault(&self, package: &Value) -> Option<String> {
        let text = |key: &str| package[key].as_str();
        let name = text("name")?;
        let place = format!("{name} {}", text("version")?);
        if self.banned.iter().any(|banned| banned == name) {
            return Some(format!("{place}: the crate is banned"));
        }
        // A package without a source is in the workspace.
        let source = text("source")?;
        let registry = source.strip_prefix("registry+");
        if !registry.is_some_and(|registry| self.registries.iter().any(|r| r == registry)) {
            return Some(format!("{place}: its source is {source}, not an allowed registry"));
        }
        let clarified = self.clarified.iter().find(|(clarified, _)| clarified == name);
        let Some(license) = clarified.map(|(_, license)| license.as_str()).or(text("license"))
        else {
            return Some(format!("{place}: its manifest has no license"));
        };
        (!self.allows(license)).then(|| format!("{place}: its license is {license}"))
    }

    /// Whether a license expression can be met by the allowed licenses.
    fn allows(&self, license: &str) -> bool {
        spdx::Expression::parse_mode(license, spdx::ParseMode::LAX).is_ok_and(|expression| {
            expression.evaluate(|required| self.licenses.contains(&required.to_string()))
        })
    }
}

/// Every package that any feature or platform needs.
fn packages() -> Result<Vec<Value>, String> {
    let output = Command::new(program())
        .args(["metadata", "--all-features", "--locked", "--format-version", "1"])
        .current_dir(root())
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| format!("cargo metadata cannot be started: {error}"))?;
    let metadata: Value = serde_json::from_slice(&output.stdout)
        .map_err(|error| format!("cargo metadata printed no JSON: {error}"))?;
    let packages = metadata["packages"].as_array();
    packages.cloned().ok_or_else(|| "cargo metadata printed no packages".to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const CRATES_IO: &str = "registry+https://github.com/rust-lang/crates.io-index";

    fn fault(package: &Value) -> Option<String> {
        let text = std::fs::read_to_string(root().join(RULES)).unwrap();
        Rules::parse(&text).unwrap().fault(package)
    }

    #[test]
    fn licenses_are_expressions() {
        let fault = |license| {
            fault(&json!({
                "name": "a", "version": "1.0.0", "source": CRATES_IO, "license": license
            }))
        };
        for allowed in ["MIT OR GPL-3.0", "MIT/Apache-2.0", "(MIT OR GPL-3.0) AND NCSA"] {
            assert_eq!(fault(allowed), None);
        }
        for refused in ["GPL-3.0", "MIT AND GPL-3.0", "no license"] {
            assert_eq!(fault(refused), Some(format!("a 1.0.0: its license is {refused}")));
        }
    }

    #[test]
    fn a_banned_crate_another_registry_and_a_missing_license_are_refused() {
        let package = |name: &str, source: &str| json!({ "name": name, "version": "1.0.0", "source": source, "license": "MIT" });
        let banned = fault(&package("openssl-sys", CRATES_IO));
        assert_eq!(banned.unwrap(), "openssl-sys 1.0.0: the crate is banned");
        let git = fault(&package("a", "git+https://example.org/a"));
        assert!(git.unwrap().contains("not an allowed registry"));
        let unlicensed = json!({ "name": "a", "version": "1.0.0", "source": CRATES_IO });
        assert_eq!(fault(&unlicensed).unwrap(), "a 1.0.0: its manifest has no license");
        let ours = json!({ "name": "updraft", "version": "0.1.0" });
        assert_eq!(fault(&ours), None);
    }
}
